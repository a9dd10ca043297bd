"""What `moneystate apply` is to do: the configuration file as plain objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

MAX_RECORDS: Final = 1_000  # of a transaction
MAX_BYTES: Final = 1 << 20  # of their keys and values; a larger record is alone
ONE_BY_ONE: Final = 50  # most savepoints of a transaction


class Mode(StrEnum):
    upsert = "upsert"
    append = "append"


class Nul(StrEnum):
    """Describes what happens to a text with a NUL character, which PostgreSQL cannot store."""

    reject = "reject"
    remove = "remove"


class Start(StrEnum):
    """Describes where a partition without a position begins."""

    earliest = "earliest"
    latest = "latest"


class OnError(StrEnum):
    """Describes what happens to a record whose error is not one of its data."""

    fail = "fail"  # its partition stops; the others go on
    dead_letter = "dead-letter"


@dataclass(frozen=True)
class TopicSource:
    """A topic, and how its values are read."""

    topic: str  # without prefix
    format: str = "json"
    type: str = ""  # records of other types are ignored; empty: the topic has one type
    service: str = ""  # MODULE:NAME of the service whose schemas the values have
    schemas: str = ""  # or a file or folder of schemas
    start: Start = Start.earliest


@dataclass(frozen=True)
class RowsTarget:
    """Records of a topic as rows of a table."""

    name: str
    source: TopicSource
    table: tuple[str, str]  # schema and name
    key: tuple[str, ...]  # paths of fields; the Kafka key has their values
    columns: Mapping[str, str]  # path of a field by column; empty: all fields, in snake case
    mode: Mode = Mode.upsert
    nul: Nul = Nul.reject


@dataclass(frozen=True)
class HandlerTarget:
    """A function that reads and writes any tables."""

    name: str
    source: TopicSource
    function: str  # MODULE:NAME
    notifications: str = ""  # topic, without prefix
    notifications_format: str = "json"
    batch: bool = False  # the function takes a list of events


@dataclass(frozen=True)
class StateTarget:
    """The state of a service as tables."""

    name: str
    service: str  # MODULE:NAME
    schema: str  # of the tables
    personal: bool = False  # keys may be personal
    nul: Nul = Nul.reject


Target = RowsTarget | HandlerTarget | StateTarget


@dataclass(frozen=True)
class Settings:
    """All of the file."""

    application: str  # names the transactional id, the groups and the positions
    targets: tuple[Target, ...]
    bootstrap_servers: str
    topic_prefix: str = ""
    kafka: Mapping[str, str] = field(default_factory=dict)  # librdkafka's settings
    schema_registry: str = ""
    dsn_file: str = ""
    dsn_env: str = ""
    schema: str = "public"  # of the tables with positions and the outbox
    outbox_limit: int = 100_000  # rows of the outbox above which applying pauses

    @property
    def cursors_topic(self) -> str:
        return f"{self.topic_prefix}{self.application}-apply"

    @property
    def dead_letters_topic(self) -> str:
        return f"{self.topic_prefix}{self.application}-apply-dead-letters"

    @property
    def transactional_id(self) -> str:
        return f"{self.application}-outbox"

    def group(self, target: str) -> str:
        return f"{self.application}-{target}"

"""How changes is configured: the table `[changes]` of a configuration file. All of it decides results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

import moneystate as ms
from moneystate.errors import ServiceError

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")  # of a type of event
HOUR_MS: Final = 3_600_000
MAX_RETENTION_MS: Final = 30 * 24 * HOUR_MS


@dataclass(frozen=True)
class Reference:
    """`columns`: those that have the key of a row of `table`, in the order of its key."""

    table: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """`name`: in the database, `schema`: where it is, by default that of all; `key`: its primary key; `student`,
    `course`: what a link refers to; `full`: whether its replica identity is FULL; `decimals`: columns that must be
    decimals as texts; `topic`: by default the connector's for it."""

    name: str = ""
    key: tuple[str, ...] = ()
    schema: str = ""
    topic: str = ""
    student: Reference | None = None
    course: Reference | None = None
    full: bool = False
    decimals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """The types of events."""

    enroll: str = "enroll"
    change: str = "change"
    withdraw: str = "withdraw"
    created: str = "created"
    updated: str = "updated"
    deleted: str = "deleted"
    truncated: str = "truncated"
    late: str = "lateTransaction"


@dataclass(frozen=True)
class Config:
    """`connector`: its `topic.prefix`; `root`: the table whose key events have; `arrival_bound_ms`: how far topics may
    be out of order whose timestamps are the connector's, None where they are the broker's; `rows`: whether each row
    goes out, too; `format`: of the outputs."""

    connector: str = ""
    database: Literal["postgresql", "mysql"] = "postgresql"
    schema: str = "public"
    root: str = ""
    tables: tuple[Table, ...] = ()
    names: Names = field(default_factory=Names)
    transactions: bool = True
    transaction_topic: str = ""
    heartbeat_topic: str = ""
    transaction_wait_ms: int = 60_000
    settle_ms: int = 2_000
    wait_ms: int = 10_000
    duplicate_retention_ms: int = HOUR_MS
    snapshots: Literal["fill", "heal"] = "fill"
    placeholder: str = "__debezium_unavailable_value"
    arrival_bound_ms: int | None = None
    rows: bool = False
    format: Literal["json", "avro"] = "json"

    def topic_of(self, table: Table) -> str:
        return table.topic or f"{self.connector}.{self.schema_of(table)}.{table.name}"

    def schema_of(self, table: Table) -> str:
        return table.schema or self.schema

    def collection_of(self, table: Table) -> str:
        """The name of the table in the end of a transaction."""
        return f"{self.schema_of(table)}.{table.name}"

    @property
    def transactions_from(self) -> str:
        return self.transaction_topic or f"{self.connector}.transaction"

    @property
    def heartbeats_from(self) -> str:
        return self.heartbeat_topic or f"__debezium-heartbeat.{self.connector}"


def check(service: ms.Service[Config], config: Config) -> None:
    """Raises ServiceError, with one line for each mistake."""
    if config == Config():
        service.refuse_start(
            "expected tables, found no configuration.", "give --config FILE with [changes] and [[changes.tables]]."
        )
        return
    wrong = [(f"service {service.name!r}: {problem}.", f"{do}.") for problem, do in mistakes(config)]
    if wrong:
        *before, (problem, do) = wrong
        raise ServiceError("\n".join([*(f"{p} Do: {d}" for p, d in before), problem]), do)


def mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Yields what is wrong, and what to do."""
    if not config.connector:
        yield "connector is missing", "give the connector's topic.prefix"
    if not config.tables:
        yield "tables: there is none", "describe each table as [[changes.tables]]"
    by_name = {table.name: table for table in config.tables}
    if config.root not in by_name:
        yield f"root: {config.root!r} is none of the tables", "name the table whose key the events should have"
    for n, table in enumerate(config.tables, 1):
        where = f"table {table.name!r}" if table.name else f"table {n}"
        yield from _mistakes_of_table(config, where, table)
        for role in ("student", "course"):
            yield from _mistakes_of_reference(config, f"{where}: {role}", getattr(table, role), by_name)
    for name, count in Counter(table.name for table in config.tables).items():
        if count > 1:
            yield f"table {name!r}: the name is given {count} times", "describe each table once"
    yield from _mistakes_of_topics(config)
    yield from _mistakes_of_names(config)
    yield from _mistakes_of_times(config)


def _mistakes_of_table(config: Config, where: str, table: Table) -> Iterator[tuple[str, str]]:
    if not table.name:
        yield f"{where}: name is missing", "give the name that the table has in the database"
    if not table.key or len(set(table.key)) < len(table.key):
        yield f"{where}: key is {list(table.key)}", "name the columns of the primary key, each once"
    if (table.student is None) != (table.course is None):
        yield f"{where}: it has one of student and course", "give a link both, and other tables none"
    if table.student is not None and table.name == config.root:
        yield f"{where}: the root is a link", "make the table that the links call student the root"


def _mistakes_of_reference(
    config: Config, where: str, reference: Reference | None, by_name: dict[str, Table]
) -> Iterator[tuple[str, str]]:
    if reference is None:
        return
    parent = by_name.get(reference.table)
    if parent is None:
        yield f"{where}: {reference.table!r} is none of the tables", "describe it, or correct the name"
    elif parent.student is not None:
        yield f"{where}: {reference.table!r} is a link itself", "refer to a table that is no link"
    elif len(reference.columns) != len(parent.key):
        expected = f"{len(parent.key)} columns for the key of {reference.table!r}"
        yield f"{where}: expected {expected}, found {list(reference.columns)}", "name them in the order of the key"
    if where.endswith("student") and parent is not None and config.root in by_name and reference.table != config.root:
        yield f"{where}: {reference.table!r} is not the root", "let the student of each link be a row of the root"


def _mistakes_of_topics(config: Config) -> Iterator[tuple[str, str]]:
    topics = [config.topic_of(table) for table in config.tables]
    topics += [config.transactions_from, config.heartbeats_from]
    for topic in sorted({topic for topic in topics if topics.count(topic) > 1}):
        yield f"topic {topic!r} is given twice", "give each table, the transactions and the heartbeats a topic"


def _mistakes_of_names(config: Config) -> Iterator[tuple[str, str]]:
    names = [getattr(config.names, name.name) for name in fields(config.names)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"names: {name!r} is given twice", "give each type of event a name of its own"
    for name in sorted({name for name in names if not NAME.fullmatch(name)}):
        yield f"names: {name!r} is no name", "use letters, digits, '.', '_' and '-'"


def _mistakes_of_times(config: Config) -> Iterator[tuple[str, str]]:
    for name in ("transaction_wait", "settle", "wait"):
        if getattr(config, f"{name}_ms") <= 0:
            yield f"{name} is {getattr(config, f'{name}_ms')} ms", "give a duration above 0"
    if not 0 < config.duplicate_retention_ms <= MAX_RETENTION_MS:
        yield f"duplicate_retention is {config.duplicate_retention_ms} ms", "give a duration above 0, at most 30d"
    if config.arrival_bound_ms is not None and config.arrival_bound_ms < 0:
        yield f"arrival_bound is {config.arrival_bound_ms} ms", "give 0 or more, or leave it out"


def tables_by_name(config: Any) -> dict[str, Table]:
    return {table.name: table for table in config.tables}

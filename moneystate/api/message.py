"""A Kafka record, as a service's own `decode=` function receives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from moneystate.api.reject import Reject
from moneystate.engine.deadletter import Letter


@runtime_checkable
class NamesSchema(Protocol):
    """Converts values that name their schema."""

    def schema_of(self, value: bytes) -> str:
        """The schema of a value, as JSON text."""


def _no_registry() -> str:
    raise Reject("unknown_schema", "only a run with a schema registry knows the schema")


@dataclass(frozen=True)
class Message:
    """A record as Kafka delivers it."""

    topic: str  # without prefix
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = -1  # Kafka's; -1: the record has none
    key: bytes | None = None
    value: bytes | None = None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)  # the last of each name
    # Returns the schema of the value, as JSON text, for an input with format="confluent". The value itself is not
    # converted: its Avro body begins after 5 bytes. Raises ms.Reject if the value has no such schema
    schema: Callable[[], str] = field(default=_no_registry, repr=False, compare=False)


def message_of(topic: str, record: Letter, schema: Callable[[], str] = _no_registry) -> Message:
    """`topic`: as declared."""
    r = record
    name = r.name.decode() or topic
    return Message(name, r.partition, r.offset, r.timestamp_ms, r.key, r.value, dict(r.headers), schema)

"""A Kafka record, as a service's own `decode=` function receives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moneystate.engine.deadletter import Letter


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


def message_of(topic: str, record: Letter) -> Message:
    """`topic`: as declared."""
    r = record
    return Message(r.name.decode() or topic, r.partition, r.offset, r.timestamp_ms, r.key, r.value, dict(r.headers))

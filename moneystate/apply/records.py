"""What a record of a topic is to a target: values by field, a deletion, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.engine.items import Header

Fields = dict[str, Any]
HEARTBEAT: Final = "heartbeat"
OTHER_TYPE: Final = "other_type"
EMPTY: Final = "empty"


class Refused(Exception):
    """A record that becomes a dead letter. The detail names fields and what was expected, never a value."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(slots=True)  # not frozen: one is made for each record, and that would double its cost
class Record:
    """A record as Kafka delivers it."""

    topic: str  # with prefix
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = -1  # Kafka's; -1: the record has none
    headers: list[Header] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


@dataclass(slots=True)
class Put:
    """The values of a record, by field."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class Delete:
    """The row of the Kafka key is deleted. `fields`: the columns of the key, where the record itself has them."""

    fields: Fields | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The record has no effect on the target."""

    why: str


Decoded = Put | Delete | Ignored
Decode = Callable[[Record], Decoded]
"""Raises Refused for a record that does not decode."""


@dataclass(slots=True)
class Read:
    """A record, and what its target makes of it before the transaction begins: a registry may take its time, while
    locks may not be held for long."""

    record: Record
    content: Any = None  # the target's own; None: it has no effect
    refused: Refused | None = None


def read(records: Iterable[Record], content_of: Callable[[Record], Any]) -> list[Read]:
    """Reads all records. Each is checked, also one that a later one replaces, so dead letters do not depend on how the
    records are cut into transactions."""
    reads: list[Read] = []
    for record in records:
        try:
            reads.append(Read(record, content_of(record)))
        except Refused as e:
            reads.append(Read(record, refused=e))
    return reads

"""The outbox: notifications and dead letters as rows, until the relay has published them.

A row is numbered by its cause: target, topic, topic id, partition, offset, and a number for each effect of the same
record. Rows of one partition become visible in this order, because its position is locked while they are inserted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moneystate.apply.records import Record, Refused
from moneystate.engine.deadletter import Letter, write
from moneystate.engine.items import Header
from moneystate.records.codec import Codec
from moneystate.records.platform_records import LINEAGE_RECORD, Lineage

LARGEST: Final = 900_000  # bytes of key and value, below the broker's default limit of a message
LINEAGE: Final = "lineage"
_LINEAGE = Codec(LINEAGE_RECORD)


class Stream(NamedTuple):
    """An input partition of a target. Topic ids differ between a topic and one that was made again."""

    target: str
    topic: str
    topic_id: str
    partition: int

    @property
    def cursor_key(self) -> bytes:
        return json.dumps(self).encode()


class Number(NamedTuple):
    """The number of a row within its stream."""

    offset: int
    k: int


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A record to publish."""

    stream: Stream
    number: Number
    destination: str  # topic, with prefix
    key: bytes | None
    value: bytes | None
    headers: list[Header]


@dataclass
class Outgoing:
    """The rows of a transaction."""

    rows: list[OutboxRow] = field(default_factory=list)
    _last: tuple[Stream, int, int] | None = None

    def add(
        self, stream: Stream, offset: int, destination: str, key: bytes | None, value: bytes | None,
        headers: list[Header],
    ) -> None:  # fmt: skip
        k = 0
        if self._last is not None and self._last[:2] == (stream, offset):
            k = self._last[2] + 1
        self._last = (stream, offset, k)
        self.rows.append(OutboxRow(stream, Number(offset, k), destination, key, value, headers))

    def dead_letter(self, stream: Stream, record: Record, refused: Refused, destination: str) -> None:
        r = record
        letter = Letter(stream.topic, r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers)
        key, value, headers = write(letter, refused.reason, refused.detail)
        self.add(stream, r.offset, destination, key, value, headers)


def lineage_of(record: Record, topic: str) -> Header:
    """The header that names a notification's cause. `topic`: without prefix."""
    cause = Lineage(topic, record.partition, record.offset, max(record.timestamp_ms, 0))
    return LINEAGE, _LINEAGE.encode(cause)


def cursor_value(number: Number) -> bytes:
    return json.dumps({"offset": number.offset, "k": number.k}).encode()


def cursor_of(key: bytes | None, value: bytes | None) -> tuple[Stream, Number] | None:
    """A record of the topic of cursors; None: it is none."""
    try:
        target, topic, topic_id, partition = json.loads(key or b"")
        fields = json.loads(value or b"")
        return Stream(target, topic, topic_id, int(partition)), Number(int(fields["offset"]), int(fields["k"]))
    except (ValueError, TypeError, KeyError):
        return None


def unpublished(rows: Iterable[OutboxRow], cursors: dict[Stream, Number]) -> list[OutboxRow]:
    """The rows after the cursors. Earlier ones have been published, but not been deleted."""
    return [row for row in rows if row.stream not in cursors or row.number > cursors[row.stream]]


def moved_by(rows: Iterable[OutboxRow]) -> dict[Stream, Number]:
    """Returns where the cursors are once these rows have been published."""
    cursors: dict[Stream, Number] = {}
    for row in rows:
        cursors[row.stream] = max(row.number, cursors.get(row.stream, row.number))
    return cursors

"""The working copies of a service's state entries during a batch.

A cell has one entry's stored bytes and current value. Its `Kind` encodes and decodes the value as single-object encoded
Avro:

    value, map entry          the record; with a TTL `<Record>Kept`: at, sweepAt, value
    timer                     `Timer`: due, setAt, topic, partition, offset
    seen id                   `SeenId`: at, sweepAt

`at` is the order time of the last change. At `sweepAt` a timer is due that removes the entry if it has expired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from moneystate.api.codec import Codec
from moneystate.api.shapes import is_immutable
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, read_long
from moneystate.engine.items import NO_TIME, OFFSET, PARTITION, SET_AT, TIME, TOPIC, Item

Read = Callable[[bytes, int], tuple[Any, int]]  # reads a record's body at a position; returns the position after it

NEVER: Final = NO_TIME
NO_TTL: Final = 0


class Cell:
    """One entry during a batch."""

    def __init__(self, key: bytes, kind: Kind, owner: bytes, id: bytes) -> None:
        self.key = key
        self.kind = kind
        self.owner = owner
        self.id = id
        self.stored: bytes | None = None
        self.loaded = False  # `stored` has been read
        self.decoded = False  # `value` is current: decoded from `stored`, or set by a step
        self.dirty = False  # a step may have changed `value`
        self.value: Any = None  # None: there is no entry
        self.changed_at = NEVER  # order time; only with a TTL
        self.sweep_at = NEVER  # only with a TTL
        self.changed_by: Item | None = None  # the item of the last step that may have changed `value`

    def load(self, stored: bytes | None) -> None:
        self.stored = stored
        self.loaded = True

    def decode(self) -> None:
        """Decodes the stored bytes into `value`."""
        self.decoded = True
        if self.stored is not None:
            self.kind.decode(self, self.stored)

    def has_expired(self, time_ms: int) -> bool:
        """Whether the TTL has passed since the last change."""
        ttl_ms = self.kind.ttl_ms
        return ttl_ms != NO_TTL and self.changed_at != NEVER and time_ms >= self.changed_at + ttl_ms

    def encoded(self) -> bytes | None:
        """The bytes to store; None: no entry."""
        return None if self.value is None else self.kind.encode(self)


class Kind(ABC):
    """The entries of one value, map or timer, or of one topic's seen ids."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int) -> None:
        self.prefix = prefix  # of the entries' keys
        self.name = name
        self.ttl_ms = ttl_ms  # from the last change of an entry; NO_TTL: entries do not expire

    @abstractmethod
    def decode(self, cell: Cell, stored: bytes) -> None: ...

    @abstractmethod
    def encode(self, cell: Cell) -> bytes | None: ...

    def unknown_schema(self) -> Malformed:
        return Malformed(
            f"an entry of {self.name} has a schema that this program does not know: a newer program wrote it"
        )


class RecordKind(Kind):
    """The entries of a value or a map."""

    def __init__(
        self, prefix: bytes, name: str, ttl_ms: int, codec: Codec, kept_header: bytes, make_empty: Any
    ) -> None:
        super().__init__(prefix, name, ttl_ms)
        self.codec = codec
        self.kept_header = kept_header  # of `<Record>Kept`; empty without a TTL
        self.make_empty = make_empty  # makes a value's default record, which is not stored; None for a map
        self.empty_record: Any = None if make_empty is None else make_empty()
        self.header = kept_header if ttl_ms else codec.header
        self.earlier: dict[bytes, Read] = {}  # readers of earlier versions, by the header of an entry
        self.earlier_records: dict[bytes, Read] = {}  # the same, by the header of the record in it
        self.immutable = is_immutable(codec.record)

    def decode(self, cell: Cell, stored: bytes) -> None:
        read: Read = self.codec.read_own_body
        if not stored.startswith(self.header):
            earlier = self.earlier.get(stored[:HEADER_BYTES])
            if earlier is None:
                raise self.unknown_schema()
            read = earlier
        pos = HEADER_BYTES
        if self.ttl_ms:
            cell.changed_at, pos = read_long(stored, pos)
            cell.sweep_at, pos = read_long(stored, pos)
        cell.value = read(stored, pos)[0]

    def encode(self, cell: Cell) -> bytes | None:
        if self.make_empty is not None and cell.value == self.empty_record:
            return None
        if self.ttl_ms:
            times = long_bytes(cell.changed_at) + long_bytes(cell.sweep_at)
            return self.kept_header + times + self.codec.write_body(cell.value)
        return self.codec.encode(cell.value)


class SeenKind(Kind):
    """The ids seen by `unique` in one topic. Their value is True."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int, header: bytes) -> None:
        super().__init__(prefix, name, ttl_ms)
        self.header = header

    def decode(self, cell: Cell, stored: bytes) -> None:
        if not stored.startswith(self.header):
            raise self.unknown_schema()
        cell.changed_at, pos = read_long(stored, HEADER_BYTES)
        cell.sweep_at, _ = read_long(stored, pos)
        cell.value = True

    def encode(self, cell: Cell) -> bytes | None:
        return self.header + long_bytes(cell.changed_at) + long_bytes(cell.sweep_at)


def decode_entry(kind: Kind, stored: bytes, owner: bytes = b"", id: bytes = b"") -> Cell:
    """Decodes an entry outside of a batch. Raises Malformed."""
    cell = Cell(b"", kind, owner, id)
    cell.load(stored)
    cell.decode()
    return cell


# When a timer is due, and the event that set it: due, set_at, topic, partition, offset
TimerSetting = tuple[int, int, int, int, int]
DUE: Final = 0


class TimerKind(Kind):
    """The entries of one timer. Their value is a `TimerSetting`."""

    def __init__(self, prefix: bytes, name: str, header: bytes) -> None:
        super().__init__(prefix, name, NO_TTL)
        self.header = header

    def decode(self, cell: Cell, stored: bytes) -> None:
        if not stored.startswith(self.header):
            raise self.unknown_schema()
        due, pos = read_long(stored, HEADER_BYTES)
        set_at, pos = read_long(stored, pos)
        topic, pos = read_long(stored, pos)
        partition, pos = read_long(stored, pos)
        offset, pos = read_long(stored, pos)
        cell.value = (due, set_at, topic, partition, offset)

    def encode(self, cell: Cell) -> bytes | None:
        due, set_at, topic, partition, offset = cell.value
        return (
            self.header
            + long_bytes(due)
            + long_bytes(set_at)
            + long_bytes(topic)
            + long_bytes(partition)
            + long_bytes(offset)
        )


def setting_of(item: Item) -> TimerSetting:
    """The setting of the timer that runs as this item."""
    return item[TIME], item[SET_AT], item[TOPIC], item[PARTITION], item[OFFSET]

"""The working copies of a service's state entries during a batch.

A cell is one entry: what is stored, what it is now, and whether a step may have changed it. What its bytes mean, its
`Kind` knows. Values are single-object encoded Avro:

    value, map entry          the record; with a time to live `<Record>Kept`: at, sweepAt, value
    timer                     `Timer`: due, setAt, topic, partition, offset
    seen id                   `SeenId`: at, sweepAt

`at`: order time of the last change; `sweepAt`: when the timer is due that looks whether the entry has expired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from moneystate.api.codec import Codec
from moneystate.api.shapes import is_immutable
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, read_long
from moneystate.engine.items import NO_TIME, OFFSET, PARTITION, SET_AT, TIME, TOPIC, Item

Read = Callable[[bytes, int], tuple[Any, int]]  # of a record's body

NEVER: Final = NO_TIME
NO_TTL: Final = 0


class Cell:
    """`value`: None where there is no entry; `loaded`: whether `stored` is known; `live`: whether `value` is made of
    it; `by`: the item whose step was the last to have it."""

    def __init__(self, key: bytes, kind: Kind, owner: bytes, id: bytes) -> None:
        self.key = key
        self.kind = kind
        self.owner = owner
        self.id = id
        self.stored: bytes | None = None
        self.loaded = False
        self.live = False
        self.dirty = False
        self.value: Any = None
        self.at = NEVER
        self.sweep_at = NEVER
        self.by: Item | None = None

    def load(self, stored: bytes | None) -> None:
        self.stored = stored
        self.loaded = True

    def wake(self) -> None:
        """Make the value of what is stored."""
        self.live = True
        if self.stored is not None:
            self.kind.decode(self, self.stored)

    def has_expired(self, time_ms: int) -> bool:
        """Whether its time to live has passed since its last change."""
        ttl_ms = self.kind.ttl_ms
        return ttl_ms != NO_TTL and self.at != NEVER and time_ms >= self.at + ttl_ms

    def encoded(self) -> bytes | None:
        """What is to be stored."""
        return None if self.value is None else self.kind.encode(self)


class Kind(ABC):
    """All entries of one value, map, timer or topic. `prefix`: of their keys; `ttl_ms`: NO_TTL, or how long an entry
    lives after its last change."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int) -> None:
        self.prefix = prefix
        self.name = name
        self.ttl_ms = ttl_ms

    @abstractmethod
    def decode(self, cell: Cell, stored: bytes) -> None: ...

    @abstractmethod
    def encode(self, cell: Cell) -> bytes | None: ...

    def unknown(self) -> Malformed:
        return Malformed(f"an entry of {self.name} has a schema that this program does not know: it is newer")


class RecordKind(Kind):
    """Of a value or a map. `kept`: the header of `<Record>Kept`, where there is a time to live; `empty`: makes the
    record that is no entry, None of a map. `earlier`, `earlier_records`: readers of earlier versions, by the
    header of their entries and of their records."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int, codec: Codec, kept_header: bytes, empty: Any) -> None:
        super().__init__(prefix, name, ttl_ms)
        self.codec = codec
        self.kept = kept_header
        self.empty = empty
        self.none: Any = None if empty is None else empty()
        self.header = kept_header if ttl_ms else codec.header
        self.earlier: dict[bytes, Read] = {}
        self.earlier_records: dict[bytes, Read] = {}
        self.immutable = is_immutable(codec.record)

    def decode(self, cell: Cell, stored: bytes) -> None:
        read: Read = self.codec.read_own_body
        if not stored.startswith(self.header):
            earlier = self.earlier.get(stored[:HEADER_BYTES])
            if earlier is None:
                raise self.unknown()
            read = earlier
        pos = HEADER_BYTES
        if self.ttl_ms:
            cell.at, pos = read_long(stored, pos)
            cell.sweep_at, pos = read_long(stored, pos)
        cell.value = read(stored, pos)[0]

    def encode(self, cell: Cell) -> bytes | None:
        if self.empty is not None and cell.value == self.none:
            return None
        if self.ttl_ms:
            times = long_bytes(cell.at) + long_bytes(cell.sweep_at)
            return self.kept + times + self.codec.write_body(cell.value)
        return self.codec.encode(cell.value)


class SeenKind(Kind):
    """Of ids seen by `unique`. Their value is True."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int, header: bytes) -> None:
        super().__init__(prefix, name, ttl_ms)
        self.header = header

    def decode(self, cell: Cell, stored: bytes) -> None:
        if not stored.startswith(self.header):
            raise self.unknown()
        cell.at, pos = read_long(stored, HEADER_BYTES)
        cell.sweep_at, _ = read_long(stored, pos)
        cell.value = True

    def encode(self, cell: Cell) -> bytes | None:
        return self.header + long_bytes(cell.at) + long_bytes(cell.sweep_at)


def opened(kind: Kind, stored: bytes, owner: bytes = b"", id: bytes = b"") -> Cell:
    """What is stored, outside of a batch. Raises Malformed."""
    cell = Cell(b"", kind, owner, id)
    cell.load(stored)
    cell.wake()
    return cell


Set = tuple[int, int, int, int, int]  # of a timer: due, and as in the item: set_at, topic, partition, offset


class TimerKind(Kind):
    """Of timers. Their value is a `Set`."""

    def __init__(self, prefix: bytes, name: str, header: bytes) -> None:
        super().__init__(prefix, name, NO_TTL)
        self.header = header

    def decode(self, cell: Cell, stored: bytes) -> None:
        if not stored.startswith(self.header):
            raise self.unknown()
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


def set_of(item: Item) -> Set:
    """Of the timer that an item is."""
    return item[TIME], item[SET_AT], item[TOPIC], item[PARTITION], item[OFFSET]

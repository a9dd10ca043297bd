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
from moneystate.api.generate import runs_code
from moneystate.api.handles import AnyIndex
from moneystate.api.shapes import is_immutable, is_plain
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, read_long
from moneystate.engine.items import NO_TIME, OFFSET, PARTITION, SET_AT, TIME, TOPIC, Item

Read = Callable[[bytes, int], tuple[Any, int]]  # reads a record's body at a position; returns the position after it

NEVER: Final = NO_TIME
NO_TTL: Final = 0


class Cell:
    """One entry during a batch.

    Between steps a record is bytes: `body` if a step of the batch may have changed it, else `stored`. So a step gets
    the same record whether or not the step before it was in the same batch.
    """

    def __init__(self, key: bytes, kind: Kind, owner: bytes, id: bytes) -> None:
        self.key = key
        self.kind = kind
        self.owner = owner
        self.id = id
        self.stored: bytes | None = None
        self.loaded = False  # `stored` has been read
        self.decoded = False  # `value` is current
        self.dirty = False  # a step may have changed the entry: `body` is current, and `stored` is not
        self.body: bytes | None = None  # the record as a step left it; None: there is no entry
        self.value: Any = None  # None: there is no entry
        self.changed_at = NEVER  # order time; only with a TTL
        self.sweep_at = NEVER  # only with a TTL

    def load(self, stored: bytes | None) -> None:
        self.stored = stored
        self.loaded = True

    def decode(self) -> None:
        """Makes `value` current."""
        if self.dirty:
            self.kind.decode_body(self)
        elif self.stored is not None:
            self.kind.decode(self, self.stored)
        self.decoded = True

    def forget_value(self) -> None:
        """The next step decodes the record again."""
        self.value = None
        self.decoded = False

    def exists(self, time_ms: int) -> bool:
        """Whether there is an entry that has not expired. The cell is loaded or dirty."""
        if self.decoded:
            exists = self.value is not None
        elif self.dirty:
            exists = self.body is not None
        else:
            if self.stored is not None and self.kind.ttl_ms != NO_TTL:
                self.decode()
            exists = self.stored is not None
        return exists and not self.has_expired(time_ms)

    def has_expired(self, time_ms: int) -> bool:
        """Whether the TTL has passed since the last change."""
        ttl_ms = self.kind.ttl_ms
        return ttl_ms != NO_TTL and self.changed_at != NEVER and time_ms >= self.changed_at + ttl_ms

    def encoded(self) -> bytes | None:
        """The bytes to store; None: no entry."""
        return self.kind.encode(self)


class Kind(ABC):
    """The entries of one value, map or timer, or of one topic's seen ids."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int) -> None:
        self.prefix = prefix  # of the entries' keys
        self.name = name
        self.ttl_ms = ttl_ms  # from the last change of an entry; NO_TTL: entries do not expire

    @abstractmethod
    def decode(self, cell: Cell, stored: bytes) -> None: ...

    def decode_body(self, cell: Cell) -> None:
        """Decodes a record as a step left it. Other values are always current."""
        return

    @abstractmethod
    def encode(self, cell: Cell) -> bytes | None: ...

    def unknown_schema(self) -> Malformed:
        return Malformed(
            f"an entry of {self.name} has a schema that this program does not know: a newer program wrote it"
        )


class RecordKind(Kind):
    """The entries of a value or a map."""

    def __init__(
        self, prefix: bytes, name: str, ttl_ms: int, codec: Codec, kept_header: bytes, make_default: Any
    ) -> None:
        super().__init__(prefix, name, ttl_ms)
        self.codec = codec
        self.kept_header = kept_header  # of `<Record>Kept`; empty without a TTL
        # a value's default record, which is not stored; None for a map
        self.default_body: bytes | None = None if make_default is None else codec.write_body(make_default())
        self.header = kept_header if ttl_ms else codec.header
        self.earlier: dict[bytes, Read] = {}  # readers of earlier versions, by the header of an entry
        self.earlier_records: dict[bytes, Read] = {}  # the same, by the header of the record in it
        self.immutable = is_immutable(codec.record)
        self.indices: list[AnyIndex[Any, Any]] = []
        self.is_plain = is_plain(codec.record)  # a record in memory has no other values than one that is read again
        self.runs_code = runs_code(codec.record)  # to read a record runs code of the service, which may refuse it

    def decode(self, cell: Cell, stored: bytes) -> None:
        read = self._read_of(stored)
        pos = HEADER_BYTES
        if self.ttl_ms:
            cell.changed_at, pos = read_long(stored, pos)
            cell.sweep_at, pos = read_long(stored, pos)
        cell.value = read(stored, pos)[0]

    def _read_of(self, stored: bytes) -> Read:
        """Reads the body of an entry."""
        if stored.startswith(self.header):
            return self.codec.read_own_body
        earlier = self.earlier.get(stored[:HEADER_BYTES])
        if earlier is None:
            raise self.unknown_schema()
        return earlier

    def decode_body(self, cell: Cell) -> None:
        body = cell.body
        cell.value = None if body is None else self.codec.read_own_body(body, 0)[0]

    def default(self) -> Any:
        """A new default record of a value, in the form that a stored one has."""
        assert self.default_body is not None
        return self.codec.read_own_body(self.default_body, 0)[0]

    def body_of(self, value: Any) -> bytes | None:
        """The encoded record; None: no entry. Raises StepError if a field cannot hold its value."""
        body = None if value is None else self.codec.write_body(value)
        return None if body == self.default_body else body

    def stored_body(self, stored: bytes) -> bytes:
        """The body of an entry, in the current version of the record."""
        read = self._read_of(stored)
        pos = HEADER_BYTES
        if self.ttl_ms:
            _, pos = read_long(stored, pos)
            _, pos = read_long(stored, pos)
        return stored[pos:] if stored.startswith(self.header) else self.codec.write_body(read(stored, pos)[0])

    def encode(self, cell: Cell) -> bytes | None:
        body = cell.body if cell.dirty else self.body_of(cell.value)
        if body is None:
            return None
        if self.ttl_ms:
            return self.kept_header + long_bytes(cell.changed_at) + long_bytes(cell.sweep_at) + body
        return self.header + body


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
        if cell.value is None:
            return None
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
        if cell.value is None:
            return None
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

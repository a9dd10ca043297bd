"""The working copies of a service's state entries during a batch.

A cell has one entry's stored bytes and current value. Its `Kind` encodes and decodes the value as single-object encoded
Avro:

    value, map entry          the record; if a TTL is declared `<Record>Kept`: at, sweepAt, value
    timer                     `Timer`: due, setAt, topic, partition, offset
    ids seen by `unique`      `SeenIds` (`moneystate.runtime.seen_page`)

`at` is the order time of the last change. At `sweepAt` a timer is due that removes the entry if it has expired.

The form depends on the declaration, never on a rule: with `ttl_ms=lambda rules: rules.keep_ms` the times are stored
even while the rule is 0. The schemas of both forms have fingerprints of their own, so an entry of either form is read,
whatever is declared now.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moneystate.api.handles import AnyIndex
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, read_long
from moneystate.engine.items import NO_TIME, OFFSET, PARTITION, SET_AT, TIME, TOPIC, Item
from moneystate.records.codec import Codec
from moneystate.records.construction import runs_code
from moneystate.records.shapes import is_immutable, is_plain
from moneystate.records.untouched import fields_of

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
        self.settled = True  # no step is changing the entry
        self.is_shared = False  # `value` is an object that a step gave, which may be in other places, too
        self.body: bytes | None = None  # the record as a step left it; None: there is no entry
        self.value: Any = None  # None: there is no entry
        self.changed_at = NEVER  # order time; only with a TTL
        self.sweep_at = NEVER  # only with a TTL

    def load(self, stored: bytes | None) -> None:
        self.stored = stored
        self.loaded = True

    def decode(self) -> None:
        """Makes `value` current. If that fails, the cell stays as it is: an entry that cannot be read is not a missing
        one."""
        if self.dirty:
            self.kind.decode_body(self)
        elif self.stored is not None:
            self.kind.decode(self, self.stored)
        self.decoded = True

    def forget_value(self) -> None:
        """The next step decodes the record again."""
        self.value = None
        self.decoded = False
        self.is_shared = False

    def exists(self, time_ms: int) -> bool:
        """Whether there is an entry that has not expired. The cell is loaded or dirty."""
        if self.decoded:
            exists = self.value is not None
        elif self.dirty:
            exists = self.body is not None
        else:
            self.load_times()
            exists = self.stored is not None
        return exists and not self.has_expired(time_ms)

    def load_times(self) -> None:
        """Makes the times current. The cell is loaded or dirty."""
        if self.stored is not None and not self.decoded and not self.dirty and self.kind.keeps_times:
            self.changed_at, self.sweep_at = self.kind.times(self.stored)

    def has_expired(self, time_ms: int) -> bool:
        """Whether the TTL has passed since the last change."""
        ttl_ms = self.kind.ttl_ms
        return ttl_ms != NO_TTL and self.changed_at != NEVER and time_ms >= self.changed_at + ttl_ms

    def encoded(self) -> bytes | None:
        """The bytes to store; None: no entry."""
        return self.kind.encode(self)


class Kind(ABC):
    """The entries of one value, map or timer, or of the ids that `unique` has seen in one topic."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int, keeps_times: bool) -> None:
        self.prefix = prefix  # of the entries' keys
        self.name = name
        self.ttl_ms = ttl_ms  # from the last change of an entry; NO_TTL: entries do not expire
        self.keeps_times = keeps_times  # new entries have the times of their last change and their sweep

    def expires(self) -> bool:
        """Whether entries have a sweep."""
        return self.ttl_ms != NO_TTL

    @abstractmethod
    def decode(self, cell: Cell, stored: bytes) -> None: ...

    def decode_body(self, cell: Cell) -> None:
        """Decodes a record as a step left it. Other values are always current."""
        return

    @abstractmethod
    def times(self, stored: bytes) -> tuple[int, int]:
        """The times of the last change and the sweep of a stored entry, without its content. NEVER: it has none."""
        ...

    @abstractmethod
    def encode(self, cell: Cell) -> bytes | None: ...

    def unknown_schema(self) -> Malformed:
        return Malformed(
            f"an entry of {self.name} has a schema that this program does not know: a newer program wrote it"
        )


class Form(NamedTuple):
    """A schema that entries of a value or a map may have."""

    read: Read  # of the record in it
    has_times: bool
    is_current: bool  # the record has its current version


class RecordKind(Kind):
    """The entries of a value or a map."""

    def __init__(
        self, prefix: bytes, name: str, ttl_ms: int, codec: Codec, kept_header: bytes, keeps_times: bool,
        make_default: Any,
    ) -> None:  # fmt: skip
        super().__init__(prefix, name, ttl_ms, keeps_times)
        self.codec = codec
        # a value's default record, which is not stored; None for a map
        self.default_body: bytes | None = None if make_default is None else codec.write_body(make_default())
        self.header = kept_header if keeps_times else codec.header
        # the forms that new entries do not have, by the header of an entry
        self.earlier: dict[bytes, Form] = {}
        self.earlier_records: dict[bytes, Read] = {}  # readers of earlier versions, by the header of the record
        self.versions: list[tuple[bytes, bytes]] = []  # headers of the forms of each version; the first is the current
        self.add_version(codec.header, kept_header, codec.read_own_body)
        self.immutable = is_immutable(codec.record)
        self.indices: list[AnyIndex[Any, Any]] = []
        self.is_plain = is_plain(codec.record)  # a record in memory has no other values than one that is read again
        self.title = f"{'map' if make_default is None else 'value'} {name}"
        self.exact = codec.exact
        # These find records that a step has only read; with times, an unchanged record may still have expired
        self.fields = None if keeps_times else fields_of(codec.record)
        self.runs_code = runs_code(codec.record)  # to read a record runs code of the service, which may refuse it

    def add_version(self, header: bytes, kept_header: bytes, read: Read) -> None:
        """Makes a version of the record readable, with the times and without them."""
        for form_header, has_times in ((header, False), (kept_header, True)):
            if form_header != self.header:
                self.earlier[form_header] = Form(read, has_times, not self.versions)
        self.versions.append((header, kept_header))

    def decode(self, cell: Cell, stored: bytes) -> None:
        form = self._earlier_form(stored)
        changed_at = sweep_at = NEVER
        pos = HEADER_BYTES
        if self.keeps_times if form is None else form.has_times:
            changed_at, pos = read_long(stored, pos)
            sweep_at, pos = read_long(stored, pos)
        cell.value = self.codec.read_own_body(stored, pos)[0] if form is None else form.read(stored, pos)[0]
        cell.changed_at = changed_at
        cell.sweep_at = sweep_at

    def times(self, stored: bytes) -> tuple[int, int]:
        form = self._earlier_form(stored)
        if not (self.keeps_times if form is None else form.has_times):
            return NEVER, NEVER
        changed_at, pos = read_long(stored, HEADER_BYTES)
        return changed_at, read_long(stored, pos)[0]

    def _earlier_form(self, stored: bytes) -> Form | None:
        """None: the form of new entries. Raises Malformed for a schema that no known version has."""
        if stored.startswith(self.header):
            return None
        form = self.earlier.get(stored[:HEADER_BYTES])
        if form is None:
            raise self.unknown_schema()
        return form

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
        form = self._earlier_form(stored)
        pos = HEADER_BYTES
        if self.keeps_times if form is None else form.has_times:
            _, pos = read_long(stored, pos)
            _, pos = read_long(stored, pos)
        if form is None or form.is_current:
            return stored[pos:]
        return self.codec.write_body(form.read(stored, pos)[0])

    def body_of_entry(self, cell: Cell) -> bytes:
        """The body of an entry that exists, in the current version of the record. The cell is loaded or dirty."""
        body = cell.body if cell.dirty or cell.stored is None else self.stored_body(cell.stored)
        assert body is not None
        return body

    def encode(self, cell: Cell) -> bytes | None:
        body = cell.body if cell.dirty else self.body_of(cell.value)
        if body is None:
            return None
        if self.keeps_times:
            return self.header + long_bytes(cell.changed_at) + long_bytes(cell.sweep_at) + body
        return self.header + body


def decode_entry(kind: Kind, stored: bytes, owner: bytes = b"", id: bytes = b"") -> Cell:
    """Decodes an entry outside of a batch. Raises Malformed, also if a function of the service fails: nobody may take
    the entry for a missing one."""
    cell = Cell(b"", kind, owner, id)
    cell.load(stored)
    try:
        cell.decode()
    except Malformed:
        raise
    except Exception as e:
        raise Malformed(
            f"an entry of {kind.name}{_place(owner, id)}: its upgrade function raised {type(e).__name__}: {e}"
        ) from e
    return cell


def _place(owner: bytes, id: bytes) -> str:
    texts = [f"{name} {part.decode(errors='replace')!r}" for name, part in (("key", owner), ("id", id)) if part]
    return " with " + ", ".join(texts) if texts else ""


# When a timer is due, and the event that set it: due, set_at, topic, partition, offset
TimerSetting = tuple[int, int, int, int, int]
DUE: Final = 0


class TimerKind(Kind):
    """The entries of one timer. Their value is a `TimerSetting`."""

    def __init__(self, prefix: bytes, name: str, header: bytes) -> None:
        super().__init__(prefix, name, NO_TTL, False)
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

    def times(self, stored: bytes) -> tuple[int, int]:
        return NEVER, NEVER

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

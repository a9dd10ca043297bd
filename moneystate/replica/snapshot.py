"""Reads a service's state as of one version, from the replica's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from moneystate.api.handles import AnyIndex
from moneystate.engine.avro import Malformed
from moneystate.records.index_order import Span
from moneystate.replica import model, ordered_index, range_scan, rows
from moneystate.replica.files import Db
from moneystate.replica.listing import ENTRIES_EXAMINED, EXAMINED, READ_AT_ONCE, mark_of, page_of
from moneystate.replica.model import Entry, EventPlace, Header, Item, Page, SetTimer, Unreadable
from moneystate.replica.range_scan import EntryRow
from moneystate.replica.record import Revision
from moneystate.runtime import layout
from moneystate.runtime.cells import RecordKind, decode_entry
from moneystate.runtime.entry_view import record_of
from moneystate.runtime.plan import Plan
from moneystate.runtime.replica_model import index_span, place_of

if TYPE_CHECKING:
    from moneystate.replica.reader import ReplicaReader


def entry_of(kind: RecordKind, owner: bytes, id: bytes = b"") -> bytes:
    """The entry's key in rows."""
    return rows.escape(owner) + kind.prefix + id


def _item_place(entry: bytes) -> tuple[bytes, str, bytes, bytes]:
    """Owner, name, id and prefix of an entry's key in rows."""
    owner, kind, rest = rows.split_entry(entry)
    name_end = 1 + rest[0]
    return owner, rest[1:name_end].decode("ascii", "replace"), rest[name_end:], kind + rest[:name_end]


class Snapshot:
    """The state of one version. The reader's files advance, and may even change to a rebuilt database; the snapshot
    does not."""

    def __init__(self, reader: ReplicaReader, db: Db, revision: Revision, header: Header) -> None:
        self.reader = reader
        self.model = reader.model
        self.db = db
        self.revision = revision.number
        self.watermark_ms = revision.watermark_ms
        self.rules = revision.rules
        self.header = header

    @cached_property
    def plan(self) -> Plan:
        return self.model.plan_at(self.rules)

    def check(self) -> None:
        """Raises Pruned if the rows of this version may be gone."""
        if self.reader.db is not self.db or self.revision < self.reader.record.floor:
            raise self.reader.pruned()

    # Entries as they are stored

    def read(self, entry: bytes) -> bytes | None:
        """The entry as it was at this version."""
        row = self.db.get(rows.LATEST + entry)
        if row is not None and rows.read_long(row) <= self.revision:
            return row[rows.LONG_BYTES :]
        if self.revision >= self.reader.record.last:
            return None
        for _, was in self.db.items(rows.past_key(entry, self.revision), rows.past_key(entry, 0)):
            until, value = rows.read_past(was)
            return value if self.revision < until else None
        return None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries of this version whose keys begin with `prefix`, in order."""
        for entry, value in range_scan.entries(self.db, self.revision, prefix, prefix, self._has_past()):
            if value is not None:
                yield entry, value

    def index_keys(self, span: Span) -> Iterator[bytes]:
        return ordered_index.keys(self.db, self.revision, span.low, span.high, self.reader.record.last)

    def _has_past(self) -> bool:
        """Whether there are values that ended after this version."""
        return self.revision < self.reader.record.last

    def _marked(self, prefix: bytes, first: bytes) -> Iterator[tuple[bytes, EntryRow]]:
        """The entries that begin with `prefix`, from `first` on, each with the mark that leads to it."""
        for row in range_scan.entries(self.db, self.revision, prefix, first, self._has_past()):
            yield rows.LATEST + row[0], row

    def entries(self, limit: int, after: bytes | None) -> Page[Entry]:
        """All entries, as they are in the changelog."""
        self.check()
        first = mark_of(after, rows.LATEST)[1:]
        return page_of(self._marked(b"", first), self._entry, limit, ENTRIES_EXAMINED)

    def _entry(self, row: EntryRow) -> Entry | None:
        entry, value = row
        if value is None:
            return None
        owner, kind, rest = rows.split_entry(entry)
        return Entry(self.model.join(kind, owner, rest), value)

    # Records

    def record(self, kind: RecordKind, owner: bytes, id: bytes = b"") -> Any:
        """None: there is none."""
        self.check()
        return self.readable(kind, self.read(entry_of(kind, owner, id)))

    def readable(self, kind: RecordKind, stored: bytes | None) -> Any:
        """The record of an entry, or Unreadable. None: there is no entry, or it has expired."""
        try:
            return record_of(kind, stored, self.watermark_ms)
        except Malformed as e:
            return Unreadable(str(e))
        except Exception as e:  # of the service's code, such as an upgrade; its text may have content of the record
            return Unreadable(f"{type(e).__name__} in the code of the service")

    def item(self, entry: bytes, stored: bytes | None) -> Item | None:
        """None: the entry is neither a value nor an entry of a map."""
        owner, name, id, prefix = _item_place(entry)
        kind = self.plan.by_prefix.get(prefix)
        return Item(name, owner, id, self.readable(kind, stored)) if isinstance(kind, RecordKind) else None

    def values(self, owner: bytes) -> list[Item]:
        """All values of the key."""
        self.check()
        kinds = [kind for kind in self.plan.kinds.values() if kind.prefix[:1] == layout.VALUE]
        items = [Item(kind.name, owner, b"", self.record(kind, owner)) for kind in kinds]
        return [item for item in items if item.record is not None]

    def may_have_entries(self, kind: RecordKind, owner: bytes) -> bool:
        """False: the key has no entries. It may be True if all have expired and are not removed yet."""
        stored = list(islice(self.scan(entry_of(kind, owner)), READ_AT_ONCE))
        return len(stored) == READ_AT_ONCE or any(self.readable(kind, value) is not None for _, value in stored)

    def entries_of(self, kind: RecordKind, owner: bytes, prefix: bytes, limit: int, after: bytes | None) -> Page[Item]:
        """Entries of a map whose ids begin with `prefix`, in their order."""
        self.check()
        base = entry_of(kind, owner)
        first = mark_of(after, rows.LATEST + base + prefix)[1:]
        return page_of(self._marked(base + prefix, first), self._read(kind, base), limit, EXAMINED)

    def _read(self, kind: RecordKind, base: bytes) -> Callable[[EntryRow], Item | None]:
        owner, start = rows.unescape(base, 0)[0], len(base)

        def read(row: EntryRow) -> Item | None:
            entry, stored = row
            record = self.readable(kind, stored)
            return None if record is None else Item(kind.name, owner, entry[start:], record)

        return read

    def keys(
        self, kind: RecordKind, prefix: bytes, start: bytes, end: bytes, limit: int, after: bytes | None
    ) -> Page[Item]:
        """All records of a value, or all entries of a map, by key: keys that begin with `prefix`, from `start` to
        before `end`. Empty: no limit."""
        self.check()
        first = max(rows.escape_start(prefix), rows.escape_start(start), mark_of(after, rows.LATEST)[1:])
        ends = [rows.escape(end)] if end else []
        if prefix:
            ends.append(rows.after(rows.escape_start(prefix)))
        last = min(ends, default=b"")
        return page_of(self._by_key(kind, first, last), lambda item: item, limit, EXAMINED)

    def _by_key(self, kind: RecordKind, first: bytes, last: bytes) -> Iterator[tuple[bytes, Item | None]]:
        here = rows.escape(rows.unescape(first, 0)[0]) if rows.END in first else first
        for owner in range_scan.owners(self.db, here, last, self._has_past()):
            base = entry_of(kind, owner)
            read = self._read(kind, base)
            if kind.prefix[:1] == layout.VALUE:
                yield rows.LATEST + base, read((base, self.read(base)))
                continue
            has_none = True
            for mark, row in self._marked(base, max(base, first)):
                has_none = False
                yield mark, read(row)
            if has_none:  # counts as a step, because most keys may have no entry of the map
                yield rows.LATEST + base, None

    def matching(self, index: AnyIndex[Any, Any], span: Span, limit: int, after: bytes | None) -> Page[Item]:
        """The matches of the index, in its order."""
        self.check()
        low, high = index_span(index.name, span)
        first = low if after is None else mark_of(after, rows.INDEX)[1:]
        if not low <= first <= high:
            raise model.Malformed("after: expected the mark of this listing's previous page")
        keys = self.index_keys(Span(first, high))
        return page_of(((rows.INDEX + key, key) for key in keys), self._match(index), limit, EXAMINED)

    def _match(self, index: AnyIndex[Any, Any]) -> Callable[[bytes], Item | None]:
        kind = self.plan.kinds[index.of.name]

        def read(key: bytes) -> Item | None:
            _, owner, id = place_of(index.name, key)
            record = self.readable(kind, self.read(entry_of(kind, owner, id)))
            return None if record is None else Item(kind.name, owner, id, record)

        return read

    def timers(self, owner: bytes, limit: int) -> list[SetTimer]:
        """The timers of a key that are set."""
        self.check()
        kinds = {plan.kind.prefix: plan.kind for plan in self.plan.timers.values()}
        timers: list[SetTimer] = []
        for entry, stored in islice(self.scan(rows.escape(owner) + layout.TIMER), limit):
            _, name, id, prefix = _item_place(entry)
            if prefix in kinds:
                try:
                    due, set_at, topic, partition, offset = decode_entry(kinds[prefix], stored, owner, id).value
                except Malformed:
                    continue
                source = EventPlace(self.plan.topics.get(topic, str(topic)), partition, offset, set_at)
                timers.append(SetTimer(name, id, due, source))
        return timers

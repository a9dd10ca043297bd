"""A view of a service's state as of one version, from the replica's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final

from moneystate.api.handles import AnyIndex
from moneystate.engine.avro import Malformed
from moneystate.records.index_order import Span
from moneystate.replica import model, ordered_index, range_scan, rows
from moneystate.replica.model import Page
from moneystate.replica.snapshot import EXAMINED, Snapshot, mark_of, page_of
from moneystate.runtime import layout
from moneystate.runtime.cells import RecordKind
from moneystate.runtime.entry_view import Match, StateView
from moneystate.runtime.plan import Plan
from moneystate.runtime.replica_model import index_span, place_of

READ_AT_ONCE: Final = 200  # entries that a listing examines before it checks again that the version is still kept


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in place of a record that cannot be decoded."""

    problem: str


OneAtATime = Callable[[Callable[[], Any]], Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A value of a key, or an entry of a map."""

    state: str
    owner: bytes
    id: bytes  # empty for a value
    record: Any  # None: it no longer exists; Unreadable


def entry_of(kind: RecordKind, owner: bytes, id: bytes = b"") -> bytes:
    """The entry's key in rows."""
    return rows.escape(owner) + kind.prefix + id


def item_place(entry: bytes) -> tuple[bytes, str, bytes, bytes]:
    """Owner, name, id and prefix of an entry's key in rows."""
    owner, kind, rest = rows.split_entry(entry)
    name_end = 1 + rest[0]
    return owner, rest[1:name_end].decode("ascii", "replace"), rest[name_end:], kind + rest[:name_end]


class ServiceSnapshot(Snapshot):
    @cached_property
    def plan(self) -> Plan:
        return self.model.plan_at(self.rules)

    @cached_property
    def view(self) -> ReplicaView:
        return ReplicaView(self)

    def values(self, owner: bytes) -> list[Item]:
        """All values of the key."""
        self.check()
        kinds = [kind for kind in self.plan.kinds.values() if kind.prefix[:1] == layout.VALUE]
        items = [Item(kind.name, owner, b"", self.record(kind, owner)) for kind in kinds]
        return [item for item in items if item.record is not None]

    def record(self, kind: RecordKind, owner: bytes, id: bytes = b"") -> Any:
        """None: there is none."""
        self.check()
        return self.readable(kind, self.read(entry_of(kind, owner, id)))

    def readable(self, kind: RecordKind, stored: bytes | None) -> Any:
        """The record of an entry, or Unreadable. None: there is no entry, or it has expired."""
        try:
            return self.view.record(kind, stored)
        except Malformed as e:
            return Unreadable(str(e))
        except Exception as e:  # of the service's code, such as an upgrade; its text may have content of the record
            return Unreadable(f"{type(e).__name__} in the code of the service")

    def may_have_entries(self, kind: RecordKind, owner: bytes) -> bool:
        """False: the key has no entries. It may be True if all have expired and are not removed yet."""
        stored = list(islice(self.scan(entry_of(kind, owner)), READ_AT_ONCE))
        return len(stored) == READ_AT_ONCE or any(self.readable(kind, value) is not None for _, value in stored)

    def entries_of(self, kind: RecordKind, owner: bytes, prefix: bytes, limit: int, after: bytes | None) -> Page[Item]:
        """Entries of a map whose ids begin with `prefix`, in their order."""
        self.check()
        base = entry_of(kind, owner)
        first = mark_of(after, rows.LATEST + base + prefix)[1:]
        steps = self._entries(base + prefix, first)
        return page_of(steps, self._read(kind, base), limit, EXAMINED)

    def _entries(self, prefix: bytes, first: bytes) -> Iterator[tuple[bytes, tuple[bytes, bytes | None]]]:
        past = self.revision < self.files.record.last
        for entry, stored in range_scan.entries(self.db, self.revision, prefix, first, past):
            yield rows.LATEST + entry, (entry, stored)

    def _read(self, kind: RecordKind, base: bytes) -> Callable[[tuple[bytes, bytes | None]], Item | None]:
        owner, start = rows.unescape(base, 0)[0], len(base)

        def read(row: tuple[bytes, bytes | None]) -> Item | None:
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
        past = self.revision < self.files.record.last
        here = rows.escape(rows.unescape(first, 0)[0]) if rows.END in first else first
        for owner in range_scan.owners(self.db, here, last, past):
            base = entry_of(kind, owner)
            read = self._read(kind, base)
            if kind.prefix[:1] == layout.VALUE:
                yield rows.LATEST + base, read((base, self.read(base)))
                continue
            has_none = True
            for mark, row in self._entries(base, max(base, first)):
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
        keys = ordered_index.keys(self.db, self.revision, first, high, self.files.record.last)
        return page_of(((rows.INDEX + key, key) for key in keys), self._match(index), limit, EXAMINED)

    def _match(self, index: AnyIndex[Any, Any]) -> Callable[[bytes], Item | None]:
        kind = self.plan.kinds[index.of.name]

        def read(key: bytes) -> Item | None:
            _, owner, id = place_of(index.name, key)
            record = self.readable(kind, self.read(entry_of(kind, owner, id)))
            return None if record is None else Item(kind.name, owner, id, record)

        return read


class ReplicaView(StateView):
    """The view that a declared query reads."""

    def __init__(self, snapshot: ServiceSnapshot, at_once: OneAtATime = lambda work: work()) -> None:
        super().__init__(snapshot.plan, snapshot.watermark_ms)
        self.snapshot = snapshot
        self.at_once = at_once  # runs a bounded piece of work on the replica and returns its result

    def stored(self, kind: RecordKind, owner: bytes, id: bytes) -> bytes | None:
        stored: bytes | None = self.at_once(lambda: self._checked(entry_of(kind, owner, id)))
        return stored

    def stored_all(self, kind: RecordKind, owner: bytes, ids: Sequence[bytes]) -> list[bytes | None]:
        entries = [entry_of(kind, owner, id) for id in ids]
        stored: list[bytes | None] = []
        for first in range(0, len(entries), READ_AT_ONCE):
            stored += self.at_once(partial(self._all_checked, entries[first : first + READ_AT_ONCE]))
        return stored

    def _all_checked(self, entries: Sequence[bytes]) -> list[bytes | None]:
        self.snapshot.check()
        return [self.snapshot.read(entry) for entry in entries]

    def _checked(self, entry: bytes) -> bytes | None:
        self.snapshot.check()
        return self.snapshot.read(entry)

    def stored_ids(self, kind: RecordKind, owner: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        base = entry_of(kind, owner)
        for entry, stored in self._in_stretches(lambda: self.snapshot.scan(base + prefix)):
            yield entry[len(base) :], stored

    def matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match]:
        yield from self._in_stretches(lambda: self._matches(index, span))

    def _matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match | None]:
        snapshot, kind = self.snapshot, self.plan.kinds[index.of.name]
        low, high = index_span(index.name, span)
        for key in ordered_index.keys(snapshot.db, snapshot.revision, low, high, snapshot.files.record.last):
            value, owner, id = place_of(index.name, key)
            record = self.record(kind, snapshot.read(entry_of(kind, owner, id)))
            yield None if record is None else Match(value, owner, id, record)

    def _in_stretches(self, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """The items of `begin` except None, in growing portions."""
        iterator: Iterator[Any] | None = None
        size = 4  # most queries need only a few

        def stretch() -> list[Any]:
            nonlocal iterator
            self.snapshot.check()
            if iterator is None:
                iterator = begin()
            return list(islice(iterator, size))

        while items := self.at_once(stretch):
            yield from (item for item in items if item is not None)
            if len(items) < size:
                return
            size = min(2 * size, READ_AT_ONCE)

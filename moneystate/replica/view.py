"""The view that a declared query reads, over the replica's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from moneystate.api.handles import AnyIndex
from moneystate.records.index_order import Span
from moneystate.replica.listing import READ_AT_ONCE
from moneystate.replica.snapshot import Snapshot, entry_of
from moneystate.runtime.cells import RecordKind
from moneystate.runtime.entry_view import Match, StateView
from moneystate.runtime.replica_model import index_span, place_of

OneAtATime = Callable[[Callable[[], Any]], Any]


class ReplicaView(StateView):
    def __init__(self, snapshot: Snapshot, at_once: OneAtATime = lambda work: work()) -> None:
        super().__init__(snapshot.plan, snapshot.watermark_ms)
        self.snapshot = snapshot
        self.at_once = at_once  # runs a bounded piece of work on the replica and returns its result

    def stored(self, kind: RecordKind, owner: bytes, id: bytes) -> bytes | None:
        return self.stored_all(kind, owner, [id])[0]

    def stored_all(self, kind: RecordKind, owner: bytes, ids: Sequence[bytes]) -> list[bytes | None]:
        entries = [entry_of(kind, owner, id) for id in ids]
        stored: list[bytes | None] = []
        for first in range(0, len(entries), READ_AT_ONCE):
            stored += self.at_once(partial(self._checked, entries[first : first + READ_AT_ONCE]))
        return stored

    def _checked(self, entries: Sequence[bytes]) -> list[bytes | None]:
        self.snapshot.check()
        return [self.snapshot.read(entry) for entry in entries]

    def stored_ids(self, kind: RecordKind, owner: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        base = entry_of(kind, owner)
        for entry, stored in self._in_stretches(lambda: self.snapshot.scan(base + prefix)):
            yield entry[len(base) :], stored

    def matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match]:
        yield from self._in_stretches(lambda: self._matches(index, span))

    def _matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match | None]:
        kind = self.plan.kinds[index.of.name]
        for key in self.snapshot.index_keys(index_span(index.name, span)):
            value, owner, id = place_of(index.name, key)
            record = self.record(kind, self.snapshot.read(entry_of(kind, owner, id)))
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

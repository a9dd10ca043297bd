"""A view of a service's state over its entries, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from moneystate.api import layout
from moneystate.api.cells import NEVER, NO_TTL, Cell, RecordKind
from moneystate.api.handles import Index, Map, Value
from moneystate.api.plan import Plan

S = TypeVar("S")
V = TypeVar("V")


class ReadEntries(Protocol):
    """Entries of all key groups, of one version."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """In no order."""
        ...


class EntryView:
    """`moneystate.api.view.View`. What has expired at `time_ms` is not there."""

    def __init__(self, plan: Plan, entries: ReadEntries, time_ms: int) -> None:
        self.plan = plan
        self.entries_ = entries
        self.time = time_ms

    @property
    def time_ms(self) -> int:
        return self.time

    def get(self, value: Value[S], key: str) -> S:
        kind = self.plan.kinds[value.name]
        record = self._record(kind, layout.entry_key(kind.prefix, key.encode()))
        return kind.empty() if record is None else record  # type: ignore[no-any-return]

    def entry(self, of: Map[S], key: str, id: str) -> S | None:
        kind = self.plan.kinds[of.name]
        record: S | None = self._record(kind, layout.entry_key(kind.prefix, key.encode(), id.encode()))
        return record

    def entries(self, of: Map[S], key: str, prefix: str = "") -> Iterator[tuple[str, S]]:
        kind = self.plan.kinds[of.name]
        wanted = layout.entry_key(kind.prefix, key.encode(), prefix.encode())
        for entry_key, stored in sorted(self.entries_.scan(wanted)):
            record = self._decoded(kind, entry_key, stored)
            place = layout.place_of(entry_key)
            if record is not None and place is not None:
                yield place.id.decode(), record

    def find(self, index: Index[S, V], by: V) -> Iterator[tuple[str, S]]:
        kind = self.plan.kinds[index.of.name]
        owners: list[tuple[str, S]] = []
        for entry_key, stored in self.entries_.scan(kind.prefix):
            record = self._decoded(kind, entry_key, stored)
            place = layout.place_of(entry_key)
            if record is not None and place is not None and index.by(record) == by:
                owners.append((place.owner.decode(), record))
        owners.sort(key=lambda pair: pair[0])
        yield from owners

    def _record(self, kind: RecordKind, key: bytes) -> Any:
        stored = self.entries_.get(key)
        return None if stored is None else self._decoded(kind, key, stored)

    def _decoded(self, kind: RecordKind, key: bytes, stored: bytes) -> Any:
        cell = Cell(key, kind, b"", b"")
        cell.load(stored)
        cell.wake()
        expired = kind.ttl_ms != NO_TTL and cell.at != NEVER and self.time >= cell.at + kind.ttl_ms
        return None if expired else cell.value

"""A read-only view of a service's state over its entries, wherever they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from moneystate.api.handles import AnyIndex, Index, Map, MapIndex, Value
from moneystate.api.table import Table, TableKey
from moneystate.api.tables import DeclaredTable, TableIndex
from moneystate.api.truncations import TRUNCATED, truncations_in
from moneystate.records import index_order
from moneystate.records.index_order import Span
from moneystate.runtime import layout
from moneystate.runtime.cells import RecordKind, decode_entry
from moneystate.runtime.plan import Plan
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.table_rows import text_of

S = TypeVar("S")
V = TypeVar("V")


class Match(NamedTuple):
    """An index entry, in index order."""

    value: bytes
    owner: bytes
    id: bytes  # empty: the record is a value, not an entry of a map
    record: Any


class StateView(ABC):
    """Implements `moneystate.api.view.View` on top of `stored`, `stored_ids` and `matches`. It skips entries that have
    expired at `time_ms`."""

    def __init__(self, plan: Plan, time_ms: int) -> None:
        self.plan = plan
        self.time = time_ms

    @abstractmethod
    def stored(self, kind: RecordKind, owner: bytes, id: bytes) -> bytes | None: ...

    def stored_all(self, kind: RecordKind, owner: bytes, ids: Sequence[bytes]) -> list[bytes | None]:
        """`stored` of each id."""
        return [self.stored(kind, owner, id) for id in ids]

    @abstractmethod
    def stored_ids(self, kind: RecordKind, owner: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Ids that begin with `prefix`, with their entries, ordered by id."""

    @abstractmethod
    def matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match]: ...

    @property
    def time_ms(self) -> int:
        return self.time

    def get(self, value: Value[S], key: str) -> S:
        kind = self.plan.kinds[value.name]
        record = self.record(kind, self.stored(kind, key.encode(), b""))
        return kind.default() if record is None else record  # type: ignore[no-any-return]

    def entry(self, of: Map[S], key: str, id: str) -> S | None:
        kind = self.plan.kinds[of.name]
        entry: S | None = self.record(kind, self.stored(kind, key.encode(), id.encode()))
        return entry

    def entries_by_id(self, of: Map[S], key: str, ids: Iterable[str]) -> dict[str, S]:
        kind, wanted = self.plan.kinds[of.name], list(ids)
        stored = self.stored_all(kind, key.encode(), [id.encode() for id in wanted])
        records = [(id, self.record(kind, its)) for id, its in zip(wanted, stored, strict=True)]
        return {id: record for id, record in records if record is not None}

    def entries(self, of: Map[S], key: str, prefix: str = "") -> Iterator[tuple[str, S]]:
        kind = self.plan.kinds[of.name]
        for id, stored in self.stored_ids(kind, key.encode(), prefix.encode()):
            record = self.record(kind, stored)
            if record is not None:
                yield id.decode(), record

    def table(self, of: DeclaredTable[S]) -> Table[S]:
        return Table(_Rows(self, self.plan.tables[of.name]))

    @overload
    def find(self, index: Index[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, S]]: ...
    @overload
    def find(self, index: MapIndex[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, str, S]]: ...
    def find(self, index: Any, by: Any) -> Iterator[Any]:
        return self._results(index, index_order.span_of(by, repr(index)))

    @overload
    def range(
        self, index: Index[S, V], low: V | tuple[Any, ...] | None = None, high: V | tuple[Any, ...] | None = None
    ) -> Iterator[tuple[str, S]]: ...
    @overload
    def range(
        self, index: MapIndex[S, V], low: V | tuple[Any, ...] | None = None, high: V | tuple[Any, ...] | None = None
    ) -> Iterator[tuple[str, str, S]]: ...
    def range(self, index: Any, low: Any = None, high: Any = None) -> Iterator[Any]:
        return self._results(index, index_order.span_between(low, high, repr(index)))

    def _results(self, index: Any, span: Span) -> Iterator[Any]:
        for match in self.matches(index, span):
            if isinstance(index, MapIndex):
                yield match.owner.decode(), match.id.decode(), match.record
            else:
                yield match.owner.decode(), match.record

    def record(self, kind: RecordKind, stored: bytes | None) -> Any:
        return record_of(kind, stored, self.time)


def record_of(kind: RecordKind, stored: bytes | None, time_ms: int) -> Any:
    """None: there is no entry, or it has expired. Raises Malformed."""
    if stored is None:
        return None
    cell = decode_entry(kind, stored)
    return None if cell.has_expired(time_ms) else cell.value


class _Rows:
    """`moneystate.api.table.TableAccess`, over the entries of a view."""

    def __init__(self, view: StateView, planned: TablePlan) -> None:
        self.view = view
        self.planned = planned

    def get(self, key: TableKey, at_ms: int | None) -> Any:
        versions = self._versions(text_of(key))
        truncations = truncations_in(self._versions(TRUNCATED)) if self.planned.table.has_positions else []
        version = self.planned.row_at(versions, self.view.time, at_ms, truncations)
        return None if version is None else version.row

    def _versions(self, key: bytes) -> list[Any]:
        kind = self.planned.kind
        stored = self.view.record(kind, self.view.stored(kind, key, b""))
        return [] if stored is None else list(stored.versions)

    def find(self, index: TableIndex[Any, Any], by: Any, at_ms: int | None) -> Iterator[tuple[str, Any]]:
        value = index_order.encode(by, repr(index))
        for match in self.view.matches(index.entries, index_order.span_of(by, repr(index))):
            row = self.get(match.owner.decode(), at_ms) if match.value == value else None
            if row is not None and value in index_order.encode_all(index.by, row, repr(index)):
                yield match.owner.decode(), row

    def find_any(
        self, index: TableIndex[Any, Any], values: Iterable[Any], at_ms: int | None
    ) -> list[tuple[str, Any]]:  # fmt: skip
        return sorted({key: row for by in values for key, row in self.find(index, by, at_ms)}.items())


class ReadEntries(Protocol):
    """Entries of all key groups, of one version."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries, in no particular order."""
        ...


class EntryView(StateView):
    """A view over unordered entries. It has no stored indices: a query of an index scans all entries."""

    def __init__(self, plan: Plan, entries: ReadEntries, time_ms: int) -> None:
        super().__init__(plan, time_ms)
        self.entry_source = entries

    def stored(self, kind: RecordKind, owner: bytes, id: bytes) -> bytes | None:
        return self.entry_source.get(layout.entry_key(kind.prefix, owner, id))

    def stored_ids(self, kind: RecordKind, owner: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        base = len(layout.entry_key(kind.prefix, owner))
        for key, stored in sorted(self.entry_source.scan(layout.entry_key(kind.prefix, owner, prefix))):
            yield key[base:], stored

    def matches(self, index: AnyIndex[Any, Any], span: Span) -> Iterator[Match]:
        kind = self.plan.kinds[index.of.name]
        matches: list[Match] = []
        for key, stored in self.entry_source.scan(kind.prefix):
            record = self.record(kind, stored)
            place = layout.place_of(key)
            if record is None or place is None:
                continue
            values = index_order.encode_all(index.by, record, repr(index))
            matches += [Match(v, place.owner, place.id, record) for v in values if span.low <= v < span.high]
        matches.sort(key=lambda match: match[:3])  # without the record
        yield from matches

"""The handle of a table, and the functions with which the platform keeps its rows (docs/tables.md).

In the plan a table is an input in arrival order, whose records are `<Record>Change`, and a value for each key of the
table, with the row's versions. `KeepRow` runs on the input, `TakeEffect` when a row with `valid_from` takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from moneystate.api.handles import NO_LIMIT, Duration, Index, Input, Reads, Source, Timer, Value
from moneystate.api.table import Table
from moneystate.api.table_records import table_records
from moneystate.api.table_versions import holding, insert, needed, since
from moneystate.api.truncations import TRUNCATED, removed_with, still_needed, truncations_in
from moneystate.engine.items import MIN_EVENT_TIME
from moneystate.records.types import Unavailable, arrival

if TYPE_CHECKING:
    from moneystate.api.context import Context
    from moneystate.api.message import Message

S = TypeVar("S")
V = TypeVar("V")

TABLE_LOADED, IMMEDIATELY = "loaded", "immediately"
READY: Final = (TABLE_LOADED, IMMEDIATELY)
BEGINNING_MS: Final = MIN_EVENT_TIME  # since when the rows of a table's first load hold


class DeclaredTable(Reads[Table[S]], Generic[S]):
    """Reference data. A function receives it as `ms.Table`."""

    def __init__(
        self, service: str, name: str, topic: str, record: type[S], key: str | tuple[str, ...] | None,
        valid_from: str | None, history_ms: int, local: bool, ready: str, compacted: bool, format: str,
        bound_ms: Duration | None, decode: Callable[[Message], S | None] | None,
    ) -> None:  # fmt: skip
        self.service = service
        self.name = name
        self.topic = topic
        self.record = record
        # `moneystate.api.service.Service.table` explains these
        self.key = key
        self.valid_from = valid_from
        self.history_ms = history_ms
        self.local = local
        self.ready = ready
        self.compacted = compacted
        self.format = format
        self.bound_ms = bound_ms
        self.decode = decode
        records = table_records(record, self.has_positions)
        self.state: Value[Any] = Value(service, name, records.versions, None)
        self.input: Input[Any] = Input(
            service, topic, records.change, None, arrival, None, NO_LIMIT, bound_ms, None, None, True, False, format,
            decode, None, Unavailable(), None, self,
        )  # fmt: skip
        self.timer = Timer(service, name)  # when the next version takes effect
        self.on_change: Callable[..., None] | None = None
        self.on_change_states: tuple[Any, ...] = ()
        self.indices: list[TableIndex[S, Any]] = []
        self._changed: TableChanges[S] = TableChanges(self)

    @property
    def has_positions(self) -> bool:
        """Whether its rows have places in the database's log, as truncations need them."""
        return self.format == "debezium" and not self.local

    @property
    def changed(self) -> Source[S | None]:
        """The source for `@service.on`: its function runs when another row holds for the key, or none. The function
        gets the row. Unless the table is local, it takes no state."""
        return self._changed

    def is_first_load(self, loaded: int, offset: int) -> bool:
        """Whether a record was written before the first load had ended. `loaded`: the offset of the partition's first
        TableLoaded."""
        return self.ready == TABLE_LOADED and offset < loaded

    def needed(self, versions: list[Any], now_ms: int) -> list[Any]:
        """The versions of a row that a step from `now_ms` on can get."""
        if self.has_positions:
            return needed(versions, now_ms, self.history_ms, removed_with)
        return needed(versions, now_ms, self.history_ms)

    def __repr__(self) -> str:
        return f"table {self.name!r}"


class TableChanges(Source["S | None"], Generic[S]):
    """The changes of a table's rows."""

    def __init__(self, of: DeclaredTable[S]) -> None:
        super().__init__([])
        self.of = of

    def __repr__(self) -> str:
        return f"changes of {self.of!r}"


class TableIndex(Generic[S, V]):
    """Finds the rows of a table by the result of `by`. `entries`: the index of the state's entries, for queries."""

    def __init__(self, service: str, name: str, of: DeclaredTable[S], by: Callable[[S], Any]) -> None:
        self.service = service
        self.name = name
        self.of = of
        self.by = by
        self.entries: Index[Any, V] = Index(service, name, of.state, _of_versions(by))
        self.entries.record = of.record

    def __repr__(self) -> str:
        return f"index {self.name!r}"


def _of_versions(by: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """An index function for the versions of a row."""

    @wraps(by)
    def of_versions(entry: Any) -> list[Any]:
        values = [by(version.row) for version in entry.versions if version.row is not None]
        return [one for value in values if value is not None for one in (value if isinstance(value, list) else [value])]

    return of_versions


class KeepRow:
    """The function of a table's input: keeps the row of a record."""

    def __init__(self, table: DeclaredTable[Any]) -> None:
        self.table = table
        self.version = table_records(table.record, table.has_positions).version
        self.__name__ = f"table {table.name!r}"

    def __call__(self, ctx: Context[Any], change: Any, entry: Any, *states: Any) -> None:
        table, now_ms = self.table, ctx.now
        before = holding(entry.versions, now_ms)
        position = [change.position] if table.has_positions else []
        version = self.version(now_ms, valid_from(table, change.row, now_ms), change.row, *position)
        if table.has_positions and ctx.key == TRUNCATED.decode():
            entry.versions = self._truncated(entry.versions, version, now_ms)
            return
        insert(entry.versions, version)
        after = holding(entry.versions, now_ms)
        entry.versions = table.needed(entry.versions, now_ms)
        if table.on_change is not None:
            set_next(ctx, table, entry.versions)
            row = None if after is None else after.row
            if row != (None if before is None else before.row):
                table.on_change(ctx, row, *states)

    def _truncated(self, versions: list[Any], version: Any, now_ms: int) -> list[Any]:
        """The truncations in the entry, with one more."""
        versions = [*versions, version]
        needed_ones = still_needed(truncations_in(versions), now_ms - self.table.history_ms)
        return [self.version(t.written, t.written, None, t.position) for t in needed_ones]


class TakeEffect:
    """The function of a table's timer, which is set if the table has a function on change."""

    def __init__(self, table: DeclaredTable[Any]) -> None:
        self.table = table
        self.__name__ = f"table {table.name!r}"

    def __call__(self, ctx: Context[Any], entry: Any, *states: Any) -> None:
        table = self.table
        entry.versions = table.needed(entry.versions, ctx.now)
        set_next(ctx, table, entry.versions)
        assert table.on_change is not None
        version = holding(entry.versions, ctx.now)
        table.on_change(ctx, None if version is None else version.row, *states)


def valid_from(table: DeclaredTable[Any], row: Any, written_ms: int) -> int:
    """Returns the time since which a row is valid: as it says, or since it was written."""
    declared = None if row is None or table.valid_from is None else getattr(row, table.valid_from)
    return written_ms if declared is None else int(declared)


def set_next(ctx: Context[Any], table: DeclaredTable[Any], versions: list[Any]) -> None:
    """Sets the timer for the next version that takes effect."""
    later = next((since(version) for version in versions if since(version) > ctx.now), None)
    if later is None:
        ctx.cancel(table.timer)
    else:
        ctx.at(table.timer, later)

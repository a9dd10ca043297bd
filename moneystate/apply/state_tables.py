"""The values and maps of a service as tables: their columns, and their entries as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moneystate.apply.column_types import Column, ColumnType, wanted
from moneystate.apply.naming import snake_case
from moneystate.apply.plain_values import PlainReader
from moneystate.apply.row_changes import Key, RowPut
from moneystate.apply.value_types import BadValue, Time
from moneystate.apply.values import Writer, writer_for
from moneystate.errors import ConfigError, JobError
from moneystate.records.avro_types import RecordType, Type, parse
from moneystate.records.schema import schema_of
from moneystate.records.shapes import Field, has_personal
from moneystate.replica.transaction_assembler import EntryChange
from moneystate.runtime import layout
from moneystate.runtime.cells import NEVER, NO_TTL, RecordKind
from moneystate.runtime.plan import Plan

KEY: Final = "key"
ID: Final = "id"
EXPIRES_AT: Final = "expires_at"
TEXT: Final = ColumnType("text")
TIMES: Final = ColumnType("timestamptz")


class StateColumn(NamedTuple):
    """A column for a field of the record."""

    column: Column
    field: str  # its name in Avro
    write: Writer


class StateTable:
    """The table of one value or map."""

    def __init__(self, kind: RecordKind, schema: str, remove_nul: bool) -> None:
        self.kind = kind
        self.is_map = kind.prefix[:1] == layout.ENTRY
        self.table = (schema, snake_case(kind.name))
        record = parse(schema_of(kind.codec.record))
        assert isinstance(record, RecordType)
        types = {f.name: f.type for f in record.fields}
        self._fields = [
            StateColumn(column, f.wire, writer_for(column.type, remove_nul))
            for f in kind.codec.record.fields
            if not _is_personal(f)
            for column in [_column(f, types[f.wire])]
        ]
        self._reader = PlainReader(record)
        self._text = writer_for(TEXT, remove_nul)
        self._time = writer_for(TIMES, remove_nul)
        names = [c.name for c in self.columns]
        if len(set(names)) != len(names):
            raise ConfigError(
                f"the state {kind.name}: expected fields of other names than {KEY}, {ID} and {EXPIRES_AT}, found one.",
                "leave the state out, or rename the field.",
            )

    @property
    def key(self) -> list[str]:
        return [KEY, ID] if self.is_map else [KEY]

    @property
    def columns(self) -> list[Column]:
        own = [Column(name, TEXT, nullable=False) for name in self.key]
        expires = [Column(EXPIRES_AT, TIMES)] if self.kind.keeps_times else []
        return [*own, *[f.column for f in self._fields], *expires]

    def key_of(self, change: EntryChange) -> Key:
        id = change.rest[1 + change.rest[0] :]
        return tuple([self._text(part.decode()) for part in ([change.owner, id] if self.is_map else [change.owner])])

    def put(self, change: EntryChange, ttl_ms: int) -> RowPut:
        """The row of an entry. `ttl_ms`: by the rules of the run. Raises JobError for one that the table cannot
        hold."""
        assert change.value is not None
        try:
            key = self.key_of(change)
            fields = self._reader.read_body(self.kind.stored_body(change.value))
            texts: list[str | None] = [*key]
            for column in self._fields:
                value = fields[column.field]
                texts.append(None if value is None else column.write(value))
            if self.kind.keeps_times:
                changed_at, _ = self.kind.times(change.value)
                expires = changed_at != NEVER and ttl_ms != NO_TTL
                texts.append(self._time(Time(changed_at + ttl_ms)) if expires else None)
        except BadValue as e:
            raise JobError(
                f"the state {self.kind.name}: expected values that the database can hold, but {e}.",
                'set nul = "remove", or correct the service.',
            ) from None
        return RowPut(key, texts)


def tables_of(plan: Plan, schema: str, remove_nul: bool) -> list[StateTable]:
    """A table for each value and map. Raises ConfigError."""
    return [StateTable(kind, schema, remove_nul) for kind in plan.kinds.values()]


def by_table(changes: Iterable[EntryChange], tables: Mapping[bytes, StateTable]) -> dict[StateTable, list[EntryChange]]:
    """The changes of each table. Timers and ids of `unique` have none, and neither has a state that is no longer
    declared. `tables`: by the prefix of their entries."""
    sorted_changes: dict[StateTable, list[EntryChange]] = {}
    for change in changes:
        table = tables.get(change.kind + change.rest[: 1 + change.rest[0]])
        if table is not None:
            sorted_changes.setdefault(table, []).append(change)
    return sorted_changes


def check_personal(plan: Plan, allowed: bool, where: str) -> None:
    """Raises ConfigError if keys are personal and that is not allowed: they are columns of every table."""
    if allowed:
        return
    for declared in plan.service.inputs:
        record = plan.codec(declared.record, repr(declared)).record
        parts = declared.key if isinstance(declared.key, tuple) else (declared.key,)
        names = {str(part).split(".")[0] for part in parts if isinstance(part, str)}
        personal = {f.name for f in record.fields if _is_personal(f)}
        if names & personal or (personal and any(callable(part) for part in parts)):
            raise ConfigError(
                f"{where}: expected keys that are not personal, but {declared!r} has a personal key.",
                "set personal = true if the tables may have it.",
            )


def _is_personal(f: Field) -> bool:
    return f.personal or has_personal(f.shape)


def _column(f: Field, one: Type) -> Column:
    kind, nullable = wanted(one)
    return Column(snake_case(f.wire), kind, nullable=nullable)

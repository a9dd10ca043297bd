"""Records of a topic as rows of a table, at work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from moneystate.apply import sql
from moneystate.apply.catalogue import check_key, table_columns
from moneystate.apply.column_types import Column, ColumnType, wanted
from moneystate.apply.config import Mode, Nul, RowsTarget
from moneystate.apply.database import READ_COMMITTED, Connected, Tx
from moneystate.apply.decoding import decoder, record_of
from moneystate.apply.naming import snake_case
from moneystate.apply.records import Decode, Decoded, Put, Read, Record
from moneystate.apply.row_changes import RowChange, RowPlan, RowPut, merged
from moneystate.apply.sql import Staged
from moneystate.apply.targets import Effects
from moneystate.apply.values import copy_line
from moneystate.errors import ConfigError
from moneystate.records.avro_types import RecordType, Type, UnionType
from moneystate.runtime.json_topic import DEBEZIUM, JSON


class Rows:
    """A target of kind rows. `prefix`: of topics."""

    isolation = READ_COMMITTED

    def __init__(self, target: RowsTarget, prefix: str, registry: str) -> None:
        s = target.source
        self.target = target
        self.name = target.name
        self.topics = [prefix + s.topic]
        self.where = f"[rows.{target.name}]"
        self._decode: Decode = decoder(s.topic, s.format, s.type, s.service, s.schemas, registry)
        self._schema = record_of(s.type, s.service, s.schemas) if s.format != DEBEZIUM else None
        self._by_table = self._schema is None and not target.columns  # the table says which fields are read
        if self._by_table and s.format == JSON:
            self._decode = _snake_cased(self._decode)
        self._key = [snake_case(path) if self._by_table and s.format == JSON else path for path in target.key]
        self.plan: RowPlan  # once it is prepared
        self._delete: Staged
        self._upserts: dict[tuple[int, ...], Staged] = {}  # by the columns that are unchanged

    @property
    def has_schema(self) -> bool:
        return self._schema is not None

    def wanted_columns(self) -> list[Column]:
        """The columns by the record's schema. Raises ConfigError if there is none."""
        if self._schema is None:
            raise ConfigError(
                f"{self.where}: expected a schema of the records, from which the table could be made, found none.",
                "give service or schemas, or create the table yourself.",
            )
        fields = [f.name for f in self._schema.fields]
        key = self.target.key
        columns: list[Column] = []
        for name, path in (self.target.columns or {snake_case(n): n for n in fields}).items():
            kind, nullable = _at(self._schema, path.split("."), f"{self.where} columns")
            columns.append(Column(name, kind, nullable=nullable and path not in key))
        return columns

    def paths(self, table: Iterable[Column]) -> Mapping[str, str]:
        """The field of each column that is written. Without a schema the table says which fields are read."""
        if self.target.columns:
            return self.target.columns
        if self._schema is not None:
            return {snake_case(f.name): f.name for f in self._schema.fields}
        return {c.name: c.name for c in table}

    def key_names(self, paths: Mapping[str, str]) -> list[str]:
        """The columns of the key. Raises ConfigError."""
        by_path = {path: column for column, path in paths.items()}
        missing = [path for path in self._key if path not in by_path]
        if missing:
            raise ConfigError(
                f"{self.where} key: expected a column for {missing[0]}, found none.",
                "correct key, or add it to columns.",
            )
        return [by_path[path] for path in self._key]

    def ddl(self) -> str:
        """The statement that makes the table. Raises ConfigError if there is no schema."""
        columns = self.wanted_columns()
        key = self.key_names(self.paths(columns)) if self.target.key else []
        return sql.create_table(self.target.table, columns, key)

    def diff(self, connection: Connected) -> list[str]:
        """Returns what the table in the database lacks."""
        there = table_columns(connection, self.target.table)
        if there is None:
            return [self.ddl()]
        names = {c.name for c in there}
        return sql.add_columns(self.target.table, [c for c in self.wanted_columns() if c.name not in names])

    def prepare(self, connection: Connected) -> None:
        t = self.target
        table = table_columns(connection, t.table)
        if table is None:
            raise ConfigError(
                f"{self.where} table: expected {'.'.join(t.table)} in the database, found none.",
                "create it (moneystate apply ddl prints it), or start with --create-tables.",
            )
        paths = self.paths(table)
        there = {c.name: c for c in table}
        missing = [name for name in paths if name not in there]
        if missing:
            raise ConfigError(
                f"{self.where} columns: expected a column {missing[0]} that can be written in {'.'.join(t.table)}, "
                "found none.",
                "add it (moneystate apply ddl --diff prints how), or correct columns.",
            )
        columns = [there[name] for name in paths]
        key = self.key_names(paths)
        if t.mode is Mode.upsert:
            check_key(connection, t.table, key, self.where)
        self.plan = RowPlan(columns, paths, self._key, t.mode, self._decode, t.nul is Nul.remove, self._by_table)
        self._delete = sql.delete(t.table, self.plan.key_columns)
        self._upserts = {}

    def read(self, record: Record) -> RowChange | None:
        return self.plan.change(record)

    def apply(self, tx: Tx, reads: Sequence[Read], effects: Effects) -> None:
        changes: list[RowChange] = [read.content for read in reads]
        if self.target.mode is Mode.append:
            puts = [change for change in changes if isinstance(change, RowPut)]
            self._append(tx, puts)
            return
        wanted_changes = merged(changes)
        if wanted_changes.deletes:
            effects.staging.run(self._delete, [list(key) for key in wanted_changes.deletes])
        by_unchanged: dict[tuple[int, ...], list[RowPut]] = {}
        for put in wanted_changes.puts:
            by_unchanged.setdefault(put.unchanged, []).append(put)
        for unchanged, puts in by_unchanged.items():
            lines = [
                [text for n, text in enumerate(put.texts) if n not in unchanged] if unchanged else put.texts
                for put in puts
            ]
            effects.staging.run(self._upsert(unchanged), lines)

    def _append(self, tx: Tx, puts: Sequence[RowPut]) -> None:
        columns = [bound.column for bound in self.plan.columns]
        by_unchanged: dict[tuple[int, ...], list[RowPut]] = {}
        for put in puts:
            by_unchanged.setdefault(put.unchanged, []).append(put)
        for unchanged, mine in by_unchanged.items():
            listed = [c for n, c in enumerate(columns) if n not in unchanged]
            with tx.copy(sql.append(self.target.table, listed)) as copy:
                for put in mine:
                    copy.write(copy_line([text for n, text in enumerate(put.texts) if n not in unchanged]))

    def _upsert(self, unchanged: tuple[int, ...]) -> Staged:
        staged = self._upserts.get(unchanged)
        if staged is None:
            columns = [b.column for n, b in enumerate(self.plan.columns) if n not in unchanged]
            key = [c.name for c in self.plan.key_columns]
            staged = self._upserts[unchanged] = sql.upsert(self.target.table, columns, key)
        return staged


def _snake_cased(decode: Decode) -> Decode:
    """Returns the decoder with the names of fields as the table has them."""

    def read(record: Record) -> Decoded:
        decoded = decode(record)
        if isinstance(decoded, Put):
            fields = decoded.fields
            return Put(dict(zip(_snake_cased_names(tuple(fields)), fields.values(), strict=True)))
        return decoded

    return read


@lru_cache(maxsize=1_000)
def _snake_cased_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The records of a topic mostly have the same fields."""
    return tuple([snake_case(name) for name in names])


def _at(record: RecordType, path: Sequence[str], where: str) -> tuple[ColumnType, bool]:
    """The column type of a field, and whether it may be null."""
    one: Type = record
    nullable = False
    for n, name in enumerate(path):
        if isinstance(one, UnionType):
            one, nullable = next((branch for branch in one.branches if branch.kind != "null"), one), True
        field = next((f for f in one.fields if f.name == name), None) if isinstance(one, RecordType) else None
        if field is None:
            raise ConfigError(
                f"{where}: expected fields of the record, found {'.'.join(path[: n + 1])}.", "correct the path."
            )
        one = field.type
    kind, optional = wanted(one)
    return kind, nullable or optional

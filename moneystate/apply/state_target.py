"""The state of a service as tables: one database transaction for each version (docs/apply.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moneystate.apply import sql
from moneystate.apply.bookkeeping import Bookkeeping, StoredVersion
from moneystate.apply.catalogue import check_key, table_columns
from moneystate.apply.changelog import From
from moneystate.apply.chunks import Partition
from moneystate.apply.config import Nul, StateTarget
from moneystate.apply.database import READ_COMMITTED, Connected, begin, rolled_back
from moneystate.apply.row_changes import RowPut
from moneystate.apply.staging import Staging
from moneystate.apply.state_tables import StateTable, by_table, check_personal, tables_of
from moneystate.apply.versions import Whole
from moneystate.errors import ConfigError
from moneystate.kafka.failpoints import failpoint
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_of
from moneystate.runtime.replica_model import ReplicaModel

AT_ONCE: Final = 10_000  # rows of one statement, which must end within the statement's time-out


class MovedOn(Exception):
    """Another process has applied versions meanwhile."""


class State:
    """A target of kind state."""

    def __init__(self, target: StateTarget, prefix: str) -> None:
        self.target = target
        self.name = target.name
        self.where = f"[state.{target.name}]"
        self.model = ReplicaModel(target.service)
        self.topics = [prefix + self.model.changelog]
        plan = plan_of(target.service)
        check_personal(plan, target.personal, self.where)
        self.tables = tables_of(plan, target.schema, target.nul is Nul.remove)
        self._by_prefix = {table.kind.prefix: table for table in self.tables}
        self._rules: tuple[Mapping[str, Any], Plan] = ({}, plan)

    def ddl(self) -> list[str]:
        return [sql.create_table(t.table, t.columns, t.key) for t in self.tables]

    def diff(self, connection: Connected) -> list[str]:
        """Returns what the tables in the database lack."""
        lines: list[str] = []
        for table in self.tables:
            there = table_columns(connection, table.table)
            if there is None:
                lines.append(sql.create_table(table.table, table.columns, table.key))
            else:
                names = {c.name for c in there}
                lines += sql.add_columns(table.table, [c for c in table.columns if c.name not in names])
        return lines

    def prepare(self, connection: Connected) -> None:
        """Raises ConfigError for tables that do not fit."""
        missing = self.diff(connection)
        if missing:
            raise ConfigError(
                f"{self.where}: expected the tables of the state, found {len(missing)} things missing.",
                "start with --create-tables, or run what moneystate apply ddl --diff prints.",
            )
        for table in self.tables:
            check_key(connection, table.table, table.key, self.where)

    def begin(self, connection: Connected, books: Bookkeeping) -> From | None:
        """Returns where to go on; None: from the beginning."""
        version = books.version(connection, self.name)
        if version is None:
            return None
        stored = books.stored(connection, self.name)
        positions = {p.number: offset for p, (offset, _) in stored.items() if p.topic == self.topics[0]}
        return From(positions, list(version.epochs), version.batch, version.groups)

    def apply(
        self, connection: Connected, books: Bookkeeping, whole: Whole, before: From | None, epochs: Sequence[str],
        groups: int,
    ) -> None:  # fmt: skip
        """Applies a version in one transaction. `before`: what the tables have. Raises MovedOn if they have another
        version, and psycopg's errors."""
        partitions = [Partition(self.topics[0], p) for p in sorted(whole.positions)]
        begin(connection, READ_COMMITTED)
        failpoint("begun", 0)
        try:
            with connection.cursor() as tx:
                positions, begun = books.lock(tx, self.name, partitions)
                failpoint("locked", 0)
                if positions != {p: (before.positions[p.number] if before else positions.get(p)) for p in partitions}:
                    raise MovedOn
                if (books.version(connection, self.name) is None) != (before is None):
                    raise MovedOn
                self.put(Staging(tx), whole)
                failpoint("applied", 0)
                books.move(tx, self.name, {Partition(self.topics[0], p): o for p, o in whole.positions.items()}, begun)
                version = StoredVersion(whole.version.epoch, whole.version.batch, epochs, groups)
                books.put_version(tx, self.name, version, whole.watermark_ms)
                failpoint("moved", 0)
                tx.execute("COMMIT")
        except BaseException:
            rolled_back(connection)
            raise
        failpoint("committed", 0)

    def put(
        self, staging: Staging, whole: Whole, only: StateTable | None = None, into: tuple[str, str] | None = None
    ) -> None:
        """The rows of a version's changes. `only`: of one table; `into`: a copy of it."""
        for table, changes in by_table(whole.changes.values(), self._by_prefix).items():
            if only not in (None, table):
                continue
            deletes = sorted(table.key_of(change) for change in changes if change.value is None)
            ttl_ms = self.ttl_ms(table, whole.rules)
            puts = sorted(
                (table.put(change, ttl_ms) for change in changes if change.value is not None), key=lambda put: put.key
            )
            self._run(staging, table, into or table.table, deletes, puts)

    def _run(
        self, staging: Staging, table: StateTable, into: tuple[str, str], deletes: Sequence[Sequence[str]],
        puts: Sequence[RowPut],
    ) -> None:  # fmt: skip
        key = [column for column in table.columns if column.name in table.key]
        for start in range(0, len(deletes), AT_ONCE):
            staging.run(sql.delete(into, key), deletes[start : start + AT_ONCE])
        for start in range(0, len(puts), AT_ONCE):
            lines = [put.texts for put in puts[start : start + AT_ONCE]]
            staging.run(sql.upsert(into, table.columns, table.key), lines)

    def ttl_ms(self, table: StateTable, rules: Mapping[str, Any]) -> int:
        if rules != self._rules[0]:
            self._rules = rules, self.model.plan_at(rules)
        return self._rules[1].kinds[table.kind.name].ttl_ms

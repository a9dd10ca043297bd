"""Applies units, snapshots and late changes to the rows, and tells what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import moneystate as ms
from services.changes.config import Config, Table
from services.changes.effects import Effects
from services.changes.fold import Entity, Folded, fold
from services.changes.happened import About, Teller, happened_in
from services.changes.records import NONE, Applied, BusinessEvent, Certainty, Change, Row
from services.changes.rows import Version, after_of, changed_columns, version_of
from services.changes.store import Store


@dataclass
class Applying:
    ctx: ms.Context[Config]
    tables: Mapping[str, Table]
    store: Store
    effects: Effects

    def unit(self, about: About, changes: Sequence[Change]) -> int:
        """Gives its number."""
        connector = self.store.connector
        connector.units += 1
        readable = [change for change in changes if not change.problem and change.table in self.tables]
        happened, folded = happened_in(self.ctx.rules, self.tables, about, readable, self.store.known)
        for told in happened.told:
            self.effects.tell(told.event)
        if happened.unchanged:
            self.ctx.count("unchanged", happened.unchanged)
        self.effects.rows_of(folded, self.store, about.committed_at)
        self.store.write(folded, happened.told, connector.units, about.committed_at)
        return connector.units

    # Snapshots

    def snapshot(self, e: Change) -> None:
        """A row as a snapshot has it. It fills a row that is not known."""
        if e.problem or e.table not in self.tables:
            return
        row = self.store.row(e.table, e.key)
        if (e.lsn or e.commit) < self.store.truncated_at(e.table):
            self.ctx.count("snapshot_of_deleted")
        elif row is None:
            self._fill(e, None)
        elif row.columns is None:
            self.ctx.count("snapshot_of_deleted")
        else:
            self._compare(e, row)

    def _compare(self, e: Change, row: Row) -> None:
        before = version_of(row)
        after = self._after(e, before)
        assert before is not None
        if not changed_columns(before, after) and not before.unknown:
            return
        if changed_columns(before, after):
            self.ctx.count("snapshot_differs")
        if self.ctx.rules.snapshots != "heal" or not e.incremental:
            return
        self._heal(e, before, after)
        self.store.put(e.table, e.key, after, row.lsn, row.unit, e.committed_at, row.events)
        self.effects.row(e.table, e.key, after, e.committed_at)

    def _heal(self, e: Change, before: Version, after: Version) -> None:
        """Tells the difference as an update that nobody logged."""
        entity = Entity(self.tables[e.table], e.key, e.key, before, True, after, after, [e])
        folded = Folded([entity], {}, {(e.table, e.key): entity}, [])
        teller = Teller(self.ctx.rules, About("SNAPSHOT", None, e.committed_at), folded, self.store.known)
        for event in teller.updated(entity):
            self.effects.tell(event)

    def fill(self, e: Change) -> None:
        """A change that belongs to no transaction. It puts out nothing."""
        if e.problem or e.table not in self.tables:
            return
        if e.op == "t":
            self.store.clear(e.table, lambda row: row.lsn < e.lsn)
            return
        row = self.store.row(e.table, e.key)
        if row is not None and row.lsn > e.lsn:
            return
        if e.op == "d":
            self.store.delete(e.table, e.key, e.lsn, 0, e.committed_at)
            self.effects.row(e.table, e.key, None, e.committed_at)
        else:
            self._fill(e, row)

    def _fill(self, e: Change, row: Row | None) -> None:
        after = self._after(e, version_of(row))
        self.store.put(e.table, e.key, after, e.lsn, 0, e.committed_at)
        self.effects.row(e.table, e.key, after, e.committed_at)

    # Late changes

    def late(self, e: Change, applied: Applied, certainty: Certainty, transaction: str | None) -> None:
        """A change of a unit that was applied without it."""
        about = About(certainty, transaction, e.committed_at)
        event = self._late_event(e, about)
        row = None if e.op == "t" else self.store.row(e.table, e.key)
        self.effects.tell(event)
        if e.problem:
            return
        if e.op == "t":
            self.store.clear(e.table, lambda row: row.unit <= applied.number)
        elif row is None or (row.unit, row.lsn) <= (applied.number, e.lsn):
            self._write_late(e, row, applied.number)

    def _late_event(self, e: Change, about: About) -> BusinessEvent:
        readable = [] if e.problem or e.op == "t" else [e]
        folded = fold(readable, self.tables, self.store.known)
        teller = Teller(self.ctx.rules, about, folded, self.store.known)
        return teller.late(e, folded.entities[0] if folded.entities else None)

    def _write_late(self, e: Change, row: Row | None, unit: int) -> None:
        events = NONE if row is None else row.events
        if e.op == "d":
            self.store.delete(e.table, e.key, e.lsn, unit, e.committed_at, events)
            self.effects.row(e.table, e.key, None, e.committed_at)
        else:
            after = self._after(e, version_of(row))
            self.store.put(e.table, e.key, after, e.lsn, unit, e.committed_at, events)
            self.effects.row(e.table, e.key, after, e.committed_at)

    def _after(self, e: Change, previous: Version | None) -> Version:
        return after_of(e, self.tables[e.table], previous)

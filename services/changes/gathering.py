"""Wait mode: without the topic of transactions, a short wait finds what belongs together (docs/changes.md).

Changes of one transaction number are a unit. A unit is closed by the first change of a later one, or a heartbeat, once
`settle` has passed since its first change arrived. Closed units are applied in the order of their commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import moneystate as ms
from services.changes.apply import Applying
from services.changes.config import Config
from services.changes.matching import Matching
from services.changes.records import Applied, Arrived, Change, Gathered, Pending, Units, Waits
from services.changes.transactions import MALFORMED, queue_id

FEW: Final = 64  # units that are open: then each change looks for what it closes
PART: Final = 8  # of the settling time, in which others look once


@dataclass
class Gathering:
    """A step. `gathered`: units that are not closed; `arrived`: their order of arrival; `commits`, `at_commit`: their
    order of application."""

    ctx: ms.Context[Config]
    waits: Waits
    gathered: ms.Entries[Gathered]
    pending: ms.Entries[Pending]
    arrived: ms.Entries[Arrived]
    at_commit: ms.Entries[Units]
    commits: ms.NumberSet
    applying: Applying
    matching: Matching

    def change(self, e: Change) -> None:
        if e.problem:
            self.ctx.dead_letter(MALFORMED, e.problem)
        elif e.op == "r":
            self.applying.snapshot(e)
        else:
            self._take(e)
        self.matching.tick()

    def beat(self) -> None:
        self._close(None)
        self.matching.tick()

    def due(self) -> None:
        self.matching.due()

    def _take(self, e: Change) -> None:
        unit, id = unit_of(e), change_id(e)
        if id in self.pending or id in self.applying.store.late:
            self.ctx.count("duplicates")
            return
        applied = self.applying.store.applied_unit(unit)
        if applied is not None:
            self._late(e, applied)
            return
        self._gather(e, unit, id)
        self._close((e.commit, e.lsn))

    def _late(self, e: Change, applied: Applied) -> None:
        self.applying.store.remember_change(change_id(e), e.committed_at)
        self.applying.late(e, applied, "WAIT", e.written_by or None)

    def _gather(self, e: Change, unit: str, id: str) -> None:
        there = self.gathered.get(unit)
        if there is None:
            there = Gathered(since=self.ctx.now, commit=e.commit)
            self.arrived.put(queue_id(self.waits.arrived_tail), Arrived(unit, self.ctx.now))
            self.waits.arrived_tail += 1
            self.waits.gathered += 1
            self._note(unit, e.commit)
        elif e.commit > there.commit:
            self._leave(unit, there.commit)
            there.commit = e.commit
            self._note(unit, e.commit)
        self.pending.put(id, Pending(**vars(e), previous=there.last))
        there.last = id
        there.lsn = max(there.lsn, e.lsn)
        self.gathered.put(unit, there)

    def _note(self, unit: str, commit: int) -> None:
        units = self.at_commit.get(str(commit)) or Units([])
        self.at_commit.put(str(commit), Units([*units.units, unit]))
        self.commits.add(commit)

    def _leave(self, unit: str, commit: int) -> None:
        units = [its for its in self.at_commit[str(commit)].units if its != unit]
        if units:
            self.at_commit.put(str(commit), Units(units))
        else:
            self.at_commit.delete(str(commit))
            self.commits.discard(commit)

    # Closing

    def _close(self, by: tuple[int, int] | None) -> None:
        """`by`: the place of a new change; None: a heartbeat, which is later than all of them."""
        if self.waits.gathered > FEW and self.ctx.now < self.waits.next_close:
            return
        self.waits.next_close = self.ctx.now + self.ctx.rules.settle_ms // PART
        last = self._last_settled(by)
        if last is None:
            return
        for commit in self.commits.between(0, last[0]):
            units = [(self.gathered[unit].lsn, unit) for unit in self.at_commit[str(commit)].units]
            for lsn, unit in sorted(units):
                if (commit, lsn) <= last:
                    self._leave(unit, commit)
                    self._apply(unit)

    def _last_settled(self, by: tuple[int, int] | None) -> tuple[int, int] | None:
        """The place of the last unit that can be closed. All before it are, too."""
        last: tuple[int, int] | None = None
        while self.waits.arrived_head < self.waits.arrived_tail:
            id = queue_id(self.waits.arrived_head)
            first = self.arrived[id]
            unit = self.gathered.get(first.unit)
            if unit is not None and unit.since == first.since:
                place = unit.commit, unit.lsn
                if self.ctx.now < first.since + self.ctx.rules.settle_ms or (by is not None and place >= by):
                    break
                last = place if last is None else max(last, place)
            self.arrived.delete(id)
            self.waits.arrived_head += 1
        return last

    def _apply(self, unit: str) -> None:
        changes: list[Change] = []
        id = self.gathered[unit].last
        while id:
            pending = self.pending[id]
            changes.append(pending)
            self.pending.delete(id)
            id = pending.previous
        self.gathered.delete(unit)
        self.waits.gathered -= 1
        committed_at = changes[0].committed_at
        readable = [change for change in reversed(changes) if change.table in self.applying.tables]
        number = self.matching.unit(readable, committed_at)
        store = self.applying.store
        store.remember_unit(unit, Applied(number, False, committed_at), committed_at)
        for change in changes:
            store.remember_change(change_id(change), committed_at)


def unit_of(e: Change) -> str:
    """Names the unit of a row. Each row without a number of its transaction is a unit by itself."""
    return e.written_by or change_id(e)


def change_id(e: Change) -> str:
    """Names a change. A change that is sent again has the same id, and no other one has."""
    return f"{e.written_by}/{e.lsn:016x}/{e.op}/{e.table}{e.key}"

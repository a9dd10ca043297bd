"""Transaction mode: the topic of transactions says what belongs together. docs/changes.md has the rules.

A transaction is applied once all of its changes are there, and in the order of the ends. What cannot be applied yet
waits in a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import moneystate as ms
from moneystate.records.json_text import member_texts
from services.changes.apply import Applying
from services.changes.config import Config
from services.changes.decode import transaction_in
from services.changes.happened import About
from services.changes.records import Applied, Change, Connector, Ended, Open, Pending, Queued
from services.changes.rows import object_of

MALFORMED: Final = "malformed"


@dataclass
class Transactions:
    """A step. `collections`: names of tables, by what the ends call them."""

    ctx: ms.Context[Config]
    timer: ms.Timer
    collections: Mapping[str, str]
    connector: Connector
    applying: Applying
    open: ms.Entries[Open]
    pending: ms.Entries[Pending]
    queue: ms.Entries[Queued]

    # Changes

    def change(self, e: Change) -> None:
        if e.problem:
            self.ctx.dead_letter(MALFORMED, e.problem)
        if e.op == "r":
            self._snapshot(e)
        elif not e.transaction:
            self.ctx.count("outside_transactions")
            self.applying.fill(e)
        else:
            self._in_transaction(e)

    def _snapshot(self, e: Change) -> None:
        """It counts for units whose ends come later."""
        if self.connector.head == self.connector.tail:
            self.applying.snapshot(e)
        else:
            self._enqueue(Queued(None, e, self.ctx.now))

    def _in_transaction(self, e: Change) -> None:
        applied = self.applying.store.applied_unit(e.transaction)
        if applied is not None:
            self._after_its_unit(e, applied)
            return
        unit, id = self.open.get(e.transaction), pending_id(e)
        if id in self.pending:
            self.ctx.count("duplicates")
            return
        if unit is None:
            if self._is_before_all(e):
                self.applying.fill(e)
                return
            unit = Open(committed_at=e.committed_at, since=self.ctx.now)
        self.pending.put(id, Pending(**vars(e), previous=unit.last))
        unit.last = id
        unit.counts = object_of({**member_texts(unit.counts.text), e.table: str(count_of(unit, e.table) + 1)})
        unit.unreadable = unit.unreadable or bool(e.problem)
        self.open.put(e.transaction, unit)
        if unit.end == self.connector.head:
            self._advance()

    def _is_before_all(self, e: Change) -> bool:
        """Whether it was written before transactions were."""
        return self.connector.first_end is not None and e.committed_at < self.connector.first_end

    def _after_its_unit(self, e: Change, applied: Applied) -> None:
        late = self.applying.store.late
        if applied.complete or pending_id(e) in late:
            self.ctx.count("duplicates")
        else:
            self.applying.store.remember_change(pending_id(e), e.committed_at)
            self.applying.late(e, applied, "INCOMPLETE", transaction_in(e.transaction))

    # Ends

    def _begin(self, e: Ended) -> None:
        """Transactions begin with the first end. What is older fills the state."""
        self.connector.first_end = e.committed_at
        for id, unit in self.open.items():
            if unit.committed_at < e.committed_at:
                for change in self._take(id, unit):
                    self.applying.fill(change)

    def end(self, e: Ended) -> None:
        if self.connector.first_end is None:
            self._begin(e)
        if self._is_repeated(e):
            self.ctx.count("repeated_ends")
            return
        self.connector.last_end = max(e.lsn, self.connector.last_end)
        counts = {self.collections[name]: n for name, n in e.counts.items() if name in self.collections}
        unit = self.open.get(e.transaction)
        if not counts and unit is None:
            return
        end = Ended(e.connector, e.transaction, e.lsn, e.committed_at, counts)
        if self.connector.head == self.connector.tail and is_complete(end, unit):
            self._apply(end, unit or Open(), True)
            return
        unit = unit or Open(committed_at=e.committed_at, since=self.ctx.now)
        unit.end = self.connector.tail
        self.open.put(e.transaction, unit)
        self._enqueue(Queued(end, None, self.ctx.now + self.ctx.rules.transaction_wait_ms))
        self._advance()

    def _is_repeated(self, e: Ended) -> bool:
        unit = self.open.get(e.transaction)
        is_known = self.applying.store.applied_unit(e.transaction) is not None or (
            unit is not None and unit.end is not None
        )
        if is_known or e.lsn == 0 or e.lsn > self.connector.last_end:
            return is_known
        if unit is not None:  # it was applied before what is remembered
            self.ctx.count("duplicates", len(self._take(e.transaction, unit)))
        self.applying.store.remember_unit(e.transaction, Applied(0, True, e.committed_at), self.connector.committed_at)
        return True

    # The queue

    def _enqueue(self, queued: Queued) -> None:
        self.queue.put(queue_id(self.connector.tail), queued)
        self.connector.tail += 1

    def due(self) -> None:
        self.connector.due = None
        self._advance()

    def _advance(self) -> None:
        """Apply what is first in the queue, as long as it can be."""
        connector = self.connector
        while connector.head < connector.tail:
            id = queue_id(connector.head)
            first = self.queue[id]
            if first.change is not None:
                self.applying.snapshot(first.change)
            else:
                assert first.end is not None
                unit = self.open[first.end.transaction]
                complete = is_complete(first.end, unit)
                if not complete and self.ctx.now < first.due:
                    self._wait_until(first.due)
                    return
                self._apply(first.end, unit, complete)
            self.queue.delete(id)
            connector.head += 1
        self._wait_until(None)

    def _wait_until(self, due: int | None) -> None:
        if due == self.connector.due:
            return
        self.connector.due = due
        if due is None:
            self.ctx.cancel(self.timer)
        else:
            self.ctx.at(self.timer, due)

    def _apply(self, end: Ended, unit: Open, complete: bool) -> None:
        changes = self._take(end.transaction, unit)
        whole = complete and not unit.unreadable
        about = About("TRANSACTION" if whole else "INCOMPLETE", transaction_in(end.transaction), end.committed_at)
        self.connector.committed_at = max(self.connector.committed_at, end.committed_at)
        number = self.applying.unit(about, changes)
        store = self.applying.store
        store.remember_unit(end.transaction, Applied(number, whole, end.committed_at), end.committed_at)
        for change in () if whole else changes:
            store.remember_change(pending_id(change), end.committed_at)

    def _take(self, transaction: str, unit: Open) -> list[Change]:
        """The changes of a unit, which is not open any more."""
        changes: list[Change] = []
        id = unit.last
        while id:
            pending = self.pending[id]
            changes.append(pending)
            self.pending.delete(id)
            id = pending.previous
        self.open.delete(transaction)
        return changes[::-1]


def is_complete(end: Ended, unit: Open | None) -> bool:
    """Other tables do not count."""
    return all(count_of(unit, table) >= n for table, n in end.counts.items())


def count_of(unit: Open | None, table: str) -> int:
    """Returns how many changes of a table are there."""
    return 0 if unit is None else int(member_texts(unit.counts.text).get(table, 0))


def pending_id(e: Change) -> str:
    """Names a change. A change that is sent again has the same id, and no other one has."""
    return f"{e.transaction}/{e.lsn:016x}/{e.op}/{e.table}{e.key}"


def queue_id(number: int) -> str:
    return f"{number:016d}"

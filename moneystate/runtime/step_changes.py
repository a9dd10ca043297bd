"""The entries that the current step may change: how they were before it, and their encoding when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moneystate.engine.effects import Effects
from moneystate.engine.items import CLEANUP_RANK, NO_ITEM, TIME, Item
from moneystate.engine.sweep import sweep_time
from moneystate.errors import ServiceError, StepError
from moneystate.records import index_order
from moneystate.records.untouched import Noted
from moneystate.runtime import layout
from moneystate.runtime.cells import NEVER, NO_TTL, Cell, RecordKind
from moneystate.runtime.working_set import WorkingSet

ENTRY_OVERHEAD: Final = 64  # of an entry's schema and times


class Before:
    """A cell as the step found it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.content: Any = cell.body if isinstance(cell.kind, RecordKind) else cell.value
        self.changed_at = cell.changed_at
        self.sweep_at = cell.sweep_at
        self.decoded = cell.decoded
        self.dirty = cell.dirty
        self.noted: Noted | None = None
        self.is_untouched = False  # at its end, the step has left the cell's record as it was


class StepChanges:
    """Encodes each record when the step ends, because a step can leave objects that the state cannot hold, or that are
    read back as others: a whole number in a float field, a dict in another order, one list in two entries. So such
    values are refused in the step that made them, and the next step gets what it would get after a batch. A record of
    strings and numbers that have the declared types is not read again."""

    def __init__(self, largest_entry: int) -> None:
        self.largest_entry = largest_entry - ENTRY_OVERHEAD  # bytes, with its key
        self.cells: WorkingSet  # of the batch
        self.on_settled: Callable[[Cell], None] | None = None  # sees each record that a step may have changed
        # These belong to the current step.
        self.item: Item = NO_ITEM
        self.effects = Effects()
        self.before: list[Before] = []

    def begin_step(self, item: Item, effects: Effects) -> None:
        self.item = item
        self.effects = effects

    def begin_change(self, cell: Cell) -> None:
        """Notes the decoded cell for `roll_back`: the step may change its value in place."""
        before = Before(cell)
        self.before.append(before)
        kind = cell.kind
        if cell.settled and cell.value is not None and isinstance(kind, RecordKind) and kind.fields is not None:
            before.noted = Noted(kind.fields, cell.value)
        cell.dirty = True
        cell.settled = False

    def replace(self, cell: Cell, value: Any) -> None:
        """Replaces the cell's value without decoding the stored one. If that holds the time of the next sweep, it must
        be read now. Otherwise `WorkingSet.changed` reads it at the end of the batch."""
        if cell.kind.keeps_times:
            self.cells.load_times(cell)
        self.before.append(Before(cell))
        cell.value = value
        cell.decoded = True
        cell.dirty = True
        cell.settled = False
        cell.is_shared = True

    def mark_written(self, cell: Cell) -> None:
        """Restarts the TTL of an entry, and makes sure that a sweep is scheduled."""
        cell.changed_at = self.item[TIME]
        if cell.kind.expires() and self.has_no_sweep(cell):
            self.schedule_sweep(cell, cell.changed_at)

    def begin_ttl(self, cell: Cell) -> None:
        """Schedules the sweep of an entry that was stored without TTL, or removes it if it has expired. Without
        the time of its last change, its TTL begins now."""
        if cell.kind.ttl_ms == NO_TTL or not self.has_no_sweep(cell):
            return
        self.cells.decode(cell)
        if cell.value is None:
            return
        self.begin_change(cell)
        if cell.has_expired(self.item[TIME]):
            cell.value = None
            return
        if cell.changed_at == NEVER:
            cell.changed_at = self.item[TIME]
        self.schedule_sweep(cell, cell.changed_at)

    def has_no_sweep(self, cell: Cell) -> bool:
        """A sweep of the past found no TTL: otherwise it would have removed the entry, or set another one."""
        return cell.sweep_at < self.item[TIME]

    def schedule_sweep(self, cell: Cell, changed_at: int) -> None:
        item = self.item
        due = sweep_time(cell.owner, changed_at + cell.kind.ttl_ms, cell.kind.ttl_ms)
        cell.sweep_at = due
        self.effects.set_timer(due, CLEANUP_RANK, item, cell.owner, layout.timer_value(cell.kind.prefix, cell.id))

    def sweep(self, cell: Cell, item: Item, effects: Effects) -> None:
        """Removes the entry if it has expired, without decoding it. Otherwise schedules another sweep. Does nothing if
        there is no TTL any more."""
        self.cells.load_times(cell)
        kind = cell.kind
        if cell.sweep_at != item[TIME] or not kind.expires():
            return  # already removed, or a later sweep is scheduled
        self.begin_step(item, effects)
        if item[TIME] >= cell.changed_at + kind.ttl_ms:
            cell.value = None
            cell.body = None
            cell.decoded = True
            cell.changed_at = cell.sweep_at = NEVER
        else:
            if not cell.dirty and isinstance(kind, RecordKind):
                assert cell.stored is not None
                cell.body = kind.stored_body(cell.stored)
            self.schedule_sweep(cell, cell.changed_at)
        cell.dirty = True

    def settle(self, begun: int = 0) -> None:
        """Encodes the records. Raises StepError, which names the entry, for a value that it cannot hold. `begun`: how
        many changes to leave out."""
        for before in self.before[begun:] if begun else self.before:
            cell = before.cell
            kind = cell.kind
            if isinstance(kind, RecordKind):
                if not cell.settled:  # else the step has touched it twice
                    cell.settled = True
                    if before.noted is not None and before.noted.holds(cell.value):
                        before.is_untouched = True
                        self._leave(cell, before)
                    else:
                        self._settle_record(cell, kind, before)
            elif cell.value is None:
                cell.changed_at = cell.sweep_at = NEVER

    def has_changed(self) -> bool:
        """Whether the step has left any record other than it was. Timers are none."""
        for before in self.before:
            kind = before.cell.kind
            if not isinstance(kind, RecordKind) or before.is_untouched:
                continue
            if before.cell.body != _body_before(kind, before):
                return True
        return False

    def _leave(self, cell: Cell, before: Before) -> None:
        cell.dirty = before.dirty
        if cell.body is None if cell.dirty else cell.stored is None:
            cell.forget_value()  # a default record, which is not stored

    def _settle_record(self, cell: Cell, kind: RecordKind, before: Before) -> None:
        try:
            body = kind.body_of(cell.value)
        except StepError as e:
            raise StepError(f"{_place(cell)}: {e}") from e
        if body is None:
            cell.changed_at = cell.sweep_at = NEVER
        else:
            if len(body) + len(cell.key) > self.largest_entry:
                raise self._too_large(cell, body)
            if kind.keeps_times or kind.indices:
                self._note_change(cell, kind, body, before)
        cell.body = body
        if cell.is_shared or body is None or kind.exact is None or not kind.exact.holds(cell.value):
            cell.forget_value()
        if kind.runs_code:
            cell.decode()

    def _note_change(self, cell: Cell, kind: RecordKind, body: bytes, before: Before) -> None:
        """Restarts the TTL and checks the index values of a record, if the step has changed it."""
        changed_at, time_ms = before.changed_at, self.item[TIME]
        had_expired = kind.ttl_ms != NO_TTL and changed_at != NEVER and time_ms >= changed_at + kind.ttl_ms
        if not had_expired and body == _body_before(kind, before):
            return
        if kind.keeps_times:
            self.mark_written(cell)
        if kind.indices:
            record = cell.value if kind.is_plain else kind.codec.read_own_body(body, 0)[0]
            for index in kind.indices:
                try:
                    index_order.check(index.by, record, index)
                except ServiceError as e:
                    raise StepError(f"{_place(cell)}: {e}") from e

    def _too_large(self, cell: Cell, body: bytes) -> StepError:
        return StepError(
            f"{_place(cell)}: expected an entry of at most {self.largest_entry:,} bytes with its key, found "
            f"{len(body) + len(cell.key):,}.",
            "store its parts as entries of a map, or declare the size with service.holding(n).",
        )

    def keep(self, begun: int) -> None:
        """Makes the changes after the first `begun` permanent, whatever becomes of the step."""
        self.settle(begun)
        self._show(begun)
        del self.before[begun:]

    def end_step(self) -> None:
        self._show(0)
        self.before.clear()

    def _show(self, begun: int) -> None:
        if self.on_settled is not None:
            for before in self.before[begun:]:
                if isinstance(before.cell.kind, RecordKind):
                    self.on_settled(before.cell)

    def roll_back(self) -> None:
        self.before.reverse()
        for before in self.before:
            cell = before.cell
            cell.changed_at, cell.sweep_at, cell.dirty = before.changed_at, before.sweep_at, before.dirty
            if isinstance(cell.kind, RecordKind):
                cell.body = before.content
                cell.settled = True
                cell.forget_value()
            else:
                cell.value, cell.decoded = before.content, before.decoded
        self.before.clear()


def _body_before(kind: RecordKind, before: Before) -> Any:
    """Returns how the step found a record."""
    if before.dirty:  # an earlier step of the batch may have changed it
        return before.content
    stored = before.cell.stored
    return None if stored is None else kind.stored_body(stored)


def _place(cell: Cell) -> str:
    id = f", id {cell.id.decode()!r}" if cell.id else ""
    return f"state {cell.kind.name!r} of key {cell.owner.decode()!r}{id}"

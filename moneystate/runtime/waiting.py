"""Events that wait for a row of a table (`Service.wait_for`).

An event whose row does not hold yet is held, in a value of its key. Later events of the key wait behind it, so their
order stays. A timer looks `CHECKS` times within the wait whether the row holds. Then the event is processed at the
timer's time, with the row or without it, and the next one looks for its own.

The times of these looks follow from the event's order time alone. So what is processed when does not depend on batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from moneystate.api.handles import Timer
from moneystate.engine.effects import Effects
from moneystate.engine.items import EVENT_TIME, KEY, OFFSET, PARTITION, RANK, TIME, TOPIC, VALUE, Item
from moneystate.engine.place import own_value
from moneystate.records.platform_records import HeldEvent
from moneystate.runtime.cells import Cell, RecordKind
from moneystate.runtime.table_plan import TablePlan

if TYPE_CHECKING:
    from moneystate.runtime.current_step import CurrentStep
    from moneystate.runtime.work import Preparation, Work
    from moneystate.runtime.working_set import WorkingSet

CHECKS: Final = 16
HELD: Final = "held"  # counts events that wait now


class WaitPlan:
    """Holds what a function waits for. `key_of`: the row's key, from the event; None: the event needs no row."""

    def __init__(self, table: TablePlan, key_of: Callable[[Any], Any], wait_ms: int) -> None:
        self.table = table
        self.key_of = key_of
        self.wait_ms = wait_ms


class Waiting:
    """The held events of a batch. `run` processes an event."""

    def __init__(
        self, kind: RecordKind, timer: Timer, current: CurrentStep, preparation: Preparation,
        run: Callable[[Item, Work, Effects], None],
    ) -> None:  # fmt: skip
        self.kind = kind
        self.timer = timer
        self.current = current
        self.preparation = preparation
        self.run = run
        self.cells: WorkingSet  # of the batch

    def holds(self, item: Item, work: Work, effects: Effects) -> bool:
        """Holds an event that has to wait. False: it is to be processed now."""
        cell = self._cell(item[KEY])
        is_first = cell.value is None
        until_ms = self._until_ms(work, item, item[TIME]) if is_first else None
        if is_first and until_ms is None:
            return False
        self._begin(cell, item, effects)
        place = (item[TOPIC], item[PARTITION], item[OFFSET], item[RANK])
        cell.value.events.append(HeldEvent(*place, item[TIME], item[EVENT_TIME], item[VALUE]))
        effects.count(HELD, 1)
        if until_ms is not None:
            self._look_later(work, until_ms, item[TIME])
        self._end()
        return True

    def release(self, timer: Item, effects: Effects) -> None:
        """Processes the first of the key's held events, and those behind it, as far as they need not wait any more."""
        now_ms, key = timer[TIME], timer[KEY]
        while True:
            cell = self._cell(key)
            if cell.value is None:
                return
            first = cell.value.events[0]
            place = (first.rank, 0, first.topic, first.partition, first.offset)
            item: Item = (first.order_time, *place, first.event_time, key, first.value)
            work = self.preparation.of_event(first.topic, key, own_value(first.value))
            self._begin(cell, timer, effects)
            until_ms = self._until_ms(work, item, now_ms)
            if until_ms is not None:
                cell.value.checks += 1  # so that a drain goes on
                self._look_later(work, until_ms, now_ms)
                self._end()
                effects.has_changed = True
                return
            del cell.value.events[0]
            cell.value.checks = 0
            effects.count(HELD, -1)
            self._end()
            is_late = first.event_time < first.order_time
            self.run((now_ms, *place, first.event_time if is_late else now_ms, key, first.value), work, effects)

    def _cell(self, key: bytes) -> Cell:
        cell = self.cells.cell(self.kind, key, b"")
        self.cells.decode(cell)
        return cell

    def _begin(self, cell: Cell, item: Item, effects: Effects) -> None:
        self.current.begin(item, None, None, effects)
        if cell.value is None:
            cell.value = self.kind.default()
        self.current.changes.begin_change(cell)

    def _end(self) -> None:
        self.current.changes.settle()
        self.current.end()

    def _until_ms(self, work: Work, item: Item, now_ms: int) -> int | None:
        """Up to when the event waits for a row; None: it does not wait."""
        if work.failure is not None or work.handler is None:
            return None
        until = None
        for wait in work.handler.waits:
            key = wait.key_of(work.record)
            until_ms = item[TIME] + wait.wait_ms
            if (
                key is not None
                and now_ms < until_ms
                and self.current.row_of(wait.table, item[KEY], key, now_ms) is None
            ):
                until = until_ms if until is None else max(until, until_ms)
        return until

    def _look_later(self, work: Work, until_ms: int, now_ms: int) -> None:
        assert work.handler is not None
        longest = max(wait.wait_ms for wait in work.handler.waits)
        self.current.set_timer(self.timer, min(now_ms + max(1, longest // CHECKS), until_ms), "")

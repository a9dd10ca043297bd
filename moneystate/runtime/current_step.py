"""The step that runs: what it may change, how to undo that, and the calls of its context
(`moneystate.api.context.Runs`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moneystate.api.context import EventSource
from moneystate.api.entries import Entries
from moneystate.api.forgetting import FORGOTTEN
from moneystate.api.handles import MapTimer, Output, Timer
from moneystate.api.lookup import Lookup
from moneystate.api.table import Table
from moneystate.api.waits import HELD_EVENTS
from moneystate.engine import deadletter
from moneystate.engine.deadletter import COUNT_PREFIX, Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import (
    END_OF_TIME,
    KEY,
    NO_ITEM,
    NO_TIME,
    OFFSET,
    PARTITION,
    RANK,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    Item,
)
from moneystate.engine.limits import MAX_CHAIN, MAX_COUNT, MAX_NAME_BYTES, largest_message
from moneystate.engine.place import carried_over, own_value
from moneystate.errors import StepError
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, RecordKind
from moneystate.runtime.emission import Emission
from moneystate.runtime.failures import where_of
from moneystate.runtime.lookup_steps import LookupSteps
from moneystate.runtime.map_cells import MapCells, id_bytes
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import TimerPlan
from moneystate.runtime.step_changes import StepChanges
from moneystate.runtime.table_copies import TableCopies
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.table_rows import OwnRow
from moneystate.runtime.working_set import AnyKind, WorkingSet


class CurrentStep:
    """One object for all steps of a processor."""

    def __init__(self, plan: Plan, largest: int, formats: Mapping[str, str], timers: Sequence[str]) -> None:
        self.plan = plan
        self.kinds = _kinds_of_keys(plan, timers)  # of all entries that a key may have
        self.entries: dict[RecordKind, Entries[Any]] = {}  # what steps get for their maps
        self.emission = Emission(plan, largest, {**{o.topic: o.format for o in plan.service.outputs}, **formats})
        self.changes = StepChanges(largest_message(largest, in_json=False))
        self.lookups = LookupSteps(self)
        self.cells: WorkingSet  # of the batch
        self.copies: TableCopies | None = None  # of the batch's tables, where the service reads rows of any key
        self.item: Item = NO_ITEM
        self.owner = b""  # its key
        self.now = 0  # its order time
        self.timer: Cell | None = None  # the timer that runs
        self.chain: dict[Cell, int] = {}  # how many timers before each have set one for the same order time
        self.chained_at = NO_TIME  # that time
        self.effects = Effects()
        self.undo_counts: list[tuple[str, int]] = []

    def begin_batch(self, cells: WorkingSet) -> None:
        self.cells = self.changes.cells = cells
        self.emission.begin_batch()

    def begin_aside(self, item: Item, effects: Effects) -> None:
        """Begins with an item on which no function of the service runs."""
        self.item = item
        self.effects = effects

    def begin(self, item: Item, timer: TimerPlan | None, cell: Cell | None, effects: Effects) -> None:
        """`timer` and `cell`: of the timer that runs."""
        self.begin_aside(item, effects)
        self.owner = item[KEY]
        self.now = item[TIME]
        self.timer = None if timer is None else cell
        self.emission.begin_step(item, timer, effects)
        self.changes.begin_step(item, effects)

    def end(self) -> None:
        """Forgets how to undo the step."""
        self.changes.end_step()
        self.undo_counts.clear()

    def roll_back(self, outputs: int, timers: int) -> None:
        effects = self.effects
        del effects.outputs[outputs:]
        del effects.timers[timers:]
        self.changes.roll_back()
        self.lookups.roll_back()
        for name, n in self.undo_counts:
            effects.count(name, -n)
        self.undo_counts.clear()

    def entries_of(self, kind: RecordKind) -> Entries[Any]:
        """The map of the current key: one object for all steps."""
        entries = self.entries.get(kind)
        if entries is None:
            entries = self.entries[kind] = Entries(MapCells(self, kind))
        return entries

    def table_of(self, table: TablePlan, cell: Cell | None) -> Table[Any]:
        """A table as of the current step. `cell`: the row of the step's key, of a local table."""
        if cell is None:
            assert self.copies is not None
            return Table(self.copies.access(table, self.now))
        self.cells.load_times(cell)
        return Table(OwnRow(table, cell, self.now))

    def row_of(self, table: TablePlan, own: bytes, key: Any, now_ms: int) -> Any:
        """The row of a key at a time. `own`: the step's own key, which a local table has the row of."""
        if not table.table.local:
            assert self.copies is not None
            return self.copies.access(table, now_ms).get(key, None)
        cell = self.cells.cell(table.kind, own, b"")
        self.cells.load_times(cell)
        return OwnRow(table, cell, now_ms).get(key, None)

    def emit_dead_letter(self, reason: str, detail: str) -> None:
        """Writes the current record to the dead letters. Its canonical value is replaced by the original record before
        the letter is written (`deadletter.restored`). A timer has no value there."""
        item = self.item
        topic, partition, offset = where_of(self.plan, item)
        is_event = item[RANK] < TIMER_RANK
        value = own_value(item[VALUE]) if is_event else None
        letter = Letter(topic, partition, offset, -1, item[KEY], value, [])
        key, content, headers = deadletter.write(letter, reason, detail)
        headers.append((deadletter.ORIGIN, deadletter.STEP if is_event else deadletter.TIMER))
        self.effects.emit(self.plan.dead_letter_stream, key, content, headers)
        self.effects.count(COUNT_PREFIX + reason)

    def emit(self, output: Output[Any], record: object) -> None:
        self.emission.emit(output, record)

    def remove(self, output: Output[Any], key: tuple[Any, ...]) -> None:
        self.emission.remove(output, key)

    def ask(self, lookup: Lookup[Any, Any, Any, Any], request: object, held: object) -> None:
        self.lookups.ask(lookup, request, held)

    def set_timer(self, timer: Timer | MapTimer[Any], when: Any, id: str) -> None:
        cell = self._timer_cell(timer, id)
        item = self.item
        if type(when) is not int or when >= END_OF_TIME or when < 0 <= self.now:
            raise StepError(
                f"{timer!r}: expected a time in ms, found {when!r}.", "pass an int, for example ctx.now + 1000."
            )
        due = when if when > self.now else self.now
        if due == self.now and self.timer is not None:
            self._chain(timer, cell, self.timer)
        self.changes.replace(cell, (due, item[TIME], item[TOPIC], item[PARTITION], item[OFFSET]))
        value = carried_over(item[VALUE], layout.timer_value(cell.kind.prefix, cell.id))
        self.effects.set_timer(due, TIMER_RANK, item, self.owner, value)

    def _chain(self, timer: Timer | MapTimer[Any], cell: Cell, by: Cell) -> None:
        """Counts timers that set each other without time going on."""
        if self.chained_at != self.now:
            self.chain.clear()
            self.chained_at = self.now
        length = self.chain.get(by, 0) + 1
        if length > MAX_CHAIN:
            raise StepError(
                f"{timer!r} of the key {self.owner.decode()!r}: expected at most {MAX_CHAIN:,} timers that set each "
                f"other at one order time, found more.",
                "set a timer for a later time than ctx.now, or stop setting it.",
            )
        self.chain[cell] = length

    def cancel(self, timer: Timer | MapTimer[Any], id: str) -> None:
        self.changes.replace(self._timer_cell(timer, id), None)

    def _timer_cell(self, timer: Any, id: Any) -> Cell:
        plan = self.plan.timers.get(timer)
        if plan is None:
            if not isinstance(timer, (Timer, MapTimer)):
                raise StepError(f"expected a timer, found {timer!r}.", "pass an object that timer() returned.")
            raise StepError(
                f"expected a timer of the service {self.plan.name!r}, found {timer!r} of {timer.service!r}.",
                "use a timer of this service.",
            )
        return self.cells.cell(plan.kind, self.owner, id_bytes(id))

    def count(self, name: Any, n: Any) -> None:
        if type(name) is not str or type(n) is not int or not -MAX_COUNT <= n <= MAX_COUNT or not _is_name(name):
            raise StepError(
                f"count: expected a name of 1 to {MAX_NAME_BYTES:,} bytes and a whole number of at most 53 bits, found "
                f"{name!r:.80} and {n!r:.80}.",
                "correct the arguments.",
            )
        self.effects.count(name, n)
        self.undo_counts.append((name, n))

    def dead_letter(self, reason: Any, detail: Any) -> None:
        if not isinstance(reason, str) or not isinstance(detail, str):
            raise StepError(
                f"dead_letter: expected two strings, found {reason!r} and {detail!r}.",
                "pass the reason, and the detail if there is one, as strings.",
            )
        if not _is_name(reason):
            raise StepError(
                f"dead_letter: expected a reason of 1 to {MAX_NAME_BYTES:,} bytes, found {reason!r:.80}.",
                "give a short reason, and the rest as the detail.",
            )
        self.emit_dead_letter(reason, detail)
        self.undo_counts.append((COUNT_PREFIX + reason, 1))

    def forget(self) -> None:
        for kind in self.kinds:
            for cell in self.cells.cells_of(kind, self.owner):
                self.cells.decode(cell)
                if cell.value is not None:  # a cell without an entry is there only if the batch has asked for it before
                    self.changes.begin_change(cell)
                    cell.value = None

        self._prove()

    def _prove(self) -> None:
        """Keeps the proof, if the step's event is a request to forget the key."""
        item, forgetting = self.item, self.plan.forgetting
        if forgetting is None or item[RANK] >= TIMER_RANK:
            return
        proof = forgetting.proof_of(own_value(item[VALUE]), self.now, *where_of(self.plan, item))
        if proof is not None:
            cell = self.cells.cell(self.plan.kinds[FORGOTTEN], self.owner, b"")
            self.changes.replace(cell, proof)

    def source(self) -> EventSource:
        return EventSource(*where_of(self.plan, self.item))


def _kinds_of_keys(plan: Plan, timers: Sequence[str]) -> list[AnyKind]:
    """Returns the declared kinds and those of removed declarations: timers of these names, and the seen ids of each
    topic that was ever read. Rows of tables and held events are left out, and the kinds of lookups: only a reply
    decides what becomes of its request. So is the proof."""
    prefixes = [layout.prefix_of(layout.SEEN, topic) for topic in plan.codes]
    prefixes += [layout.prefix_of(layout.TIMER, name) for name in timers]
    removed = [plan.kind_at(prefix) for prefix in prefixes]
    kinds = dict.fromkeys([*plan.by_prefix.values(), *plan.every_kind(), *[k for k in removed if k is not None]])
    of_tables = {
        layout.prefix_of(letter, name)
        for name in [*plan.tables, HELD_EVENTS]
        for letter in (layout.VALUE, layout.TIMER)
    }
    spared = [*plan.lookup_kinds(), *([] if plan.forgetting is None else [plan.kinds[FORGOTTEN]])]
    return [kind for kind in kinds if kind not in spared and kind.prefix not in of_tables]


def _is_name(name: str) -> bool:
    """Whether the name of a counter or a reason can be stored."""
    if name.isascii():
        return 0 < len(name) <= MAX_NAME_BYTES
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False

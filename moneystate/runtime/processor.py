"""Runs services on the engine: one `moneystate.engine.processor.Processor` for all declarations.

A batch reads the entries that its events and timers declare in one request. Other entries are read when a step asks for
them: undeclared map entries, prefixes, and timers that are both set and due in the batch. An entry is decoded for each
step that uses it, and encoded when the step ends (`step_changes`). `finish` returns the entries whose bytes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moneystate.api.context import Context
from moneystate.api.reject import Reject
from moneystate.api.tables import BEGINNING_MS
from moneystate.api.waits import HELD_EVENTS
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.effects import Effects
from moneystate.engine.items import (
    EVENT_TIME,
    KEY,
    NO_TIME,
    RANK,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    Item,
    UnorderedRecord,
)
from moneystate.engine.place import own_value
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from moneystate.errors import StepError
from moneystate.runtime import layout
from moneystate.runtime.cells import NEVER, Cell, RecordKind, decode_entry, setting_of
from moneystate.runtime.current_step import CurrentStep
from moneystate.runtime.failures import EXCEPTION, failure
from moneystate.runtime.lookup_steps import at_request
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import HandlerPlan
from moneystate.runtime.seen_page import SeenKind
from moneystate.runtime.table_copies import TableCopies
from moneystate.runtime.unavailable import UNAVAILABLE_VALUE, KeptRows
from moneystate.runtime.unique import UniqueIds
from moneystate.runtime.waiting import Waiting
from moneystate.runtime.work import Preparation, Work
from moneystate.runtime.working_set import WorkingSet

MAX_RECORD_BYTES: Final = 128 * 1024  # the default of the rule
NO_FORMATS: Final[dict[str, str]] = {}
REMOVED_INPUT: Final = "removed_input"  # the reason of a dead letter
REMOVED_TIMERS: Final = "removed_timers"  # a counter


class ServiceProcessor:
    """The processor of one key group in one batch at a time."""

    def __init__(
        self, plan: Plan, dead_letter_errors: bool = False, max_record_bytes: int = MAX_RECORD_BYTES,
        formats: Mapping[str, str] = NO_FORMATS, timers: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`timers`: the names of those that were declared before, too."""
        self.plan = plan
        self.dead_letter_errors = dead_letter_errors  # a step's exception makes a dead letter instead of ending the job
        largest = plan.service.holds * max_record_bytes
        self.current = CurrentStep(plan, largest, formats, timers)
        self.changes = self.current.changes
        self.lookups = self.current.lookups
        self.unique = UniqueIds(self.changes)
        self.context: Context[Any] = Context(self.current, plan.rules)
        self.preparation = Preparation(plan)
        self.waiting: Waiting | None = None
        if plan.service.held is not None:
            kind = plan.kinds[plan.service.held.name]
            self.waiting = Waiting(kind, plan.service.held_timer, self.current, self.preparation, self._run_event)
        # These belong to the batch.
        self.cells: WorkingSet
        self.unordered: dict[UnorderedRecord, Work] = {}
        self.watermark_before = NO_TIME

    def use_tables(self, copies: TableCopies) -> None:
        """The tables that steps of any key read."""
        self.current.copies = copies

    # A batch

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        self.cells = self.preparation.cells = self.unique.cells = WorkingSet(state)
        self.current.begin_batch(self.cells)
        if self.waiting is not None:
            self.waiting.cells = self.cells
        self.watermark_before = watermark_before
        if self.current.copies is not None:
            self.current.copies.prune(watermark_before)
        self.unordered = {}
        for record in unordered:
            topic, _, _, key, value = record
            self.unordered[record] = self.preparation.of_event(topic, key, value)
        works = [self.preparation.of_item(item) for item in items]
        self.cells.load_announced()
        self.unique.announce([*self.unordered.values(), *works])
        return list(works)

    # A step

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        """A record of an unordered input runs at the watermark before its batch; a reply of a lookup, at the time of
        the request. Rows of a table's first load hold from the beginning of time."""
        topic, partition, offset, key, value = record
        now = BEGINNING_MS if topic in self.plan.table_of else self.watermark_before
        item: Item = (now, 0, 0, topic, partition, offset, now, key, value)
        work = self.unordered[record]
        self.lookups.may_ask = False
        plan = None if work.input is None else work.input.lookup
        if plan is None or work.failure is not None:
            self._run(item, work, effects)
        else:
            item = at_request(item, plan, work.record)
            for held in self.lookups.answered(plan, work, item, now, effects):
                self._run_reply(item, work, held, effects)
        self.lookups.may_ask = True

    def step(self, item: Item, parsed: Work | None, effects: Effects) -> None:
        work = self.preparation.of_item(item) if parsed is None else parsed
        if work.removed:
            self._step_removed(item, work, effects)
            return
        if work.input is None:
            cell = work.cell
            assert cell is not None
            if work.timer is None:
                self._sweep(cell, item, effects)
                return
            self.cells.decode(cell)
            if cell.value is None or cell.value != setting_of(item):
                return  # cancelled, or set again
            # a timer runs once, even if its step is rejected
            cell.value = None
            cell.dirty = True
        if self.waiting is not None:
            if work.timer is not None and work.timer.name == HELD_EVENTS:
                self.waiting.release(item, effects)
                return
            if work.input is not None and work.input.table is None and self.waiting.holds(item, work, effects):
                return
        self._run_event(item, work, effects)

    def _run_event(self, item: Item, work: Work, effects: Effects) -> None:
        """Runs the step of an event or a timer. A held event may be one that the service no longer declares."""
        if work.removed:
            self._step_removed(item, work, effects)
            return
        self._run(item, work, effects)
        if self.lookups.has_asked:
            self._answer_early(effects)

    def _answer_early(self, effects: Effects) -> None:
        """Runs the steps of replies that were in the log before the step's requests."""
        self.lookups.may_ask = False
        for item, held in self.lookups.take_early(effects):
            work = self.preparation.of_event(item[TOPIC], item[KEY], item[VALUE])
            self._run_reply(item, work, held, effects)
        self.lookups.may_ask = True

    def _run_reply(self, item: Item, work: Work, held: Any, effects: Effects) -> None:
        work.held = held
        if self.lookups.begun is not None:
            self.lookups.begun.append((len(effects.outputs), item))
        self._run(item, work, effects)

    def _step_removed(self, item: Item, work: Work, effects: Effects) -> None:
        """An event or a timer that the service no longer declares. The event becomes a dead letter. The timer is
        counted, and its entry removed. A sweep of a map that is not declared leaves the map's entries as they are."""
        self.current.begin_aside(item, effects)
        cell = work.cell
        if item[RANK] < TIMER_RANK:
            detail = "the service no longer declares the record's input, or no function runs on it"
            self.current.emit_dead_letter(REMOVED_INPUT, detail)
        elif cell is not None:
            self.cells.decode(cell)
            if cell.value is not None and cell.value == setting_of(item):
                cell.value = None
                cell.dirty = True
                effects.count(REMOVED_TIMERS)

    def _sweep(self, cell: Cell, item: Item, effects: Effects) -> None:
        """An entry that cannot be upgraded to schedule another sweep stays as it is."""
        try:
            if isinstance(cell.kind, SeenKind):
                self.unique.sweep(cell, item, effects)
            else:
                self.changes.sweep(cell, item, effects)
        except Exception as e:
            line = failure(self.plan, item, f"state {cell.kind.name!r}", e)
            if not self.dead_letter_errors:
                raise StepError(*line) from e
            self.current.begin_aside(item, effects)
            self.current.emit_dead_letter(EXCEPTION, line[0])

    def _run(self, item: Item, work: Work, effects: Effects) -> None:
        current = self.current
        current.begin(item, work.timer, work.cell, effects)
        outputs, timers = len(effects.outputs), len(effects.timers)
        handler = work.handler
        assert handler is not None
        try:
            if work.failure is not None:
                raise work.failure
            if work.input is not None and not self._is_new(work, item):
                return
            if work.fast is None or not self._answered(work, item):
                self._call(handler, work, item)
            self.changes.settle()
            if work.timer is not None and len(effects.timers) > timers:
                effects.has_changed = self.changes.has_changed()
        except Reject as e:
            current.roll_back(outputs, timers)
            current.emit_dead_letter(e.reason, e.detail)
        except Exception as e:
            line = failure(self.plan, item, handler.name, e)
            if not self.dead_letter_errors:
                raise StepError(*line) from e
            current.roll_back(outputs, timers)
            current.emit_dead_letter(EXCEPTION, line[0])
        current.end()

    def _call(self, handler: HandlerPlan, work: Work, item: Item) -> None:
        """Calls the function of the service."""
        context = self.context
        context.now = item[TIME]
        context.late = work.input is not None and item[TIME] > item[EVENT_TIME]
        context.key = work.key
        args: list[Any] = [context]
        if work.input is not None:
            args.append(work.record if work.input.rows is None else self._restored(work, work.input.rows, item))
            if work.held is not None:
                args.append(work.held)
        elif work.timer is not None and work.timer.map_kind is not None:
            args.append(work.id)
        self._add_states(args, handler, work)
        returned: object = handler.function(*args)
        if returned is not None:
            raise StepError(f"expected a step to return None, found {returned!r}.", "use ctx.emit(output, record).")

    def _answered(self, work: Work, item: Item) -> bool:
        """Whether the fast path has answered the event. Else its record is read, and the function has to run."""
        assert work.input is not None
        assert work.fast is not None
        fast = work.input.fast
        assert fast is not None
        bodies = self._bodies(work.fast_cells, item[TIME])
        record = None if bodies is None else fast.path.answer(work.fast[2], item[TIME], bodies)
        if record is not None and self.current.emission.emit_encoded(fast.output, record):
            return True
        work.record = work.input.codec.read_own_body(own_value(item[VALUE]), HEADER_BYTES)[0]
        return False

    def _bodies(self, cells: list[Cell | None], now: int) -> list[bytes | None] | None:
        """What a fast path reads. None: the step has to schedule the sweep of an entry, or to remove it."""
        bodies: list[bytes | None] = []
        for cell in cells:
            if cell is None:
                bodies.append(None)
                continue
            kind = cell.kind
            assert isinstance(kind, RecordKind)
            is_stored = self.cells.exists(cell, NEVER)  # even if it has expired
            if is_stored and kind.expires() and self.changes.has_no_sweep(cell):
                return None
            is_there = is_stored and not cell.has_expired(now)
            bodies.append(kind.body_of_entry(cell) if is_there else kind.default_body)
        return bodies

    def _is_new(self, work: Work, item: Item) -> bool:
        """False: the event repeats an id that `unique` has seen. Counts duplicates and late events."""
        cell = work.cell
        if cell is not None and not self.unique.is_new(cell, work.seen_id, item[TIME]):
            self.current.effects.count("duplicates")
            return False
        if item[TIME] > item[EVENT_TIME]:
            self.current.count("late", 1)
        return True

    def _restored(self, work: Work, rows: KeptRows, item: Item) -> Any:
        """The change event with the columns that it does not have itself. What the state knows of the row from now on
        stays, even if the step is rejected."""
        begun = len(self.changes.before)
        topic = self.plan.topics[item[TOPIC]]
        record, unknown = rows.restored(work.record, topic, self.current.entries_of(rows.kind))
        self.changes.keep(begun)
        if unknown:
            raise Reject(UNAVAILABLE_VALUE, f"{unknown}: the database did not log it, and no earlier event has it")
        return record

    def _add_states(self, args: list[Any], handler: HandlerPlan, work: Work) -> None:
        cells = work.cells
        for n, state in enumerate(handler.states):
            cell = cells[n]
            if state.table is not None:
                args.append(self.current.table_of(state.table, cell))
                continue
            if cell is None:
                args.append(self.current.entries_of(state.kind))
                continue
            self.cells.decode(cell)
            self.changes.begin_ttl(cell)
            if cell.value is None or cell.has_expired(self.current.now):
                cell.value = state.kind.default()
            self.changes.begin_change(cell)
            args.append(cell.value)

    # The end of a batch

    def finish(self, effects: Effects) -> list[Change]:
        changes: list[Change] = []
        for cell in self.cells.changed():
            content = cell.encoded()
            if content != cell.stored:
                changes.append((cell.key, content))
        return changes

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]]) -> list[Change]:
        """Entries of earlier record versions, re-encoded in the current one."""
        changes: list[Change] = []
        for key, stored in entries:
            kind = self.plan.kind_of(key)
            if isinstance(kind, RecordKind) and stored[:HEADER_BYTES] in kind.earlier:
                changes.append((key, _upgraded(kind, key, stored)))
        return changes


def _upgraded(kind: RecordKind, key: bytes, stored: bytes) -> bytes | None:
    """Raises StepError, which names the entry."""
    place = layout.place_of(key)
    assert place is not None
    try:
        return decode_entry(kind, stored, place.owner, place.id).encoded()
    except Malformed as e:
        raise StepError(
            f"expected entries that their upgrade functions accept, but {e}.",
            "correct the function, and run the same command again: it continues with this batch.",
        ) from e

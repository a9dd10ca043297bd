"""Runs plain services on the engine: one `moneystate.engine.processor.Processor` for all declarations.

A batch reads the entries that its events and timers declare in one request. Other entries are read when a step asks for
them: undeclared map entries, prefixes, and timers that are both set and due in the batch. An entry is decoded for each
step that uses it, and encoded when the step ends (`step_changes`). `finish` returns the entries whose bytes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moneystate.api import layout
from moneystate.api.cells import Cell, Read, RecordKind, TimerKind, decode_entry, setting_of
from moneystate.api.context import Context, EventSource
from moneystate.api.emission import Emission
from moneystate.api.entries import Entries
from moneystate.api.failures import EXCEPTION, failure, where_of
from moneystate.api.handles import MapTimer, Output, Timer
from moneystate.api.map_cells import MapCells, id_bytes
from moneystate.api.plan import Plan
from moneystate.api.plan_parts import HandlerPlan, InputPlan, StatePlan, TimerPlan
from moneystate.api.reject import Reject
from moneystate.api.step_changes import StepChanges
from moneystate.api.unavailable import UNAVAILABLE_VALUE, KeptRows
from moneystate.api.working_set import WorkingSet
from moneystate.engine import deadletter
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.deadletter import COUNT_PREFIX, Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import (
    END_OF_TIME,
    EVENT_TIME,
    KEY,
    NO_TIME,
    OFFSET,
    PARTITION,
    RANK,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    Item,
    UnorderedRecord,
)
from moneystate.engine.limits import MAX_CHAIN, MAX_COUNT, MAX_NAME_BYTES, largest_message
from moneystate.engine.place import carried_over, own_value
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from moneystate.errors import StepError

MAX_RECORD_BYTES: Final = 128 * 1024  # the default of the rule
NO_FORMATS: Final[dict[str, str]] = {}
REMOVED_INPUT: Final = "removed_input"  # the reason of a dead letter
REMOVED_TIMERS: Final = "removed_timers"  # a counter


class Work:
    """An item, prepared for its step: an event, a timer, or a sweep (neither `input` nor `timer` is set)."""

    def __init__(self, key: str, handler: HandlerPlan | None) -> None:
        self.key = key
        self.handler = handler  # None: a sweep
        self.record: Any = None  # the event's record
        self.input: InputPlan | None = None  # set for an event
        self.timer: TimerPlan | None = None  # set for a timer
        self.id = ""  # of a timer: the map id that it was set for
        self.failure: Exception | None = None  # of the service's code that read the event
        self.cell: Cell | None = None  # the seen id of an event, the timer itself, or the entry to sweep
        self.cells: list[Cell | None] = []  # one for each state that the handler declares; None: a map
        self.removed = False  # the service no longer declares what it was for


class ServiceProcessor:
    """The processor of one key group in one batch at a time."""

    def __init__(
        self, plan: Plan, dead_letter_errors: bool = False, max_record_bytes: int = MAX_RECORD_BYTES,
        formats: Mapping[str, str] = NO_FORMATS,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.dead_letter_errors = dead_letter_errors  # a step's exception makes a dead letter instead of ending the job
        largest = plan.service.holds * max_record_bytes
        self.context: Context[Any] = Context(self, plan.rules)
        self.entries: dict[RecordKind, Entries[Any]] = {}  # what steps get for their maps
        # `formats`: those that the run gives its topics
        self.emission = Emission(plan, largest, {**{o.topic: o.format for o in plan.service.outputs}, **formats})
        self.changes = StepChanges(largest_message(largest, in_json=False))
        # of the batch
        self.cells: WorkingSet
        self.unordered: dict[UnorderedRecord, Work] = {}
        self.watermark_before = NO_TIME
        # of the current step
        self.item: Item | None = None
        self.owner = b""  # its key
        self.now = 0  # its order time
        self.timer: Cell | None = None  # the timer that runs
        self.chain: dict[Cell, int] = {}  # how many timers before each have set one for the same order time
        self.chained_at = NO_TIME  # that time
        self.effects = Effects()
        self.undo_counts: list[tuple[str, int]] = []

    # A batch

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        self.cells = self.changes.cells = WorkingSet(state)
        self.watermark_before = watermark_before
        self.emission.begin_batch()
        self.unordered = {}
        for record in unordered:
            topic, _, _, key, value = record
            self.unordered[record] = self._event_work(topic, key, value)
        works: list[Work | None] = [self._work(item) for item in items]
        self.cells.load_announced()
        return works

    def _work(self, item: Item) -> Work:
        if item[RANK] < TIMER_RANK:
            return self._event_work(item[TOPIC], item[KEY], own_value(item[VALUE]))
        return self._timer_work(item)

    def _event_work(self, topic: int, key: bytes, value: bytes) -> Work:
        header = value[:HEADER_BYTES]
        plan = self.plan.inputs[topic].get(header)
        earlier = self.plan.earlier_inputs[topic].get(header) if plan is None else None
        if earlier is not None:
            plan = earlier.input
        if plan is None or plan.handler is None:  # it was buffered when the service had the input, and a function on it
            work = Work(key.decode(), None)
            work.removed = True
            return work
        work = Work(key.decode(), plan.handler)
        work.input = plan
        try:
            self._read_event(
                work, plan, plan.codec.read_own_body if earlier is None else earlier.read, topic, key, value
            )
        except Malformed:
            raise
        except Exception as e:  # of a constructor, an upgrade or a function of `map.at`: the step raises it
            work.failure = e
        return work

    def _read_event(self, work: Work, plan: InputPlan, read: Read, topic: int, key: bytes, value: bytes) -> None:
        record, _ = read(value, HEADER_BYTES)
        work.record = record
        assert plan.handler is not None
        if plan.seen is not None and plan.seen_id is not None:
            work.cell = self.cells.cell(plan.seen, key, str(plan.seen_id(record)).encode())
        if plan.rows is not None:
            self.cells.cell(plan.rows.kind, key, plan.rows.id(record, self.plan.topics[topic]).encode())
        self._add_declared_cells(work, plan.handler.states, key)

    def _timer_work(self, item: Item) -> Work:
        key = item[KEY]
        prefix, id = layout.parts_of_timer(own_value(item[VALUE]))
        timer = self.plan.timer_of.get(prefix)
        work = Work(key.decode(), None)
        work.id = id.decode()
        if timer is None or (timer.map_kind is None and id):  # an id: it was a timer of a map
            kind = self.plan.kind_at(prefix)
            work.removed = kind is None or isinstance(kind, TimerKind)
            if kind is not None:
                work.cell = self.cells.cell(kind, key, id)
            return work
        work.handler = timer.handler
        work.timer = timer
        work.cell = self.cells.cell(timer.kind, key, id)
        if timer.map_kind is not None:
            self.cells.cell(timer.map_kind, key, id)
        self._add_declared_cells(work, timer.handler.states, key)
        return work

    def _add_declared_cells(self, work: Work, states: list[StatePlan], key: bytes) -> None:
        for state in states:
            if not state.is_map:
                work.cells.append(self.cells.cell(state.kind, key, b""))
            else:
                work.cells.append(None)
                if state.ids_of is not None:
                    ids = state.ids_of(work.record)
                    for id in ids if type(ids) is list else (ids,):
                        if id is not None:
                            self.cells.cell(state.kind, key, str(id).encode())

    # A step

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        """A record of an unordered input runs at the watermark before its batch."""
        now = self.watermark_before
        topic, partition, offset, key, value = record
        item: Item = (now, 0, 0, topic, partition, offset, now, key, value)
        self._run(item, self.unordered[record], effects)

    def step(self, item: Item, parsed: Work | None, effects: Effects) -> None:
        work = self._work(item) if parsed is None else parsed
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
        self._run(item, work, effects)

    def _step_removed(self, item: Item, work: Work, effects: Effects) -> None:
        """An event or a timer that the service no longer declares. The event becomes a dead letter. The timer is
        counted, and its entry removed. A sweep of a map that is not declared leaves the map's entries as they are."""
        self.item = item
        self.effects = effects
        cell = work.cell
        if item[RANK] < TIMER_RANK:
            detail = "the service no longer declares the record's input, or no function runs on it"
            self._emit_dead_letter(REMOVED_INPUT, detail)
        elif cell is not None:
            self.cells.decode(cell)
            if cell.value is not None and cell.value == setting_of(item):
                cell.value = None
                cell.dirty = True
                effects.count(REMOVED_TIMERS)

    def _sweep(self, cell: Cell, item: Item, effects: Effects) -> None:
        """An entry that cannot be upgraded to schedule another sweep stays as it is."""
        try:
            self.changes.sweep(cell, item, effects)
        except Exception as e:
            line = failure(self.plan, item, f"state {cell.kind.name!r}", e)
            if not self.dead_letter_errors:
                raise StepError(*line) from e
            self.item = item
            self.effects = effects
            self._emit_dead_letter(EXCEPTION, line[0])

    def _run(self, item: Item, work: Work, effects: Effects) -> None:
        self.item = item
        self.effects = effects
        self.owner = item[KEY]
        self.now = item[TIME]
        self.timer = None if work.timer is None else work.cell
        self.emission.begin_step(item, work.timer, effects)
        self.changes.begin_step(item, effects)
        outputs, timers = len(effects.outputs), len(effects.timers)
        handler = work.handler
        assert handler is not None
        try:
            if work.failure is not None:
                raise work.failure
            if work.input is not None and not self._is_new(work, item):
                return
            context = self.context
            context.now = item[TIME]
            context.late = work.input is not None and item[TIME] > item[EVENT_TIME]
            context.key = work.key
            args: list[Any] = [context]
            if work.input is not None:
                args.append(work.record if work.input.rows is None else self._restored(work, work.input.rows))
            elif work.timer is not None and work.timer.map_kind is not None:
                args.append(work.id)
            self._add_states(args, handler, work)
            returned: object = handler.function(*args)
            if returned is not None:
                raise StepError(f"expected a step to return None, found {returned!r}.", "use ctx.emit(output, record).")
            self.changes.settle()
            if work.timer is not None and len(effects.timers) > timers:
                effects.has_changed = self.changes.has_changed()
        except Reject as e:
            self._roll_back(outputs, timers)
            self._emit_dead_letter(e.reason, e.detail)
        except Exception as e:
            line = failure(self.plan, item, handler.name, e)
            if not self.dead_letter_errors:
                raise StepError(*line) from e
            self._roll_back(outputs, timers)
            self._emit_dead_letter(EXCEPTION, line[0])
        self._end_step()

    def _is_new(self, work: Work, item: Item) -> bool:
        """False: the event repeats an id that `unique` has seen. Counts duplicates and late events."""
        cell = work.cell
        if cell is not None:
            self.cells.decode(cell)
            if cell.value is not None and item[TIME] < cell.changed_at + cell.kind.ttl_ms:
                self.effects.count("duplicates")
                return False
            self.changes.begin_change(cell)
            cell.value = True
            self.changes.mark_written(cell)
        if item[TIME] > item[EVENT_TIME]:
            self.count("late", 1)
        return True

    def _restored(self, work: Work, rows: KeptRows) -> Any:
        """The change event with the columns that it does not have itself. What the state knows of the row from now on
        stays, even if the step is rejected."""
        assert self.item is not None
        begun = len(self.changes.before)
        topic = self.plan.topics[self.item[TOPIC]]
        record, unknown = rows.restored(work.record, topic, self._entries(rows.kind))
        self.changes.keep(begun)
        if unknown:
            raise Reject(UNAVAILABLE_VALUE, f"{unknown}: the database did not log it, and no earlier event has it")
        return record

    def _add_states(self, args: list[Any], handler: HandlerPlan, work: Work) -> None:
        for state, cell in zip(handler.states, work.cells, strict=True):
            if cell is None:
                args.append(self._entries(state.kind))
                continue
            self.cells.decode(cell)
            self.changes.begin_ttl(cell)
            if cell.value is None or cell.has_expired(self.now):
                cell.value = state.kind.default()
            self.changes.begin_change(cell)
            args.append(cell.value)

    def _entries(self, kind: RecordKind) -> Entries[Any]:
        """The map of the current key: one object for all steps."""
        entries = self.entries.get(kind)
        if entries is None:
            entries = self.entries[kind] = Entries(MapCells(self, kind))
        return entries

    def _end_step(self) -> None:
        """Forgets how to undo the step."""
        self.changes.end_step()
        self.undo_counts.clear()

    def _roll_back(self, outputs: int, timers: int) -> None:
        effects = self.effects
        del effects.outputs[outputs:]
        del effects.timers[timers:]
        self.changes.roll_back()
        for name, n in self.undo_counts:
            effects.count(name, -n)
        self.undo_counts.clear()

    def _emit_dead_letter(self, reason: str, detail: str) -> None:
        """Writes the current record to the dead letters. Its canonical value is replaced by the original record before
        the letter is written (`deadletter.restored`). A timer has no value there."""
        item = self.item
        assert item is not None
        topic, partition, offset = where_of(self.plan, item)
        is_event = item[RANK] < TIMER_RANK
        value = own_value(item[VALUE]) if is_event else None
        letter = Letter(topic, partition, offset, -1, item[KEY], value, [])
        key, content, headers = deadletter.write(letter, reason, detail)
        headers.append((deadletter.ORIGIN, deadletter.STEP if is_event else deadletter.TIMER))
        self.effects.emit(self.plan.dead_letter_stream, key, content, headers)
        self.effects.count(COUNT_PREFIX + reason)

    # The calls of a context (`moneystate.api.context.Runs`)

    def emit(self, output: Output[Any], record: object) -> None:
        self.emission.emit(output, record)

    def remove(self, output: Output[Any], key: tuple[Any, ...]) -> None:
        self.emission.remove(output, key)

    def set_timer(self, timer: Timer | MapTimer[Any], when: Any, id: str) -> None:
        cell = self._timer_cell(timer, id)
        item = self.item
        assert item is not None
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
        self._emit_dead_letter(reason, detail)
        self.undo_counts.append((COUNT_PREFIX + reason, 1))

    def forget(self) -> None:
        for kind in self.plan.by_prefix.values():
            for cell in self.cells.cells_of(kind, self.owner):
                self.cells.decode(cell)
                if cell.value is not None:  # a cell without an entry is there only if the batch has asked for it before
                    self.changes.begin_change(cell)
                    cell.value = None

    def source(self) -> EventSource:
        assert self.item is not None
        return EventSource(*where_of(self.plan, self.item))

    # The end of a batch

    def finish(self, effects: Effects) -> list[Change]:
        changes: list[Change] = []
        for cell in self.cells.changed():
            content = cell.encoded()
            if content != cell.stored:
                changes.append((cell.key, content))
        return changes

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        """Entries of earlier record versions, re-encoded in the current one."""
        changes: list[Change] = []
        for key, stored in entries:
            kind = self.plan.kind_of(key)
            if isinstance(kind, RecordKind) and stored[:HEADER_BYTES] in kind.earlier:
                changes.append((key, _upgraded(kind, key, stored)))
        return changes


def _is_name(name: str) -> bool:
    """Whether the name of a counter or a reason can be stored."""
    if name.isascii():
        return 0 < len(name) <= MAX_NAME_BYTES
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


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

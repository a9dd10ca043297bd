"""Runs plain services on the engine: one `moneystate.engine.processor.Processor` for all declarations.

A batch reads all entries that its events and timers declare in one round; a timer that is set and due in the batch, a
map's entry that nothing announced and a prefix are read when a step asks. Entries are decoded when a step first has
them, and encoded once, in `finish`. What a step may change is copied before, so that `Reject` can put it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moneystate.api import layout
from moneystate.api.cells import NEVER, NO_TTL, Cell, RecordKind, opened, set_of
from moneystate.api.context import Context, EventSource
from moneystate.api.entries import Entries
from moneystate.api.failures import EXCEPTION, failure, where_of
from moneystate.api.handles import MapTimer, Output, Timer
from moneystate.api.plan import HandlerPlan, InputPlan, OutputPlan, Plan, StatePlan, TimerPlan
from moneystate.api.reading import key_bytes, key_text
from moneystate.api.reject import Reject
from moneystate.api.working_set import WorkingSet
from moneystate.engine import deadletter
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, string_bytes
from moneystate.engine.deadletter import COUNT_PREFIX, Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import (
    CLEANUP_RANK,
    END_OF_TIME,
    EVENT_TIME,
    KEY,
    NO_TIME,
    OFFSET,
    PARTITION,
    RANK,
    SET_AT,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    Header,
    Item,
    UnorderedRecord,
)
from moneystate.engine.place import PLACE, carried_by, carry, cause_of, own_value, place_of
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from moneystate.engine.sweep import sweep_time
from moneystate.errors import StepError

LINEAGE: Final = "lineage"


class Work:
    """An item with all that its step needs. `cells`: of the declared values, None for a map; `record`: of an event;
    `timer`: of a timer with a function; neither: a sweep of `cell`."""

    def __init__(self, key: str, handler: HandlerPlan | None) -> None:
        self.key = key
        self.handler = handler
        self.record: Any = None
        self.input: InputPlan | None = None
        self.timer: TimerPlan | None = None
        self.id = ""
        self.cell: Cell | None = None
        self.cells: list[Cell | None] = []


class ServiceProcessor:
    """`dead_letter_errors`: an exception of a step makes a dead letter and does not end the job."""

    def __init__(self, plan: Plan, dead_letter_errors: bool = False) -> None:
        self.plan = plan
        self.dead_letter_errors = dead_letter_errors
        self.context: Context[Any] = Context(self, plan.rules)
        self.placed: dict[bytes, tuple[bytes, int]] = {}
        self.undo: list[tuple[Cell, Any, int, int, bool, bool]] = []
        self.undo_counts: list[tuple[str, int]] = []
        self.item: Item | None = None
        self.work: Work | None = None
        self.owner = b""
        self.now = 0
        self.lineage: list[Header] = []
        self.watermark_before = NO_TIME
        self.effects = Effects()
        self.unordered: dict[UnorderedRecord, Work] = {}
        self.cells: WorkingSet

    # A batch

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        self.cells = WorkingSet(state)
        self.watermark_before = watermark_before
        self.placed = {}
        self.unordered = {}
        for record in unordered:
            topic, _, _, key, value = record
            self.unordered[record] = self._event(topic, key, value)
        works: list[Work | None] = [self._work(item) for item in items]
        self.cells.load_announced()
        return works

    def _work(self, item: Item) -> Work:
        if item[RANK] < TIMER_RANK:
            return self._event(item[TOPIC], item[KEY], own_value(item[VALUE]))
        return self._due(item)

    def _event(self, topic: int, key: bytes, value: bytes) -> Work:
        header = value[:HEADER_BYTES]
        plan = self.plan.inputs[topic].get(header)
        if plan is not None:
            record = plan.codec.decode(value)
        else:
            earlier = self.plan.earlier_inputs[topic].get(header)
            if earlier is None:
                raise StepError(
                    f"service {self.plan.name!r}: a buffered record of {self.plan.topics[topic]} has a schema that is "
                    "not declared.",
                    "declare the input again: what is in state cannot be left out.",
                )
            plan = earlier.input
            record, _ = earlier.read(value, HEADER_BYTES)
        work = Work(key.decode(), plan.handler)
        work.record = record
        work.input = plan
        assert plan.handler is not None
        if plan.seen is not None and plan.seen_id is not None:
            work.cell = self.cells.cell(plan.seen, key, str(plan.seen_id(record)).encode())
        self._declared(work, plan.handler.states, key)
        return work

    def _due(self, item: Item) -> Work:
        key = item[KEY]
        prefix, id = layout.parts_of_timer(own_value(item[VALUE]))
        timer = self.plan.timer_of.get(prefix)
        work = Work(key.decode(), None)
        work.id = id.decode()
        if timer is None:
            kind = self.plan.by_prefix.get(prefix)
            if kind is None:
                raise StepError(
                    f"service {self.plan.name!r}: a timer of {prefix[2:].decode()!r} is due, which is not declared.",
                    "declare it again: what is in state cannot be left out.",
                )
            work.cell = self.cells.cell(kind, key, id)
            return work
        work.handler = timer.handler
        work.timer = timer
        work.cell = self.cells.cell(timer.kind, key, id)
        if timer.of is not None:
            self.cells.cell(timer.of, key, id)
        self._declared(work, timer.handler.states, key)
        return work

    def _declared(self, work: Work, states: list[StatePlan], key: bytes) -> None:
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
        if work.input is None:
            cell = work.cell
            assert cell is not None
            if work.timer is None:
                self._sweep(cell, item, effects)
                return
            self.cells.wake(cell)
            if cell.value is None or cell.value != set_of(item):
                return  # cancelled, or set again
            # whatever the step does: it has run out
            cell.value = None
            cell.dirty = True
            cell.by = item
        self._run(item, work, effects)

    def _run(self, item: Item, work: Work, effects: Effects) -> None:
        self.item = item
        self.work = work
        self.effects = effects
        self.owner = item[KEY]
        self.now = item[TIME]
        self.lineage = []
        outputs, timers = len(effects.outputs), len(effects.timers)
        handler = work.handler
        assert handler is not None
        try:
            if work.input is not None and not self._counts(work, item):
                return
            context = self.context
            context.now = item[TIME]
            context.late = work.input is not None and item[TIME] > item[EVENT_TIME]
            context.key = work.key
            args: list[Any] = [context]
            if work.input is not None:
                args.append(work.record)
            elif work.timer is not None and work.timer.of is not None:
                args.append(work.id)
            self._add_states(args, handler, work)
            returned: object = handler.function(*args)
            if returned is not None:
                raise StepError(f"a step returns nothing, found {returned!r}.", "write ctx.emit(output, record).")
        except Reject as e:
            self._roll_back(outputs, timers)
            self._letter(e.reason, e.detail)
        except Exception as e:
            line = failure(self.plan, item, handler.name, e)
            if not self.dead_letter_errors:
                raise StepError(*line) from e
            self._roll_back(outputs, timers)
            self._letter(EXCEPTION, line[0])
        self._settle()

    def _counts(self, work: Work, item: Item) -> bool:
        """Whether the event is none that was seen before. Late ones are counted."""
        cell = work.cell
        if cell is not None:
            self.cells.wake(cell)
            if cell.value is not None and item[TIME] < cell.at + cell.kind.ttl_ms:
                self.effects.count("duplicates")
                return False
            self._change(cell)
            cell.value = True
            self._written(cell)
        if item[TIME] > item[EVENT_TIME]:
            self.count("late", 1)
        return True

    def _add_states(self, args: list[Any], handler: HandlerPlan, work: Work) -> None:
        for state, cell in zip(handler.states, work.cells, strict=True):
            if cell is None:
                args.append(Entries(MapCells(self, state.kind, self.owner)))
                continue
            self.cells.wake(cell)
            if cell.value is None or cell.has_expired(self.now):
                cell.value = state.kind.empty()
            self._change(cell)
            args.append(cell.value)

    def _change(self, cell: Cell) -> None:
        """Keep what the cell is, as the step may change it."""
        value = cell.value
        kind = cell.kind
        if value is not None and isinstance(kind, RecordKind):
            value = kind.codec.copy(value)
        self.undo.append((cell, value, cell.at, cell.sweep_at, cell.live, cell.dirty))
        cell.dirty = True
        cell.by = self.item

    def _replace(self, cell: Cell, value: Any) -> None:
        """Whatever the cell is. What is stored does not matter, unless it says when it is swept; it is read with the
        round at the end of the batch."""
        if cell.kind.ttl_ms != NO_TTL:
            self.cells.wake(cell)
        self.undo.append((cell, cell.value, cell.at, cell.sweep_at, cell.live, cell.dirty))
        cell.value = value
        cell.live = True
        cell.dirty = True
        cell.by = self.item

    def _written(self, cell: Cell) -> None:
        """An entry with a time to live was written now: a sweep looks at it once that has passed."""
        cell.at = self.now
        if cell.sweep_at == NEVER:
            self._sweep_later(cell)

    def _sweep_later(self, cell: Cell) -> None:
        assert self.item is not None
        due = sweep_time(cell.owner, cell.at + cell.kind.ttl_ms, cell.kind.ttl_ms)
        cell.sweep_at = due
        self.effects.set_timer(due, CLEANUP_RANK, self.item, cell.owner, layout.timer_value(cell.kind.prefix, cell.id))

    def _settle(self) -> None:
        """The step is done: what it changed in place in entries with a time to live was written now."""
        for cell, before, _, _, _, _ in self.undo:
            kind = cell.kind
            if kind.ttl_ms != NO_TTL and isinstance(kind, RecordKind) and cell.value is not None:
                if before is None or cell.value != before:
                    self._written(cell)
            elif cell.value is None:
                cell.at = cell.sweep_at = NEVER
        self.undo.clear()
        self.undo_counts.clear()

    def _roll_back(self, outputs: int, timers: int) -> None:
        effects = self.effects
        del effects.outputs[outputs:]
        del effects.timers[timers:]
        self.undo.reverse()
        for cell, value, at, sweep_at, live, dirty in self.undo:
            cell.value, cell.at, cell.sweep_at, cell.live, cell.dirty = value, at, sweep_at, live, dirty
        for name, n in self.undo_counts:
            effects.count(name, -n)
        self.undo.clear()
        self.undo_counts.clear()

    def _letter(self, reason: str, detail: str) -> None:
        """A dead letter of the record in hand, in its canonical form."""
        item = self.item
        assert item is not None
        topic, partition, offset = where_of(self.plan, item)
        value = own_value(item[VALUE]) if item[RANK] < TIMER_RANK else None
        letter = Letter(topic, partition, offset, -1, item[KEY], value, [])
        key, content, headers = deadletter.write(letter, reason, detail)
        self.effects.emit(self.plan.dead_letter_stream, key, content, headers)
        self.effects.count(COUNT_PREFIX + reason)

    def _sweep(self, cell: Cell, item: Item, effects: Effects) -> None:
        """Remove an entry that has expired, or look again later."""
        self.cells.wake(cell)
        if cell.value is None or cell.sweep_at != item[TIME]:
            return  # it has gone, or another sweep looks at it
        self.item = item
        self.effects = effects
        cell.dirty = True
        if item[TIME] >= cell.at + cell.kind.ttl_ms:
            cell.value = None
            cell.at = cell.sweep_at = NEVER
        else:
            self._sweep_later(cell)

    # What a context asks for

    def emit(self, output: Output[Any], record: object) -> None:
        plan = self._output(output)
        if type(record) is not plan.cls:
            raise StepError(f"{output!r}: expected {plan.cls.__name__}, found {type(record).__name__}.")
        try:
            keys = plan.keys.keys(record)
        except Malformed as e:
            raise StepError(f"{output!r}: {e}.", "give each record a key.") from None
        value = plan.codec.encode(record)
        lineage = self._caused_by()
        for key in keys:
            headers = [*lineage, (PLACE, self._next_place())] if output.timed else lineage
            self.effects.emit(plan.stream, key, value, headers)

    def _next_place(self) -> bytes:
        """Of the record that is written now: behind those that the key has written before. A timer that a timer set for
        its own time may stand before it in the order and runs after it all the same."""
        item = self.item
        assert item is not None
        cause, number = cause_of(item), 0
        last = self.placed.get(self.owner)
        if last is not None and last[0] >= cause:
            cause, number = last[0], last[1] + 1
        self.placed[self.owner] = (cause, number)
        return place_of(cause, number)

    def remove(self, output: Output[Any], key: tuple[Any, ...]) -> None:
        plan = self._output(output)
        if not output.compacted:
            raise StepError(f"{output!r} keeps all records of a key.", "declare it with compacted=True.")
        try:
            removed = key_bytes(key_text(key))
        except Malformed as e:
            raise StepError(f"{output!r}: {e}.", "give the key, or its parts, as the records have it.") from None
        self.effects.emit(plan.stream, removed, None, self._caused_by())

    def _output(self, output: Any) -> OutputPlan:
        plan = self.plan.outputs.get(output)
        if plan is None:
            if not isinstance(output, Output):
                raise StepError(f"{output!r} is no output.", "pass what output() gave.")
            raise StepError(f"{output!r} belongs to the service {output.service!r}.", "emit to one of this service.")
        return plan

    def _caused_by(self) -> list[Header]:
        if not self.lineage:
            self.lineage = [self._lineage()]
        return self.lineage

    def _lineage(self) -> Header:
        item, work = self.item, self.work
        assert item is not None
        assert work is not None
        topic, partition, offset = where_of(self.plan, item)
        time_ms = item[TIME] if work.timer is None else item[SET_AT]
        timer = b"\x00" if work.timer is None else b"\x02" + string_bytes(work.timer.name.encode())
        body = string_bytes(topic.encode()) + long_bytes(partition) + long_bytes(offset) + long_bytes(time_ms) + timer
        return LINEAGE, self.plan.lineage + body

    def set_timer(self, timer: Timer | MapTimer[Any], when: Any, id: str) -> None:
        cell = self._timer_cell(timer, id)
        item = self.item
        assert item is not None
        if type(when) is not int or when >= END_OF_TIME:
            raise StepError(f"{timer!r}: expected a time in ms, found {when!r}.")
        due = when if when > self.now else self.now
        self._replace(cell, (due, item[TIME], item[TOPIC], item[PARTITION], item[OFFSET]))
        value = layout.timer_value(cell.kind.prefix, cell.id)
        carried = carried_by(item[VALUE])
        if carried is not None:
            value = carry(carried.place, carried.partition, carried.offset, value)
        self.effects.set_timer(due, TIMER_RANK, item, self.owner, value)

    def cancel(self, timer: Timer | MapTimer[Any], id: str) -> None:
        self._replace(self._timer_cell(timer, id), None)

    def _timer_cell(self, timer: Any, id: Any) -> Cell:
        plan = self.plan.timers.get(timer)
        if plan is None:
            if not isinstance(timer, (Timer, MapTimer)):
                raise StepError(f"{timer!r} is no timer.", "pass what timer() gave.")
            raise StepError(f"{timer!r} belongs to the service {timer.service!r}.", "use one of this service.")
        return self.cells.cell(plan.kind, self.owner, id_bytes(id))

    def count(self, name: str, n: int) -> None:
        self.effects.count(name, n)
        self.undo_counts.append((name, n))

    def dead_letter(self, reason: Any, detail: Any) -> None:
        if not isinstance(reason, str) or not isinstance(detail, str):
            raise StepError(f"dead_letter: expected texts as the reason and the detail, found {reason!r}, {detail!r}.")
        self._letter(reason, detail)
        self.undo_counts.append((COUNT_PREFIX + reason, 1))

    def forget(self) -> None:
        for kind in self.plan.by_prefix.values():
            for cell in self.cells.of_key(kind, self.owner):
                self.cells.wake(cell)
                self._change(cell)
                cell.value = None

    def source(self) -> EventSource:
        assert self.item is not None
        return EventSource(*where_of(self.plan, self.item))

    # The end of a batch

    def finish(self, effects: Effects) -> list[Change]:
        changes: list[Change] = []
        for cell in self.cells.changed():
            try:
                content = cell.encoded()
            except StepError as e:
                assert cell.by is not None
                place = "{}, partition {}, offset {}".format(*where_of(self.plan, cell.by))
                raise StepError(f"{place}: state {cell.kind.name!r} of key {cell.owner.decode()!r}: {e}") from e
            if content != cell.stored:
                changes.append((cell.key, content))
        return changes

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        """Those of an earlier version of their record, as the one of today."""
        changes: list[Change] = []
        for key, stored in entries:
            kind = self.plan.kind_of(key)
            if isinstance(kind, RecordKind) and stored[:HEADER_BYTES] in kind.earlier:
                changes.append((key, opened(kind, stored).encoded()))
        return changes


class MapCells:
    """`moneystate.api.entries.MapAccess`: the entries of a map under one key."""

    def __init__(self, runtime: ServiceProcessor, kind: RecordKind, owner: bytes) -> None:
        self.runtime = runtime
        self.kind = kind
        self.owner = owner

    def get(self, id: str) -> object | None:
        cell = self._alive(self.runtime.cells.cell(self.kind, self.owner, id_bytes(id)))
        if cell is None:
            return None
        if not self.kind.immutable:
            self.runtime._change(cell)
        value: object = cell.value
        return value

    def put(self, id: str, record: object) -> None:
        kind = self.kind
        if type(record) is not kind.codec.record.cls:
            expected = kind.codec.record.cls.__name__
            raise StepError(f"map {kind.name!r}: expected {expected}, found {type(record).__name__}.")
        cell = self.runtime.cells.cell(kind, self.owner, id_bytes(id))
        self.runtime._replace(cell, record)
        if kind.ttl_ms != NO_TTL:
            self.runtime._written(cell)

    def delete(self, id: str) -> None:
        self.runtime._replace(self.runtime.cells.cell(self.kind, self.owner, id_bytes(id)), None)

    def has(self, id: str) -> bool:
        return self._alive(self.runtime.cells.cell(self.kind, self.owner, id_bytes(id))) is not None

    def ids(self, prefix: str) -> list[str]:
        cells = self.runtime.cells.in_map(self.kind, self.owner, prefix.encode())
        return [cell.id.decode() for cell in cells if self._alive(cell) is not None]

    def _alive(self, cell: Cell) -> Cell | None:
        self.runtime.cells.wake(cell)
        return None if cell.value is None or cell.has_expired(self.runtime.now) else cell


def id_bytes(id: Any) -> bytes:
    if type(id) is not str:
        raise StepError(f"expected a text as an id, found {id!r}.")
    encoded = id.encode()
    if len(encoded) > layout.MAX_ID_BYTES:
        raise StepError(f"an id of {len(encoded):,} bytes, at most {layout.MAX_ID_BYTES:,} are allowed.")
    return encoded

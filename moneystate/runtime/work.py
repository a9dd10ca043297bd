"""Prepares the items of a batch for their steps: finds the handler, reads the record, and announces the entries that
the step will use, so that a batch reads them in one request."""

from __future__ import annotations

from typing import Any

from moneystate.api.fast_path import FastEvent
from moneystate.api.waits import HELD_EVENTS
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.items import KEY, RANK, TIMER_RANK, TOPIC, VALUE, Item
from moneystate.engine.place import own_value
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, TimerKind
from moneystate.runtime.lookup_cells import LookupCells
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import HandlerPlan, InputPlan, StatePlan, TimerPlan
from moneystate.runtime.seen_page import pack_id
from moneystate.runtime.working_set import WorkingSet


class Work:
    """An item, prepared for its step: an event, a timer, or a sweep (neither `input` nor `timer` is set)."""

    def __init__(self, key: str, handler: HandlerPlan | None) -> None:
        self.key = key
        self.handler = handler  # None: a sweep
        self.record: Any = None  # the event's record; with `fast`, it is read when its function runs
        self.fast: FastEvent | None = None  # the event as a fast path has read it
        self.fast_cells: list[Cell | None] = []  # what it reads; None: the event has no id for the map
        self.input: InputPlan | None = None  # set for an event
        self.held: Any = None  # of a lookup's reply: what its request holds
        self.timer: TimerPlan | None = None  # set for a timer
        self.id = ""  # of a timer: the map id that it was set for
        self.failure: Exception | None = None  # of the service's code that read the event
        # the ids that `unique` has seen under the key of an event, the timer itself, or the entry to sweep
        self.cell: Cell | None = None
        self.seen_id = b""  # of an event: its id for `unique`, packed
        self.cells: list[Cell | None] = []  # one for each state that the handler declares; None: a map
        self.removed = False  # the service no longer declares what it was for


class Preparation:
    """Makes the work of items."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.inputs = plan.inputs
        self.holds_events = plan.service.held is not None
        self.cells: WorkingSet  # of the batch

    def of_item(self, item: Item) -> Work:
        if item[RANK] < TIMER_RANK:
            return self.of_event(item[TOPIC], item[KEY], own_value(item[VALUE]))
        return self._of_timer(item)

    def of_event(self, topic: int, key: bytes, value: bytes) -> Work:
        header = value[:HEADER_BYTES]
        plan = self.inputs[topic].get(header)
        earlier = self.plan.earlier_inputs[topic].get(header) if plan is None else None
        if earlier is not None:
            plan = earlier.input
        if plan is None or plan.handler is None:  # it was buffered when the service had the input, and a function on it
            work = Work(key.decode(), None)
            work.removed = True
            return work
        work = Work(key.decode(), plan.handler)
        work.input = plan
        if plan.fast is not None and earlier is None and not self.holds_events:
            work.fast = plan.fast.path.read(value)
            if work.fast is not None:
                self._announce_fast(work, plan, plan.handler, key)
                return work
        try:
            if earlier is None:
                work.record = plan.codec.read_own_body(value, HEADER_BYTES)[0]
            else:
                work.record = earlier.read(value, HEADER_BYTES)[0]
            self._announce(work, plan, plan.handler, topic, key)
        except Malformed:
            raise
        except Exception as e:  # of a constructor, an upgrade or a function of `map.at`: the step raises it
            work.failure = e
        return work

    def _announce(self, work: Work, plan: InputPlan, handler: HandlerPlan, topic: int, key: bytes) -> None:
        record = work.record
        if self.holds_events:
            self.cells.cell(self.plan.kinds[HELD_EVENTS], key, b"")
        if plan.seen is not None and plan.seen_id is not None:
            work.cell = self.cells.cell(plan.seen, key, b"")
            work.seen_id = pack_id(str(plan.seen_id(record)).encode())
        if plan.rows is not None:
            self.cells.cell(plan.rows.kind, key, plan.rows.id(record, self.plan.topics[topic]).encode())
        if plan.lookup is not None:
            LookupCells(self.cells, self.plan.kinds, plan.lookup, key, record).announce()
        self._add_declared_cells(work, handler.states, key)

    def _announce_fast(self, work: Work, plan: InputPlan, handler: HandlerPlan, key: bytes) -> None:
        assert work.fast is not None
        unique, ids, _ = work.fast
        if plan.seen is not None:
            work.cell = self.cells.cell(plan.seen, key, b"")
            work.seen_id = pack_id(unique)
        left = iter(ids)
        for state in handler.states:
            if not state.is_map:
                cell = self.cells.cell(state.kind, key, b"")
                work.cells.append(cell)
                work.fast_cells.append(cell)
                continue
            work.cells.append(None)
            if state.ids_of is not None:
                id = next(left)
                work.fast_cells.append(self.cells.cell(state.kind, key, id) if id else None)

    def _of_timer(self, item: Item) -> Work:
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

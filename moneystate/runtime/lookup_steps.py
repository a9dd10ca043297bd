"""Requests and replies of lookups in the steps of a batch.

A reply runs a step once for each open request that it answers. The first reply in the log counts. The step has the
order time of the request. So it does the same in each replay, wherever batches end, although replies themselves have no
order time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moneystate.engine.effects import Effects
from moneystate.engine.items import KEY, OFFSET, PARTITION, TIME, TOPIC, VALUE, Item
from moneystate.errors import StepError
from moneystate.records.platform_records import EarlyReply
from moneystate.runtime.lookup_cells import LookupCells
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.work import Work

if TYPE_CHECKING:
    from moneystate.runtime.current_step import CurrentStep

LOOKING_UP: Final = "looking_up"  # the counter of requests without a reply


class Answered(NamedTuple):
    """A request that has been answered before it was asked."""

    reply: Item
    held: Any


class LookupSteps:
    def __init__(self, step: CurrentStep) -> None:
        self.step = step
        self.plan = step.plan
        inputs = [planned for by_header in self.plan.inputs.values() for planned in by_header.values()]
        self.topics = {planned.lookup: planned.code for planned in inputs if planned.lookup is not None}
        self.may_ask = True  # the current step has an order time
        self.has_asked = False
        # These belong to the current step.
        self.opened: list[int] = []  # the times of its requests
        self.early: list[Answered] = []
        # Tells where the outputs of replies' steps begin among those of the batch; None: nobody wants to know.
        self.begun: list[tuple[int, Item]] | None = None

    # Requests

    def ask(self, lookup: Any, request: Any, held: Any) -> None:
        plan = self.plan.lookups.get(lookup)
        if plan is None:
            raise StepError(
                f"expected a lookup of the service {self.plan.name!r}, found {lookup!r}.",
                "pass an object that lookup() of this service returned.",
            )
        self.step.emission.emit(lookup.requests, request)
        self._check(plan, request, held)
        step = self.step
        entries = LookupCells(step.cells, self.plan.kinds, plan, step.owner, request)
        entries.load()
        self.has_asked = True
        parts = (request,) if held is None else (request, held)
        entry = entries.open_kind.codec.record.cls(*parts)
        if entries.early.value is not None:
            # The step must get the entry as it would be read from the state.
            stored, _ = entries.open_kind.codec.read_own_body(entries.open_kind.codec.write_body(entry), 0)
            self.early.append(Answered(self._early_item(plan, entries.early.value), _held_in(plan, stored)))
            step.count(LOOKING_UP, 0)  # as if it had been opened and closed
            return
        number = 0
        while entries.is_open(entries.open(number)):
            number += 1
        step.changes.replace(entries.open(number), entry)
        step.count(LOOKING_UP, 1)
        self.opened.append(step.now)

    def _check(self, plan: LookupPlan, request: Any, held: Any) -> None:
        if not self.may_ask:
            raise StepError(
                f"{plan.lookup!r}: expected a request from the step of an event or a timer, found one from that of an "
                f"unordered record.",
                "ask earlier: such a step has no place in the order, so a replay would ask something else.",
            )
        if plan.time(request) != self.step.now:
            raise StepError(
                f"{plan.lookup!r}: expected {plan.lookup.time}={self.step.now}, the time of the step, found "
                f"{plan.time(request)!r}.",
                "pass ctx.now.",
            )
        if plan.keys.keys(request) != [self.step.owner]:
            raise StepError(
                f"{plan.lookup!r}: expected a request with the key of the step, found another key.",
                "ask with ctx.key: the reply goes to the state of that key.",
            )
        expected = plan.lookup.held
        if (held is not None) if expected is None else (type(held) is not expected):
            wanted = "nothing to hold" if expected is None else f"a held {expected.__name__}"
            raise StepError(
                f"{plan.lookup!r}: expected {wanted}, found {type(held).__name__}.", "pass what lookup() declares."
            )

    def _early_item(self, plan: LookupPlan, reply: EarlyReply) -> Item:
        now = self.step.now
        return now, 0, 0, self.topics[plan], reply.partition, reply.offset, now, self.step.owner, reply.value

    def take_early(self, effects: Effects) -> list[Answered]:
        """Returns what to answer after a step that has asked."""
        for time in self.opened:
            effects.hold(time)
        early = self.early
        self.roll_back()
        return early

    def roll_back(self) -> None:
        self.has_asked = False
        self.opened, self.early = [], []

    # Replies

    def answered(self, plan: LookupPlan, work: Work, item: Item, watermark: int, effects: Effects) -> list[Any]:
        """Returns what the requests hold that a reply answers now. They are closed, whatever becomes of its step. If
        there are none, the reply is kept, as long as a step may still make its request. `item`: see `at_request`."""
        self.step.begin(item, None, None, effects)
        entries = LookupCells(self.step.cells, self.plan.kinds, plan, self.step.owner, work.record)
        held: list[Any] = []
        while entries.is_open(cell := entries.open(len(held))):
            held.append(_held_in(plan, cell.value))
            self.step.changes.replace(cell, None)
            effects.count(LOOKING_UP, -1)
            effects.let_go(item[TIME])
        if not held and item[TIME] >= watermark:
            self.step.cells.decode(entries.early)
            if entries.early.value is None:
                reply = EarlyReply(item[VALUE], item[PARTITION], item[OFFSET])
                self.step.changes.replace(entries.early, reply)
        self.step.changes.keep(0)
        return held


def _held_in(plan: LookupPlan, entry: Any) -> Any:
    return entry.request if plan.lookup.held is None else entry.held


def at_request(reply: Item, plan: LookupPlan, record: Any) -> Item:
    """The reply at the order time of its request."""
    time = plan.time(record)
    return time, 0, 0, reply[TOPIC], reply[PARTITION], reply[OFFSET], time, reply[KEY], reply[VALUE]

"""The ledger once more, from the text of its rules and in the plainest way: over the whole log at once, with nothing
stored that could be counted. It shares the records with the service and nothing else.

The log of a partition is a list of commands; a command's order time is its time, or the largest time before it in its
partition less the bound, if that is later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from services.stock.records import (
    Adjust,
    Adjusted,
    Cancel,
    Cancelled,
    Confirm,
    Confirmed,
    Count,
    EventLine,
    Expired,
    Line,
    Reserve,
    Reserved,
    Short,
    StockLevel,
    StockReply,
)

DAY = 86_400_000
MOST = 10**9


class Place(NamedTuple):
    """A place in the total order."""

    t: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Beat:
    """A heartbeat: it has a time, and nothing else."""

    time: int


def in_order(partitions: list[list[Any]], bound_ms: int = 0) -> list[tuple[Place, Any]]:
    ordered = []
    for partition, log in enumerate(partitions):
        high: int | None = None
        for offset, command in enumerate(log):
            t = command.time if high is None else max(command.time, high - bound_ms)
            high = command.time if high is None else max(high, command.time)
            if not isinstance(command, Beat):
                ordered.append((Place(t, partition, offset), command))
    return sorted(ordered, key=lambda pair: pair[0])


@dataclass
class Held:
    """A reservation from its first to its last day."""

    pool: str
    id: str
    order_id: str | None
    made: Place
    due: int
    lines: dict[str, int]
    status: str = "OPEN"
    ended: int = 0


@dataclass
class Change:
    """A change of what is on hand of a sku."""

    pool: str
    sku: str
    t: int
    by: int
    counted: bool = False


@dataclass
class Answered:
    place: Place
    content: Any
    reply: StockReply


@dataclass
class Ledger:
    command_retention_ms: int = 7 * DAY
    reservation_retention_ms: int = 30 * DAY
    held: list[Held] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    levels: list[StockLevel] = field(default_factory=list)
    replies: list[StockReply] = field(default_factory=list)
    # for the saga: everything with its place, as (t, kind of cause, cause, number of the effect)
    timed: list[tuple[int, int, Place, Any]] = field(default_factory=list)

    # Amounts are always counted again

    def on_hand(self, pool: str, sku: str) -> int:
        return sum(c.by for c in self.changes if c.pool == pool and c.sku == sku)

    def reserved(self, pool: str, sku: str) -> int:
        return sum(h.lines.get(sku, 0) for h in self.held if h.pool == pool and h.status == "OPEN")

    def available(self, pool: str, sku: str) -> int:
        return self.on_hand(pool, sku) - self.reserved(pool, sku)

    # The log

    def run(self, partitions: list[list[Any]], bound_ms: int = 0, end: bool = True) -> Ledger:
        for place, command in in_order(partitions, bound_ms):
            self.expire_before(place.t)
            self.cause = (place.t, 0, place)
            self.take(place, command)
        if end:
            self.expire_before(1 << 62)
        return self

    def expire_before(self, t: int) -> None:
        """An order time is over once a later one has begun."""
        while True:
            due = [h for h in self.held if h.status == "OPEN" and h.due < t]
            if not due:
                return
            first = min(due, key=lambda h: (h.due, h.made))
            self.cause = (first.due, 1, first.made)
            self.end(first, "EXPIRED", first.due)
            self.tell(first, Expired, None, first.lines)

    def take(self, place: Place, command: Any) -> None:
        content = replace(command, time=0)
        for a in reversed(self.answered):
            its = a.content
            if its.pool == command.pool and its.command_id == command.command_id:
                if place.t < a.place.t + self.command_retention_ms:
                    self.say(a.reply if its == content else self.rejected(command, "ID_CONFLICT"))
                    return
                break
        reply = self.answer(place, command)
        self.answered.append(Answered(place, content, reply))
        self.say(reply)

    def answer(self, place: Place, command: Any) -> StockReply:
        if self.is_invalid(command):
            return self.rejected(command, "INVALID")
        if isinstance(command, Adjust):
            return self.adjust(place, command)
        if isinstance(command, Count):
            return self.count(place, command)
        if isinstance(command, Reserve):
            return self.reserve(place, command)
        if isinstance(command, Confirm):
            return self.confirm(place, command)
        assert isinstance(command, Cancel)
        return self.cancel(place, command)

    def is_invalid(self, command: Any) -> bool:
        if isinstance(command, Adjust):
            return command.quantity == 0 or abs(command.quantity) > MOST
        if isinstance(command, Count):
            return not 0 <= command.on_hand <= MOST
        if isinstance(command, Reserve):
            if any(line.quantity <= 0 for line in command.lines):
                return True
            lines = added_up(command.lines)
            if not 1 <= len(lines) <= 1_000 or any(quantity > MOST for quantity in lines.values()):
                return True
            return not 0 < command.ttl_ms <= 10**11
        if isinstance(command, Confirm) and command.quantities is not None:
            quantities = command.quantities.values()
            return any(not 0 <= q <= MOST for q in quantities) or not any(q > 0 for q in quantities)
        return False

    def adjust(self, place: Place, e: Adjust) -> StockReply:
        if self.on_hand(e.pool, e.sku) + e.quantity < self.reserved(e.pool, e.sku):
            return self.rejected(e, "BELOW_RESERVED")
        self.change(e.pool, e.sku, place.t, e.quantity, False)
        return self.accepted(e)

    def count(self, place: Place, e: Count) -> StockReply:
        before = [c.t for c in self.changes if c.pool == e.pool and c.sku == e.sku and (c.by or c.counted)]
        if before and e.time < before[-1]:
            return self.rejected(e, "STALE")
        holding = [h for h in self.held if h.pool == e.pool and h.status == "OPEN" and e.sku in h.lines]
        for newest in sorted(holding, key=lambda h: h.made, reverse=True):
            if self.reserved(e.pool, e.sku) <= e.on_hand:
                break
            self.end(newest, "CANCELLED", place.t)
            self.tell(newest, Cancelled, "SHORTAGE", newest.lines)
        self.change(e.pool, e.sku, place.t, e.on_hand - self.on_hand(e.pool, e.sku), True)
        return self.accepted(e)

    def reserve(self, place: Place, e: Reserve) -> StockReply:
        if self.known(e.pool, e.reservation_id, place.t) is not None:
            return self.rejected(e, "RESERVATION_EXISTS")
        asked = added_up(e.lines)
        granted = {sku: min(quantity, self.available(e.pool, sku)) for sku, quantity in asked.items()}
        short = [
            Short(sku, quantity, self.available(e.pool, sku))
            for sku, quantity in asked.items()
            if granted[sku] < quantity
        ]
        granted = {sku: quantity for sku, quantity in granted.items() if quantity > 0}
        if not granted or (short and e.policy == "ALL"):
            return self.rejected(e, "INSUFFICIENT", short)
        made = Held(e.pool, e.reservation_id, e.order_id, place, place.t + e.ttl_ms, granted)
        self.held.append(made)
        self.tell(made, Reserved, None, granted)
        return self.accepted(e, [Line(sku, quantity) for sku, quantity in granted.items()], short)

    def confirm(self, place: Place, e: Confirm) -> StockReply:
        held = self.known(e.pool, e.reservation_id, place.t)
        if held is None or held.status != "OPEN":
            return self.rejected(e, "NOT_FOUND" if held is None else f"ALREADY_{held.status}")
        wanted = held.lines if e.quantities is None else e.quantities
        if any(quantity > held.lines.get(sku, 0) for sku, quantity in wanted.items()):
            return self.rejected(e, "MORE_THAN_HELD")
        confirmed = {sku: wanted.get(sku, 0) for sku in held.lines}
        self.end(held, "CONFIRMED", place.t)
        for sku, quantity in confirmed.items():
            self.changes.append(Change(e.pool, sku, place.t, -quantity))
        self.tell(held, Confirmed, None, confirmed)
        return self.accepted(e)

    def cancel(self, place: Place, e: Cancel) -> StockReply:
        held = self.known(e.pool, e.reservation_id, place.t)
        if held is None or held.status != "OPEN":
            return self.rejected(e, "NOT_FOUND" if held is None else f"ALREADY_{held.status}")
        self.end(held, "CANCELLED", place.t)
        self.tell(held, Cancelled, None, held.lines)
        return self.accepted(e)

    # Parts

    def known(self, pool: str, id: str, t: int) -> Held | None:
        mine = [h for h in self.held if h.pool == pool and h.id == id]
        known = [h for h in mine if h.status == "OPEN" or t < h.ended + self.reservation_retention_ms]
        assert len(known) <= 1
        return known[0] if known else None

    def end(self, held: Held, status: str, t: int) -> None:
        assert held.status == "OPEN", "ends twice"
        held.status, held.ended = status, t

    def change(self, pool: str, sku: str, t: int, by: int, counted: bool) -> None:
        self.changes.append(Change(pool, sku, t, by, counted))
        on_hand, reserved = self.on_hand(pool, sku), self.reserved(pool, sku)
        self.put_out(Adjusted(pool, sku, by, counted, on_hand, reserved), [sku])

    def tell(self, held: Held, event: Any, reason: str | None, lines: dict[str, int]) -> None:
        told = [
            EventLine(sku, quantity, self.on_hand(held.pool, sku), self.reserved(held.pool, sku))
            for sku, quantity in lines.items()
        ]
        self.put_out(event(held.pool, held.id, held.order_id, reason, told), list(lines))

    def put_out(self, event: Any, skus: list[str]) -> None:
        self.events.append(event)
        self.timed.append((*self.cause, event))
        for sku in skus:
            on_hand, reserved = self.on_hand(event.pool, sku), self.reserved(event.pool, sku)
            assert 0 <= reserved <= on_hand, (event, sku)
            self.levels.append(StockLevel(event.pool, sku, on_hand, reserved, on_hand - reserved))

    def say(self, reply: StockReply) -> None:
        self.replies.append(reply)
        self.timed.append((*self.cause, reply))

    def rejected(self, e: Any, reason: str, short: list[Short] | None = None) -> StockReply:
        id = getattr(e, "reservation_id", None)
        return StockReply(e.command_id, e.pool, "REJECTED", reason, id, [], short or [])

    def accepted(self, e: Any, lines: list[Line] | None = None, short: list[Short] | None = None) -> StockReply:
        id = getattr(e, "reservation_id", None)
        return StockReply(e.command_id, e.pool, "ACCEPTED", None, id, lines or [], short or [])


def added_up(lines: list[Line]) -> dict[str, int]:
    """Adds the quantities up by sku, in the order in which each is first named."""
    sums: dict[str, int] = {}
    for line in lines:
        sums[line.sku] = sums.get(line.sku, 0) + line.quantity
    return sums

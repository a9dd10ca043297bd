"""The rules of the ledger: one step of one pool. Numbers in brackets are those of the rules in docs/stock.md.

A rule first looks whether it can be carried out, and raises `Refused` if not. Only then it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import moneystate as ms
from services.stock import records
from services.stock.records import EventLine, HeldLine, Hold, Line, Reservation, Short, Sku

MAX_LINES: Final = 1_000
MAX_QUANTITY: Final = 10**9
MAX_TTL_MS: Final = 10**11
MAX_TEXT: Final = 1_000  # characters of a pool, a sku or an id: they are parts of keys
MAX_TEXTS: Final = 100_000  # of all in one record: Kafka takes what it causes, however it is escaped
NONE: Final = Sku(0, 0, None, 0)

Event: TypeAlias = records.ReservationEvent | records.Adjusted
Granted: TypeAlias = tuple[list[Line], list[Short]]
NOTHING: Final[Granted] = ([], [])


class Refused(Exception):
    """A command that has no effect."""

    def __init__(self, reason: str, short: list[Short] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.short = short or []


@dataclass
class Pool:
    """What a step has of a pool. `events`: what it does, in order; `timers`: of reservations, None: none any more."""

    name: str
    now: int
    skus: ms.Entries[Sku]
    reservations: ms.Entries[Reservation]
    ended: ms.Entries[Reservation]
    holds: ms.Entries[Hold]
    events: list[Event] = field(default_factory=list)
    timers: dict[str, int | None] = field(default_factory=dict)

    def sku(self, sku: str) -> Sku:
        return self.skus.get(sku) or NONE

    def open(self, id: str) -> Reservation:
        reservation = self.reservations.get(id)
        if reservation is None:
            ended = self.ended.get(id)
            raise Refused("NOT_FOUND" if ended is None else f"ALREADY_{ended.status}")
        return reservation

    def set_on_hand(self, sku: str, on_hand: int, counted: bool) -> None:
        before = self.sku(sku)
        self.skus.put(sku, Sku(on_hand, before.reserved, self.now, before.reserves))
        change = on_hand - before.on_hand
        self.events.append(records.Adjusted(self.name, sku, change, counted, on_hand, before.reserved))

    def hold(self, id: str, order_id: str | None, lines: list[Line], expires_at: int) -> None:
        held: list[HeldLine] = []
        after: list[EventLine] = []
        for line in lines:
            sku = self.sku(line.sku)
            reserved, number = sku.reserved + line.quantity, sku.reserves + 1
            self.skus.put(line.sku, Sku(sku.on_hand, reserved, sku.changed_at, number))
            self.holds.put(hold_id(line.sku, number), Hold(id))
            held.append(HeldLine(line.sku, line.quantity, number))
            after.append(EventLine(line.sku, line.quantity, sku.on_hand, reserved))
        self.reservations.put(id, Reservation(self.name, id, order_id, held, expires_at))
        self.timers[id] = expires_at
        self.events.append(records.Reserved(self.name, id, order_id, None, after))

    def end(
        self, held: Reservation, event: type[records.ReservationEvent],
        status: Literal["CONFIRMED", "CANCELLED", "EXPIRED"], reason: str | None = None,
        confirmed: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Release all that is held. What is `confirmed` of it is no longer on hand."""
        id, lines = held.reservation_id, []
        after: list[EventLine] = []
        for line in held.lines:
            sku = self.sku(line.sku)
            taken = 0 if confirmed is None else confirmed.get(line.sku, 0)
            on_hand, reserved = sku.on_hand - taken, sku.reserved - line.quantity
            self.skus.put(line.sku, Sku(on_hand, reserved, self.now if taken else sku.changed_at, sku.reserves))
            self.holds.delete(hold_id(line.sku, line.number))
            quantity = line.quantity if confirmed is None else taken
            lines.append(HeldLine(line.sku, quantity, line.number))
            after.append(EventLine(line.sku, quantity, on_hand, reserved))
        self.reservations.delete(id)
        self.ended.put(id, Reservation(self.name, id, held.order_id, lines, held.expires_at, status, reason))
        self.timers[id] = None
        self.events.append(event(self.name, id, held.order_id, reason, after))


def check_texts(texts: list[str]) -> None:
    """Of a command or an order. Raises Reject."""
    lengths = [*map(len, texts)]
    if max(lengths) > MAX_TEXT or sum(lengths) > MAX_TEXTS:
        raise ms.Reject("text_too_long", f"more than {MAX_TEXT:,} characters, or {MAX_TEXTS:,} in all")


def hold_prefix(sku: str) -> str:
    """Of the ids of a sku's holds: no sku's is that of another, whatever texts they are."""
    return f"{len(sku)}:{sku}:"


def hold_id(sku: str, number: int) -> str:
    """In the order of the Reserves."""
    return f"{hold_prefix(sku)}{number:016d}"


def added_up(lines: list[Line]) -> list[Line]:
    """One line for each sku, in the order in which they are first named."""
    sums: dict[str, int] = {}
    for line in lines:
        sums[line.sku] = sums.get(line.sku, 0) + line.quantity
    return [Line(sku, quantity) for sku, quantity in sums.items()]


def reserve(pool: Pool, e: records.Reserve) -> Granted:  # (2)
    lines = added_up(e.lines)
    if not 1 <= len(lines) <= MAX_LINES or not 0 < e.ttl_ms <= MAX_TTL_MS:
        raise Refused("INVALID")
    if any(line.quantity <= 0 for line in e.lines) or any(line.quantity > MAX_QUANTITY for line in lines):
        raise Refused("INVALID")
    if e.reservation_id in pool.reservations or e.reservation_id in pool.ended:
        raise Refused("RESERVATION_EXISTS")
    granted: list[Line] = []
    short: list[Short] = []
    for line in lines:
        sku = pool.sku(line.sku)
        available = sku.on_hand - sku.reserved
        if available < line.quantity:
            short.append(Short(line.sku, line.quantity, available))
        if available > 0:
            granted.append(Line(line.sku, min(line.quantity, available)))
    if not granted or (short and e.policy == "ALL"):
        raise Refused("INSUFFICIENT", short)
    pool.hold(e.reservation_id, e.order_id, granted, pool.now + e.ttl_ms)
    return granted, short


def confirm(pool: Pool, e: records.Confirm) -> Granted:  # (3)
    quantities = e.quantities
    if quantities is not None and not (
        any(quantities.values()) and all(0 <= quantity <= MAX_QUANTITY for quantity in quantities.values())
    ):
        raise Refused("INVALID")
    reservation = pool.open(e.reservation_id)
    held = {line.sku: line.quantity for line in reservation.lines}
    if quantities is None:
        quantities = held
    elif any(quantity > held.get(sku, 0) for sku, quantity in quantities.items()):
        raise Refused("MORE_THAN_HELD")
    pool.end(reservation, records.Confirmed, "CONFIRMED", confirmed=quantities)
    return NOTHING


def cancel(pool: Pool, e: records.Cancel) -> Granted:  # (3)
    pool.end(pool.open(e.reservation_id), records.Cancelled, "CANCELLED")
    return NOTHING


def expire(pool: Pool, id: str) -> None:  # (3)
    pool.end(pool.open(id), records.Expired, "EXPIRED")


def adjust(pool: Pool, e: records.Adjust) -> Granted:  # (4)
    if e.quantity == 0 or abs(e.quantity) > MAX_QUANTITY:
        raise Refused("INVALID")
    sku = pool.sku(e.sku)
    if sku.on_hand + e.quantity < sku.reserved:
        raise Refused("BELOW_RESERVED")
    pool.set_on_hand(e.sku, sku.on_hand + e.quantity, counted=False)
    return NOTHING


def count(pool: Pool, e: records.Count) -> Granted:  # (4)
    if not 0 <= e.on_hand <= MAX_QUANTITY:
        raise Refused("INVALID")
    sku = pool.sku(e.sku)
    if sku.changed_at is not None and e.time < sku.changed_at:
        raise Refused("STALE")
    if sku.reserved > e.on_hand:
        make_fit(pool, e.sku, e.on_hand)
    pool.set_on_hand(e.sku, e.on_hand, counted=True)
    return NOTHING


def make_fit(pool: Pool, sku: str, on_hand: int) -> None:
    for id in reversed(pool.holds.ids(hold_prefix(sku))):
        if pool.sku(sku).reserved <= on_hand:
            return
        hold = pool.holds.get(id)
        assert hold is not None
        pool.end(pool.open(hold.reservation_id), records.Cancelled, "CANCELLED", "SHORTAGE")


RULES: Final[dict[type, Callable[[Pool, Any], Granted]]] = {
    records.Adjust: adjust,
    records.Count: count,
    records.Reserve: reserve,
    records.Confirm: confirm,
    records.Cancel: cancel,
}

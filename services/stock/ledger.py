"""The rules of the ledger: one step of one pool. Numbers in brackets are those of the rules in docs/stock.md.

A rule first looks whether it can be carried out, and raises `Refused` if not. Only then it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import moneystate as ms
from services.stock import records
from services.stock.records import Adjusted, EventLine, HeldLine, Hold, Line, Reservation, Short, Sku, StockLevel

MAX_LINES: Final = 1_000
MAX_QUANTITY: Final = 10**9
MAX_TTL_MS: Final = 10**11
MAX_TEXT: Final = 1_000  # characters of a pool, a sku or an id: they are parts of keys
MAX_TEXTS: Final = 100_000  # of all in one record: Kafka takes what it causes, however it is escaped

ENDS: Final = {"CONFIRMED": records.Confirmed, "CANCELLED": records.Cancelled, "EXPIRED": records.Expired}


class Refused(Exception):
    """A command that has no effect, by its reason."""


@dataclass
class Pool:
    """A step of one pool. `outputs`: by the type of their records; `due`: the timer of reservations; `granted` and
    `short`: of a Reserve."""

    ctx: ms.Context[Any]
    outputs: dict[type, ms.Output[Any]]
    due: ms.MapTimer[Reservation]
    skus: ms.Entries[Sku]
    reservations: ms.Entries[Reservation]
    ended: ms.Entries[Reservation]
    holds: ms.Entries[Hold]
    granted: list[Line] = field(default_factory=list, init=False)
    short: list[Short] = field(default_factory=list, init=False)

    def sku(self, id: str) -> Sku:
        return self.skus.get(id) or nothing_of()

    def open(self, id: str) -> Reservation:
        reservation = self.reservations.get(id)
        if reservation is None:
            ended = self.ended.get(id)
            raise Refused("NOT_FOUND" if ended is None else f"ALREADY_{ended.status}")
        return reservation

    def set_on_hand(self, id: str, sku: Sku, on_hand: int, counted: bool) -> None:
        change = on_hand - sku.on_hand
        sku.on_hand, sku.changed_at = on_hand, self.ctx.now
        self.skus.put(id, sku)
        event = Adjusted(self.ctx.key, id, change, counted, on_hand, sku.reserved)
        self.put_out(event, [event])

    def hold(self, id: str, order_id: str | None, lines: list[tuple[Line, Sku]], expires_at: int) -> None:
        held: list[HeldLine] = []
        after: list[EventLine] = []
        self.granted = [line for line, _ in lines]
        for line, sku in lines:
            sku.reserved += line.quantity
            sku.reserves += 1
            self.holds.put(hold_id(line.sku, sku.reserves), Hold(id))
            held.append(HeldLine(line.sku, line.quantity, sku.reserves))
            after.append(EventLine(line.sku, line.quantity, sku.on_hand, sku.reserved))
        self.reservations.put(id, Reservation(self.ctx.key, id, order_id, held, expires_at))
        self.ctx.at(self.due, expires_at, id)
        self.put_out(records.Reserved(self.ctx.key, id, order_id, None, after), after)

    def end(
        self, held: Reservation, status: Literal["CONFIRMED", "CANCELLED", "EXPIRED"], reason: str | None = None,
        confirmed: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Release all that is held. What is `confirmed` of it is no longer on hand."""
        id = held.reservation_id
        after: list[EventLine] = []
        for line in held.lines:
            sku = self.skus[line.sku]
            sku.reserved -= line.quantity
            if confirmed is not None:
                line.quantity = confirmed.get(line.sku, 0)
                sku.on_hand -= line.quantity
                sku.changed_at = self.ctx.now if line.quantity else sku.changed_at
            self.holds.delete(hold_id(line.sku, line.number))
            after.append(EventLine(line.sku, line.quantity, sku.on_hand, sku.reserved))
        held.status, held.reason = status, reason
        self.reservations.delete(id)
        self.ended.put(id, held)
        self.ctx.cancel(self.due, id)
        self.put_out(ENDS[status](self.ctx.key, id, held.order_id, reason, after), after)

    def put_out(self, event: records.ReservationEvent | Adjusted, lines: Sequence[EventLine | Adjusted]) -> None:
        """And the level of each of its skus."""
        self.ctx.emit(self.outputs[type(event)], event)
        for its in lines:
            self.ctx.emit(self.outputs[StockLevel], level(event.pool, its.sku, its))


def level(pool: str, sku: str, its: Sku | EventLine | Adjusted) -> StockLevel:
    return StockLevel(pool, sku, its.on_hand, its.reserved, its.on_hand - its.reserved)


def nothing_of() -> Sku:
    """A sku that the pool has never had."""
    return Sku(0, 0, None, 0)


def check_texts(texts: list[str]) -> None:
    """Checks the texts of a command or an order. Raises Reject."""
    lengths = [*map(len, texts)]
    if max(lengths) > MAX_TEXT or sum(lengths) > MAX_TEXTS:
        raise ms.Reject("text_too_long", f"more than {MAX_TEXT:,} characters, or {MAX_TEXTS:,} in all")


def hold_prefix(sku: str) -> str:
    """Returns the prefix of the ids of a sku's holds. Different skus have different prefixes, whatever their texts."""
    return f"{len(sku)}:{sku}:"


def hold_id(sku: str, number: int) -> str:
    """Makes the id of a hold. The ids are in the order of the Reserves."""
    return f"{hold_prefix(sku)}{number:016d}"


def asked_for(lines: list[Line]) -> dict[str, int]:
    """Sums the quantities by sku, in the order in which they are first named."""
    quantities: dict[str, int] = {}
    for line in lines:
        if line.quantity <= 0:
            raise Refused("INVALID")
        quantities[line.sku] = quantities.get(line.sku, 0) + line.quantity
    if not 1 <= len(quantities) <= MAX_LINES or max(quantities.values()) > MAX_QUANTITY:
        raise Refused("INVALID")
    return quantities


def reserve(pool: Pool, e: records.Reserve) -> None:  # (2)
    asked = asked_for(e.lines)
    if not 0 < e.ttl_ms <= MAX_TTL_MS:
        raise Refused("INVALID")
    if e.reservation_id in pool.reservations or e.reservation_id in pool.ended:
        raise Refused("RESERVATION_EXISTS")
    granted: list[tuple[Line, Sku]] = []
    for id, quantity in asked.items():
        sku = pool.sku(id)
        available = sku.on_hand - sku.reserved
        if available < quantity:
            pool.short.append(Short(id, quantity, available))
        if available > 0:
            granted.append((Line(id, min(quantity, available)), sku))
    if not granted or (pool.short and e.policy == "ALL"):
        raise Refused("INSUFFICIENT")
    pool.hold(e.reservation_id, e.order_id, granted, pool.ctx.now + e.ttl_ms)


def confirm(pool: Pool, e: records.Confirm) -> None:  # (3)
    quantities = e.quantities
    if quantities is not None and not (
        any(quantities.values()) and all(0 <= quantity <= MAX_QUANTITY for quantity in quantities.values())
    ):
        raise Refused("INVALID")
    reservation = pool.open(e.reservation_id)
    held = {line.sku: line.quantity for line in reservation.lines}
    if quantities is not None and any(quantity > held.get(sku, 0) for sku, quantity in quantities.items()):
        raise Refused("MORE_THAN_HELD")
    pool.end(reservation, "CONFIRMED", confirmed=held if quantities is None else quantities)


def cancel(pool: Pool, e: records.Cancel) -> None:  # (3)
    pool.end(pool.open(e.reservation_id), "CANCELLED")


def adjust(pool: Pool, e: records.Adjust) -> None:  # (4)
    if e.quantity == 0 or abs(e.quantity) > MAX_QUANTITY:
        raise Refused("INVALID")
    sku = pool.sku(e.sku)
    if sku.on_hand + e.quantity < sku.reserved:
        raise Refused("BELOW_RESERVED")
    pool.set_on_hand(e.sku, sku, sku.on_hand + e.quantity, counted=False)


def count(pool: Pool, e: records.Count) -> None:  # (4)
    if not 0 <= e.on_hand <= MAX_QUANTITY:
        raise Refused("INVALID")
    sku = pool.sku(e.sku)
    if sku.changed_at is not None and e.time < sku.changed_at:
        raise Refused("STALE")
    if sku.reserved > e.on_hand:
        for id in reversed(pool.holds.ids(hold_prefix(e.sku))):
            if sku.reserved > e.on_hand:
                pool.end(pool.open(pool.holds[id].reservation_id), "CANCELLED", "SHORTAGE")
    pool.set_on_hand(e.sku, sku, e.on_hand, counted=True)


RULES: Final[dict[type, Callable[[Pool, Any], None]]] = {
    records.Adjust: adjust,
    records.Count: count,
    records.Reserve: reserve,
    records.Confirm: confirm,
    records.Cancel: cancel,
}

"""The saga once more: from the log of orders and what the ledger put out, in the plainest way.

It sees orders first, then events, then replies, of one order time; the latter two as the ledger wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from services.stock.records import (
    Cancel,
    Cancelled,
    Confirm,
    Expired,
    Line,
    OrderCancelled,
    OrderConfirmed,
    OrderPlaced,
    OrderResult,
    Reserve,
    Short,
    StockReply,
)
from tests.services.stock.reference import DAY, Place, in_order


def is_loss(record: Any) -> bool:
    """An event of one of the saga's own reservations, which have the order's id."""
    if not isinstance(record, (Expired, Cancelled)) or record.reservation_id != record.order_id:
        return False
    return isinstance(record, Expired) or record.reason == "SHORTAGE"


@dataclass
class Order:
    placed: OrderPlaced
    asked: list[str]  # pools, in the order in which they are first named
    accepted: list[str] = field(default_factory=list)
    decision: str = ""
    held: bool = False
    confirming: bool = False
    confirmed: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    lost: str = ""
    end: int | None = None

    @property
    def open(self) -> bool:
        return self.end is None


@dataclass
class Orders:
    retention_ms: int = 30 * DAY
    orders: dict[str, Order] = field(default_factory=dict)
    commands: list[Any] = field(default_factory=list)
    results: list[OrderResult] = field(default_factory=list)
    late_cancels: list[str] = field(default_factory=list)
    counted: int = 0
    letters: list[str] = field(default_factory=list)

    def run(self, partitions: list[list[Any]], timed: list[tuple[int, int, Place, Any]]) -> Orders:
        """`timed`: of the reference of the ledger."""
        seen: list[tuple[int, int, int, Any]] = []
        for number, (place, order) in enumerate(in_order(partitions)):
            seen.append((place.t, 0, number, order))
        for number, (t, _, _, record) in enumerate(timed):
            seen.append((t, 2 if isinstance(record, StockReply) else 1, number, record))
        for t, _, _, record in sorted(seen, key=lambda s: s[:3]):
            self.t = t
            self.take(record)
        return self

    def take(self, record: Any) -> None:
        id: Any = record.reservation_id if isinstance(record, StockReply) else getattr(record, "order_id", None)
        order = self.orders.get(id)
        if order is not None and order.end is not None and self.t >= order.end + self.retention_ms:
            del self.orders[id]
            order = None
        if isinstance(record, OrderPlaced):
            self.place(record, order)
        elif isinstance(record, (OrderConfirmed, OrderCancelled)):
            self.decide(record, order)
        elif order is not None and isinstance(record, StockReply):
            if record.command_id == f"{id}/reserve":
                self.reserve_answered(order, record)
            elif record.command_id == f"{id}/confirm":
                self.confirm_answered(order, record)
        elif order is not None and is_loss(record):
            self.gone(order, record.pool, record.reason or "EXPIRED")

    def place(self, e: OrderPlaced, known: Order | None) -> None:
        if known is not None:
            self.counted += 1
            if (known.placed.lines, known.placed.ttl_ms) != (e.lines, e.ttl_ms):
                self.letters.append("order_conflict")
            return
        order = Order(e, list(dict.fromkeys(line.pool for line in e.lines)))
        self.orders[e.order_id] = order
        if not order.asked:
            self.finish(order, "REJECTED", "INVALID")
        for pool in order.asked:
            lines = [Line(line.sku, line.quantity) for line in e.lines if line.pool == pool]
            self.commands.append(
                Reserve(f"{e.order_id}/reserve", pool, self.t, e.order_id, lines, e.ttl_ms, e.order_id, "ALL")
            )

    def decide(self, e: Any, order: Order | None) -> None:
        if order is None or not order.open or order.decision:
            self.counted += 1
            if order is None:
                self.letters.append("unknown_order")
            return
        order.decision = "confirm" if isinstance(e, OrderConfirmed) else "cancel"
        if order.held:
            self.act(order)

    def act(self, order: Order) -> None:
        id = order.placed.order_id
        if order.decision == "cancel":
            self.finish(order, "CANCELLED", None)
            self.cancel(order, order.asked)
        elif order.decision == "confirm":
            order.confirming = True
            self.commands += [Confirm(f"{id}/confirm", pool, self.t, id, None) for pool in order.asked]

    def reserve_answered(self, order: Order, reply: StockReply) -> None:
        pool = reply.pool
        if pool not in order.asked or pool in order.accepted or pool in [refused for refused, _ in order.refused]:
            return
        if reply.status == "ACCEPTED":
            order.accepted.append(pool)
            if not order.open and pool != order.lost:
                self.cancel(order, [pool])
                self.late_cancels.append(order.placed.order_id)
            elif order.open and len(order.accepted) == len(order.asked):
                order.held = True
                self.result(order, "HELD", None)
                self.act(order)
        else:
            order.refused.append((pool, reply.reason or ""))
            if order.open:
                self.finish(order, "REJECTED", reply.reason, reply.short)
                self.cancel(order, order.accepted)

    def confirm_answered(self, order: Order, reply: StockReply) -> None:
        if not order.open or not order.confirming or reply.pool in order.confirmed:
            return
        if reply.pool in [pool for pool, _ in order.refused] or reply.pool not in order.asked:
            return
        if reply.status == "ACCEPTED":
            order.confirmed.append(reply.pool)
        else:
            order.refused.append((reply.pool, reply.reason or ""))
        if len(order.confirmed) + len(order.refused) == len(order.asked):
            confirmed = [pool for pool in order.asked if pool in order.confirmed]
            if order.refused:
                self.finish(order, "LOST", order.refused[0][1], confirmed=confirmed)
            else:
                self.finish(order, "CONFIRMED", None, confirmed=confirmed)

    def gone(self, order: Order, pool: str, reason: str) -> None:
        if order.open and not order.confirming and pool in order.asked:
            order.lost = pool
            self.finish(order, "LOST", reason)
            self.cancel(order, [p for p in order.accepted if p != pool])

    def cancel(self, order: Order, pools: list[str]) -> None:
        id = order.placed.order_id
        in_order_of_lines = [pool for pool in order.asked if pool in pools]
        self.commands += [Cancel(f"{id}/cancel", pool, self.t, id) for pool in in_order_of_lines]

    def finish(
        self, order: Order, status: Any, reason: str | None, short: list[Short] | None = None,
        confirmed: list[str] | None = None,
    ) -> None:  # fmt: skip
        self.result(order, status, reason, short, confirmed)
        order.end = self.t

    def result(
        self, order: Order, status: Any, reason: str | None, short: list[Short] | None = None,
        confirmed: list[str] | None = None,
    ) -> None:  # fmt: skip
        id = order.placed.order_id
        self.results.append(OrderResult(id, status, reason, short or [], confirmed or [], self.t))

"""Orders that are paid in time, or expire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import moneystate as ms

DAY = 86_400_000


@dataclass(frozen=True)
class OrderPlaced:
    order_id: str
    customer: str
    cents: int
    placed_at: ms.Millis


@dataclass(frozen=True)
class PaymentTaken:
    payment_id: str
    order_id: str
    cents: int
    taken_at: ms.Millis


@dataclass(frozen=True)
class Closed:
    order_id: str
    status: str
    missing: int


@dataclass
class Order:  # state: an entry equal to Order() is no entry
    customer: str = ""
    cents: int = 0
    paid: int = 0
    status: Literal["NEW", "OPEN", "PAID", "EXPIRED"] = "NEW"


@dataclass(frozen=True)
class Rules:
    wait_ms: int = 1_800_000  # part of the plan; a flag of `run`


service = ms.Service("orders", rules=Rules())
placed = service.input("orders", OrderPlaced, key="order_id", time="placed_at")
taken = service.input("payments", PaymentTaken, key="order_id", time="taken_at", unique="payment_id", within_ms=DAY)
closed = service.output("orders-closed", Closed, key="order_id")
order = service.value("order", Order)  # one for each key
overdue = service.timer("overdue")  # one for each key; set again, it is replaced
by_customer = service.index("by_customer", order, lambda o: o.customer)


@service.on(placed, order)  # what it reads is declared: one round of state reads for a whole batch
def place(ctx: ms.Context[Rules], e: OrderPlaced, order: Order) -> None:
    if e.cents <= 0:
        raise ms.Reject("not_positive")  # a dead letter; the step leaves no trace
    order.customer, order.cents, order.status = e.customer, e.cents, "OPEN"
    ctx.at(overdue, ctx.now + ctx.rules.wait_ms)


@service.on(taken, order)
def take(ctx: ms.Context[Rules], e: PaymentTaken, order: Order) -> None:
    order.paid += e.cents
    if order.status == "OPEN" and order.paid >= order.cents:
        order.status = "PAID"
        ctx.emit(closed, Closed(ctx.key, "PAID", 0))


@service.on(overdue, order)
def expire(ctx: ms.Context[Rules], order: Order) -> None:
    if order.status == "OPEN":
        order.status = "EXPIRED"
        ctx.emit(closed, Closed(ctx.key, order.status, order.cents - order.paid))


@service.query  # a call of the query server, at any version or event time
def open_cents(view: ms.View, customer: str) -> int:
    return sum(o.cents for _, o in view.find(by_customer, customer) if o.status == "OPEN")

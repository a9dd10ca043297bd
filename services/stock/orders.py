"""Orders over several pools as a service, a saga: orders, stock-events, stock-replies -> stock-commands, order-results.

It reads what the ledger puts out in the ledger's own order, and writes its commands to the ordinary topic with its own
time: no loop waits for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import moneystate as ms
from services.stock import records
from services.stock.config import Config
from services.stock.order_records import EndedOrder, Order, OrderCancelled, OrderConfirmed, OrderPlaced, OrderResult
from services.stock.saga import Saga


def orders(config: Config) -> ms.Service[Config]:
    return OrdersService(config).service


class OrdersService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("stock-orders", rules=config, namespace="stock")

        def requests(record: type[Any]) -> ms.Input[Any]:
            return service.input("orders", record, key="order_id", time="time", bound_ms=0, format=config.format)

        def stream(topic: str, record: type[Any], key: Callable[[Any], list[str]] | None = None) -> ms.Input[Any]:
            return service.input(topic, record, key=key, timed=True, format=config.format)

        placed, decided = requests(OrderPlaced), requests(OrderConfirmed) | requests(OrderCancelled)
        lost = stream("stock-events", records.Expired, lost_order) | stream(
            "stock-events", records.Cancelled, lost_order
        )  # fmt: skip
        for other in (records.Reserved, records.Confirmed, records.Adjusted):
            stream("stock-events", other)
        answered = stream("stock-replies", records.StockReply, answered_order)

        self.order = service.value("order", Order)
        self.ended = service.value("ended", EndedOrder, ttl_ms=config.order_retention_ms)
        self.results = service.output("order-results", OrderResult, key="order_id", format=config.format)
        self.commands: dict[type, ms.Output[Any]] = {
            command: service.output("stock-commands", command, key="pool", format=config.format)
            for command in (records.Reserve, records.Confirm, records.Cancel)
        }
        self.outputs = {**self.commands, OrderResult: self.results}

        steps: list[tuple[ms.Source[Any], Callable[[Saga, Any], None]]] = [
            (placed, Saga.place), (decided, Saga.decide), (lost, Saga.lose), (answered, Saga.answer)
        ]  # fmt: skip
        for source, rule in steps:
            service.on(source, self.order, self.ended)(self.step(rule))

    def step(self, rule: Callable[[Saga, Any], None]) -> Callable[[ms.Context[Config], Any, Order, EndedOrder], None]:
        def run(ctx: ms.Context[Config], e: Any, order: Order, ended: EndedOrder) -> None:
            saga = Saga(ctx.key, ctx.now, order, ended)
            rule(saga, e)
            for effect in saga.effects:
                ctx.emit(self.outputs[type(effect)], effect)
            if saga.ignored:
                ctx.count(saga.ignored)

        return run


def lost_order(e: records.ReservationEvent) -> list[str]:
    """The order whose reservation has gone and was not given up by itself: its reservations have its id."""
    gone = isinstance(e, records.Expired) or e.reason == "SHORTAGE"
    return [e.reservation_id] if gone and e.order_id == e.reservation_id else []


def answered_order(reply: records.StockReply) -> list[str]:
    """The order whose Reserve or Confirm was answered; nothing depends on the reply to its Cancel."""
    order_id, _, step = reply.command_id.rpartition("/")
    return [order_id] if step in ("reserve", "confirm") and order_id == reply.reservation_id else []

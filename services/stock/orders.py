"""Orders over several pools as a service, a saga: orders, stock-events, stock-replies -> stock-commands, order-results.

It reads what the ledger puts out in the ledger's own order, and writes its commands to the ordinary topic with its own
time: no loop waits for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import moneystate as ms
from services.stock import records
from services.stock.config import Config
from services.stock.ledger import check_texts
from services.stock.records import AskedPool, Cancel, Confirm, EndedOrder, Line, Order, OrderResult, Reserve, StockReply


def orders(config: Config) -> ms.Service[Config]:
    return OrdersService(config).service


class OrdersService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("stock-orders", rules=config, namespace="stock")

        def requests(record: type[Any]) -> ms.Input[Any]:
            return service.input("orders", record, key="order_id", time="time", bound_ms=0, format=config.format)

        def stream(record: type[Any], key: Callable[[Any], list[str]] | None = None) -> ms.Input[Any]:
            topic = "stock-replies" if record is StockReply else "stock-events"
            return service.input(topic, record, key=key, timed=True, format=config.format)

        placed = requests(records.OrderPlaced)
        decided = requests(records.OrderConfirmed) | requests(records.OrderCancelled)
        lost = stream(records.Expired, lost_order) | stream(records.Cancelled, lost_order)
        for other in (records.Reserved, records.Confirmed, records.Adjusted):
            stream(other)
        answered = stream(StockReply, answered_order)

        self.order = service.value("order", Order)
        self.ended = service.value("ended", EndedOrder, ttl_ms=config.order_retention_ms)
        self.results = service.output("order-results", OrderResult, key="order_id", format=config.format)
        self.commands: dict[type, ms.Output[Any]] = {
            command: service.output("stock-commands", command, key="pool", format=config.format)
            for command in (Reserve, Confirm, Cancel)
        }
        self.outputs = {**self.commands, OrderResult: self.results}

        service.on(placed, self.order, self.ended)(self.step(Saga.place))
        service.on(decided, self.order, self.ended)(self.step(Saga.decide))
        service.on(lost, self.order, self.ended)(self.step(Saga.lose))
        service.on(answered, self.order, self.ended)(self.step(Saga.answer))

    def step(self, rule: Callable[[Saga, Any], None]) -> Callable[[ms.Context[Config], Any, Order, EndedOrder], None]:
        def run(ctx: ms.Context[Config], e: Any, order: Order, ended: EndedOrder) -> None:
            rule(Saga(ctx, self.outputs, order, ended), e)

        return run


def lost_order(e: records.ReservationEvent) -> list[str]:
    """The order whose reservation has gone and was not given up by itself: its reservations have its id."""
    gone = isinstance(e, records.Expired) or e.reason == "SHORTAGE"
    return [e.reservation_id] if gone and e.order_id == e.reservation_id else []


def answered_order(reply: StockReply) -> list[str]:
    """The order whose Reserve or Confirm was answered; nothing depends on the reply to its Cancel."""
    order_id, _, step = reply.command_id.rpartition("/")
    return [order_id] if step in ("reserve", "confirm") and order_id == reply.reservation_id else []


def digest_of(e: records.OrderPlaced) -> bytes:
    """Returns the digest of the order without its time."""
    return hashlib.blake2b(repr([e.lines, e.ttl_ms]).encode(), digest_size=16).digest()


class Saga:
    """The rules of an order: what each record makes of it, as commands and results (docs/stock.md)."""

    def __init__(self, ctx: ms.Context[Config], outputs: dict[type, Any], order: Order, ended: EndedOrder) -> None:
        self.ctx, self.outputs = ctx, outputs
        self.id, self.now = ctx.key, ctx.now
        self.order, self.ended = order, ended

    def place(self, e: records.OrderPlaced) -> None:
        digest = digest_of(e)
        if self.is_known():
            self.ctx.count("known_orders")
            if digest != (self.order.digest or self.ended.digest):
                self.ctx.dead_letter("order_conflict", "another order has this id")
            return
        reserve = f"{self.id}/reserve"
        # The ledger is going to check them in the same way.
        check_texts([reserve, self.id, self.id, *[text for line in e.lines for text in (line.pool, line.sku)]])
        lines: dict[str, list[Line]] = {}
        for line in e.lines:
            lines.setdefault(line.pool, []).append(Line(line.sku, line.quantity))
        self.order.phase, self.order.digest = "RESERVING", digest
        for pool, its in lines.items():
            self.order.pools.append(AskedPool(pool))
            self._put_out(Reserve(reserve, pool, self.now, self.id, its, e.ttl_ms, self.id))
        if not lines:
            self._end("REJECTED", "INVALID")

    def is_known(self) -> bool:
        return self.order.phase != "UNKNOWN" or self.ended.known

    def decide(self, e: records.OrderDecision) -> None:
        if self.order.phase == "UNKNOWN" or self.order.decision != "OPEN":
            self.ctx.count("ignored_decisions")
            if not self.is_known():
                self.ctx.dead_letter("unknown_order", "no such order, or it ended longer than the retention ago")
            return
        self.order.decision = "CONFIRM" if isinstance(e, records.OrderConfirmed) else "CANCEL"
        if self.order.phase == "HELD":
            self._carry_out()

    def answer(self, reply: StockReply) -> None:
        """Takes the answer to a Reserve or a Confirm."""
        order = self.order
        phase = "RESERVING" if reply.command_id == f"{self.id}/reserve" else "CONFIRMING"
        asked = [asked for asked in order.pools if asked.pool == reply.pool and asked.answer == "ASKED"]
        if order.phase == phase and asked:
            asked[0].answer = "ACCEPTED" if reply.status == "ACCEPTED" else "REFUSED"
            if phase == "CONFIRMING":
                order.refusal = order.refusal or reply.reason
                if not self._pools("ASKED"):
                    status = "LOST" if order.refusal else "CONFIRMED"
                    self._end(status, order.refusal, confirmed=self._pools("ACCEPTED"))
            elif reply.status == "REJECTED":
                self._end("REJECTED", reply.reason, short=reply.short)
            elif not self._pools("ASKED"):
                order.phase = "HELD"
                self._tell("HELD")
                self._carry_out()
        elif phase == "RESERVING" and reply.status == "ACCEPTED" and reply.pool in self.ended.unanswered:
            self._cancel([reply.pool])

    def lose(self, e: records.ReservationEvent) -> None:
        """A pool no longer holds what it accepted."""
        others = [asked for asked in self.order.pools if asked.pool != e.pool]
        if self.order.phase in ("RESERVING", "HELD") and len(others) < len(self.order.pools):
            self.order.pools = others
            self._end("LOST", e.reason or "EXPIRED")

    def _carry_out(self) -> None:
        """The decision, now that all pools hold."""
        if self.order.decision == "CANCEL":
            self._end("CANCELLED")
        elif self.order.decision == "CONFIRM":
            self.order.phase = "CONFIRMING"
            for asked in self.order.pools:
                asked.answer = "ASKED"
                self._put_out(Confirm(f"{self.id}/confirm", asked.pool, self.now, self.id))

    def _end(self, status: str, reason: str | None = None, **details: Any) -> None:
        """Pools that hold something get Cancel, now or once they accept; after Confirm was sent none does."""
        order = self.order
        self._tell(status, reason, **details)
        self.ended.known, self.ended.digest = True, order.digest
        if order.phase != "CONFIRMING":
            self._cancel(self._pools("ACCEPTED"))
            self.ended.unanswered = self._pools("ASKED")
        order.phase, order.pools, order.decision, order.refusal, order.digest = "UNKNOWN", [], "OPEN", None, b""

    def _cancel(self, pools: list[str]) -> None:
        for pool in pools:
            self._put_out(Cancel(f"{self.id}/cancel", pool, self.now, self.id))

    def _tell(self, status: Any, reason: str | None = None, short: Any = (), confirmed: Any = ()) -> None:
        self._put_out(OrderResult(self.id, status, reason, list(short), list(confirmed), self.now))

    def _put_out(self, record: Any) -> None:
        self.ctx.emit(self.outputs[type(record)], record)

    def _pools(self, answer: str) -> list[str]:
        return [asked.pool for asked in self.order.pools if asked.answer == answer]

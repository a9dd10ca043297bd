"""The rules of an order over several pools: what each record makes of it, as commands and results (docs/stock.md)."""

from __future__ import annotations

from typing import Any

from services.stock.ledger import check_texts
from services.stock.order_records import AskedPool, EndedOrder, Order, OrderConfirmed, OrderPlaced, OrderResult
from services.stock.records import Cancel, Confirm, Line, Reserve, Short, StockReply


class Saga:
    """A step of one order. `effects`: what it puts out, in order; `ignored`: a counter of what has no effect."""

    def __init__(self, order_id: str, now: int, order: Order, ended: EndedOrder) -> None:
        self.order_id, self.now = order_id, now
        self.order, self.ended = order, ended
        self.effects: list[Any] = []
        self.ignored = ""

    def place(self, e: OrderPlaced) -> None:
        if self.order.phase != "UNKNOWN" or self.ended.known:
            self.ignored = "known_orders"
            return
        ids = [self._id("reserve"), self.order_id, self.order_id]  # as the ledger is going to check them
        check_texts([*ids, *[text for line in e.lines for text in (line.pool, line.sku)]])
        lines: dict[str, list[Line]] = {}
        for line in e.lines:
            lines.setdefault(line.pool, []).append(Line(line.sku, line.quantity))
        self.order.phase = "RESERVING"
        for pool, its in lines.items():
            self.order.pools.append(AskedPool(pool))
            reserve = Reserve(self._id("reserve"), pool, self.now, self.order_id, its, e.ttl_ms, self.order_id)
            self.effects.append(reserve)
        if not lines:
            self._end("REJECTED", "INVALID")

    def decide(self, e: Any) -> None:
        if self.order.phase == "UNKNOWN" or self.order.decision != "OPEN":
            self.ignored = "ignored_decisions"
            return
        self.order.decision = "CONFIRM" if isinstance(e, OrderConfirmed) else "CANCEL"
        if self.order.phase == "HELD":
            self._carry_out()

    def answer(self, reply: StockReply) -> None:
        """To a Reserve or a Confirm."""
        phase = "RESERVING" if reply.command_id == self._id("reserve") else "CONFIRMING"
        asked = [asked for asked in self.order.pools if asked.pool == reply.pool and asked.answer == "ASKED"]
        if self.order.phase == phase and asked:
            asked[0].answer = "ACCEPTED" if reply.status == "ACCEPTED" else "REFUSED"
            if phase == "CONFIRMING":
                self._confirm_answered(reply)
            elif reply.status == "REJECTED":
                self._end("REJECTED", reply.reason, reply.short)
            elif not self._pools("ASKED"):
                self.order.phase = "HELD"
                self._tell("HELD", None)
                self._carry_out()
        elif phase == "RESERVING" and reply.status == "ACCEPTED" and reply.pool in self.ended.unanswered:
            self._cancel([reply.pool])

    def lose(self, e: Any) -> None:
        """A pool no longer holds what it accepted."""
        others = [asked for asked in self.order.pools if asked.pool != e.pool]
        if self.order.phase in ("RESERVING", "HELD") and len(others) < len(self.order.pools):
            self.order.pools = others
            self._end("LOST", e.reason or "EXPIRED")

    def _confirm_answered(self, reply: StockReply) -> None:
        order = self.order
        order.refusal = order.refusal or reply.reason
        if not self._pools("ASKED"):
            self._end("LOST" if order.refusal else "CONFIRMED", order.refusal, confirmed=self._pools("ACCEPTED"))

    def _carry_out(self) -> None:
        """The decision, now that all pools hold."""
        if self.order.decision == "CANCEL":
            self._end("CANCELLED", None)
        elif self.order.decision == "CONFIRM":
            self.order.phase = "CONFIRMING"
            for asked in self.order.pools:
                asked.answer = "ASKED"
                self.effects.append(Confirm(self._id("confirm"), asked.pool, self.now, self.order_id))

    def _end(
        self, status: Any, reason: str | None, short: list[Short] | None = None, confirmed: list[str] | None = None
    ) -> None:  # fmt: skip
        """Pools that hold something get Cancel, now or once they accept; after Confirm was sent none does."""
        order = self.order
        self._tell(status, reason, short, confirmed)
        self.ended.known = True
        if order.phase != "CONFIRMING":
            self._cancel(self._pools("ACCEPTED"))
            self.ended.unanswered = self._pools("ASKED")
        order.phase, order.pools, order.decision, order.refusal = "UNKNOWN", [], "OPEN", None

    def _cancel(self, pools: list[str]) -> None:
        self.effects += [Cancel(self._id("cancel"), pool, self.now, self.order_id) for pool in pools]

    def _tell(
        self, status: Any, reason: str | None, short: list[Short] | None = None, confirmed: list[str] | None = None
    ) -> None:  # fmt: skip
        self.effects.append(OrderResult(self.order_id, status, reason, short or [], confirmed or [], self.now))

    def _pools(self, answer: str) -> list[str]:
        return [asked.pool for asked in self.order.pools if asked.answer == answer]

    def _id(self, step: str) -> str:
        return f"{self.order_id}/{step}"

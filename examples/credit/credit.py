"""Decides on orders by the customer's score, which an HTTP service knows."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class OrderPlaced:
    order_id: str
    customer: str
    cents: int
    placed_at: ms.Millis


@dataclass(frozen=True)
class ScoreRequested:
    order_id: str
    customer: str
    requested_at: ms.Millis


@dataclass(frozen=True)
class ScoreReplied:
    order_id: str
    requested_at: ms.Millis
    outcome: ms.Outcome
    score: int | None


@dataclass(frozen=True)
class OrderDecided:
    order_id: str
    decision: str


@dataclass(frozen=True)
class Rules:
    least_score: int = 500
    small_cents: int = 2_000  # such orders need no score


service = ms.Service("credit", rules=Rules())
placed = service.input("credit-orders", OrderPlaced, key="order_id", time="placed_at")
decided = service.output("credit-decisions", OrderDecided, key="order_id")
scores = service.lookup(
    "scores",
    request=ScoreRequested,
    reply=ScoreReplied,
    key="order_id",
    time="requested_at",
    url="/customers/{customer}/score",
)


@service.on(placed)
def decide(ctx: ms.Context[Rules], e: OrderPlaced) -> None:
    if e.cents < ctx.rules.small_cents:
        ctx.emit(decided, OrderDecided(e.order_id, "ACCEPTED"))
    else:
        ctx.ask(scores, ScoreRequested(e.order_id, e.customer, ctx.now))


@service.on(scores)
def scored(ctx: ms.Context[Rules], reply: ScoreReplied, asked: ScoreRequested) -> None:
    if reply.outcome == "FAILED":
        decision = "MANUAL"
    elif reply.score is not None and reply.score >= ctx.rules.least_score:
        decision = "ACCEPTED"
    else:
        decision = "REFUSED"
    ctx.emit(decided, OrderDecided(asked.order_id, decision))


@service.query
def waiting(view: ms.View, order_id: str) -> list[ScoreRequested]:
    """The requests of an order that have no reply yet."""
    return [asked.request for _, asked in view.entries(scores.open, order_id)]

"""A service whose inputs have limits of their own."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Fast:
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Slow:
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Plain:
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Took:
    id: str
    what: str
    at: ms.Millis
    late: bool


@dataclass(frozen=True)
class Rules:
    slack_ms: int = 1_950


service = ms.Service("limited", rules=Rules())
fast = service.input("fast", Fast, key="id", time="at", bound_ms=0)
slow = service.input("slow", Slow, key="id", time="at", bound_ms=lambda rules: 50 + rules.slack_ms, max_future_ms=5)
plain = service.input("plain", Plain, key="id", time="at")
took = service.output("took", Took, key="id")


@service.on(fast | slow | plain)
def take(ctx: ms.Context[Rules], e: Fast | Slow | Plain) -> None:
    ctx.emit(took, Took(e.id, type(e).__name__, ctx.now, ctx.late))

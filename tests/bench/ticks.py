"""The service of the latency of arrival order: it passes each record on, and counts."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Tick:
    key: str
    text: str


@dataclass(frozen=True)
class Passed:
    key: str
    number: int
    arrived_at: ms.Millis  # by the broker's clock


@dataclass
class Count:
    n: int = 0


service = ms.Service("ticks")
ticks = service.input("ticks", Tick, key="key", time=ms.arrival)
passed = service.output("passed", Passed, key="key")
count = service.value("count", Count)


@service.on(ticks, count)
def take(ctx: ms.Context[None], e: Tick, count: Count) -> None:
    count.n += 1
    ctx.emit(passed, Passed(ctx.key, count.n, ctx.now))

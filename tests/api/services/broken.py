"""A service that does everything wrong that it is told to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import moneystate as ms
from tests.api.services import basket


@dataclass(frozen=True)
class Ping:
    key: str
    what: str
    at: ms.Millis


@dataclass(frozen=True)
class Pong:
    key: str | None
    n: int


@dataclass
class Count:
    n: int = 0


service = ms.Service("broken")
pings = service.input("pings", Ping, key="key", time="at")
pongs = service.output("pongs", Pong, key="key")
count = service.value("count", Count)
later = service.timer("later")


@service.on(pings, count)
def ping(ctx: ms.Context[None], e: Ping, count: Count) -> None:
    wrong = cast("Any", "x")
    count.n += 1
    if e.what == "divide":
        count.n = 1 // (count.n - count.n)
    elif e.what == "key":
        ctx.emit(pongs, Pong(None, 1))
    elif e.what == "record":
        ctx.emit(cast("Any", pongs), e)
    elif e.what == "field":
        ctx.emit(pongs, Pong("a", wrong))
    elif e.what == "timer":
        ctx.at(basket.nightly, 5)
    elif e.what == "when":
        ctx.at(later, cast("Any", 1.5))
    elif e.what == "remove":
        ctx.remove(pongs, e.key)
    elif e.what == "state":
        count.n = wrong


@service.on(later)
def now(ctx: ms.Context[None]) -> None:
    pass

"""A service that is wrong: it keeps state in its module."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Ping:
    key: str
    at: ms.Millis


@dataclass(frozen=True)
class Pong:
    key: str
    n: int


service = ms.Service("hidden")
pings = service.input("pings", Ping, key="key", time="at")
pongs = service.output("pongs", Pong, key="key")
kept: list[str] = []


@service.on(pings)
def ping(ctx: ms.Context[None], e: Ping) -> None:
    kept.append(e.key)
    ctx.emit(pongs, Pong(e.key, len(kept)))

"""Services that read what they cause: a periodic timer that sends a poll to its own topic, and one without end."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms

HOUR = 3_600_000


@dataclass(frozen=True)
class Poll:
    id: str
    left: int  # waits of an hour after each other; below 0: without end
    at: ms.Millis


@dataclass(frozen=True)
class Seen:
    id: str
    left: int


@dataclass
class Waiting:
    left: int = 0


service = ms.Service("polling")
polls = service.input("polls", Poll, key="id", time="at")
more = service.output("polls", Poll, key="id")
seen = service.output("seen", Seen, key="id")
waiting = service.value("waiting", Waiting)
hour = service.timer("hour")


@service.on(polls, waiting)
def take(ctx: ms.Context[None], e: Poll, waiting: Waiting) -> None:
    ctx.emit(seen, Seen(e.id, e.left))
    waiting.left = e.left
    if e.left:
        ctx.at(hour, ctx.now + HOUR)


@service.on(hour, waiting)
def ask(ctx: ms.Context[None], waiting: Waiting) -> None:
    ctx.emit(more, Poll(ctx.key, waiting.left - 1, ctx.now))
    if waiting.left < 0:
        ctx.at(hour, ctx.now + HOUR)


echo = ms.Service("echo")
heard = echo.input("echoes", Poll, key="id", time="at")
echoed = echo.output("echoes", Poll, key="id")


@echo.on(heard)
def repeat(ctx: ms.Context[None], e: Poll) -> None:
    ctx.emit(echoed, e)

"""A service that is made from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class Came:
    who: str
    at: ms.Millis


@dataclass(frozen=True)
class Greeted:
    who: str
    words: str


@dataclass(frozen=True)
class Ignored:
    who: str


@dataclass(frozen=True)
class Door:
    topic: str
    rank: int = 0
    greets: bool = True


@dataclass(frozen=True)
class Config:
    doors: tuple[Door, ...] = (Door("front"),)
    words: str = "hello"
    style: Literal["plain", "loud"] = "plain"
    wait_ms: int = 60_000
    keep_ms: int | None = None


def greeter(config: Config) -> ms.Service[Config]:
    service = ms.Service("greeter", rules=config)
    greeted = service.output("greeted", Greeted, key="who", format="json")
    ignored = service.output("greeted", Ignored, key="who", format="json")
    if config.wait_ms <= 0:
        service.fail(f"wait={config.wait_ms} ms.", "give a time above 0.")
    for door in config.doors:
        came = service.input(door.topic, Came, key="who", time="at", rank=door.rank, format="json")

        @service.on(came)
        def greet(ctx: ms.Context[Config], e: Came, door: Door = door) -> None:
            words = ctx.rules.words.upper() if ctx.rules.style == "loud" else ctx.rules.words
            if door.greets:
                ctx.emit(greeted, Greeted(e.who, words))
            else:
                ctx.emit(ignored, Ignored(e.who))

    return service


def no_config() -> None: ...


def other_rules(config: Config) -> ms.Service[Config]:
    return ms.Service("greeter", rules=Config())

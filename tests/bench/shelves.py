"""A service with maps: a key fills a shelf with entries, and may touch one of them later."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Filled:
    shelf: str
    first: int
    n: int
    happened_at: ms.Millis


@dataclass(frozen=True)
class Touched:
    shelf: str
    number: int
    happened_at: ms.Millis


@dataclass(frozen=True)
class Done:
    shelf: str
    n: int


@dataclass
class Thing:
    n: int
    text: str = "as long as things mostly are"


service = ms.Service("shelves")
filled = service.input("shelves-in", Filled, key="shelf", time="happened_at", format="json")
touched = service.input("shelves-in", Touched, key="shelf", time="happened_at", format="json")
done = service.output("shelves-out", Done, key="shelf", format="json")
things = service.map("things", Thing)


def id_of(number: int) -> str:
    return f"{number:08}"


@service.on(filled, things)
def fill(ctx: ms.Context[None], e: Filled, things: ms.Entries[Thing]) -> None:
    for number in range(e.first, e.first + e.n):
        things.put(id_of(number), Thing(number))
    ctx.emit(done, Done(ctx.key, e.n))


@service.on(touched, things)
def touch(ctx: ms.Context[None], e: Touched, things: ms.Entries[Thing]) -> None:
    thing = things.get(id_of(e.number))
    assert thing is not None
    thing.n += 1
    ctx.emit(done, Done(ctx.key, 1))

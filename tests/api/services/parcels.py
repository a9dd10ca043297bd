"""Prices and scans in arrival order, and orders in event time. A parcel that is not scanned for ten seconds is gone."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms

WAIT_MS = 10_000


@dataclass(frozen=True)
class Priced:
    parcel: str
    number: int


@dataclass(frozen=True)
class Scanned:
    parcel: str
    number: int


@dataclass(frozen=True)
class Ordered:
    parcel: str
    number: int
    at: ms.Millis


@dataclass(frozen=True)
class Seen:
    """A step of a parcel."""

    parcel: str
    what: str  # which record or timer
    now: ms.Millis
    late: bool
    before: int  # how many steps of the parcel came before


@dataclass
class Parcel:
    steps: int = 0


service = ms.Service("parcels")
prices = service.input("prices", Priced, key="parcel", time=ms.arrival)
scans = service.input("scans", Scanned, key="parcel", time=ms.arrival)
orders = service.input("orders", Ordered, key="parcel", time="at")
seen = service.output("seen", Seen, key="parcel")
parcel = service.value("parcel", Parcel)
gone = service.timer("gone")


@service.on(prices | scans | orders, parcel)
def take(ctx: ms.Context[None], e: Priced | Scanned | Ordered, parcel: Parcel) -> None:
    _tell(ctx, f"{type(e).__name__} {e.number}", parcel)
    if isinstance(e, Scanned):
        ctx.at(gone, ctx.now + WAIT_MS)


@service.on(gone, parcel)
def is_gone(ctx: ms.Context[None], parcel: Parcel) -> None:
    _tell(ctx, "gone", parcel)


def _tell(ctx: ms.Context[None], what: str, parcel: Parcel) -> None:
    ctx.emit(seen, Seen(ctx.key, what, ctx.now, ctx.late, parcel.steps))
    parcel.steps += 1

"""A service with an index of each kind: of values and maps, ordered, of several values, of what expires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import moneystate as ms


@dataclass(frozen=True)
class Moved:
    seller: str
    country: str
    score: int
    at: ms.Millis


@dataclass(frozen=True)
class Offered:
    """An offer of a seller."""

    seller: str
    item: str
    cents: int  # 0: withdrawn
    tags: list[str]
    at: ms.Millis


@dataclass
class Seller:
    country: Annotated[str, ms.personal] = ""
    score: int = 0


@dataclass
class Offer:
    item: str
    cents: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Look:
    score: int = 0


@dataclass(frozen=True)
class Rules:
    keep_ms: int = 10_000


service = ms.Service("market", rules=Rules())
moved = service.input("moved", Moved, key="seller", time="at")
offered = service.input("offered", Offered, key="seller", time="at")
seller = service.value("seller", Seller)
offers = service.map("offers", Offer)
last = service.value("last", Look, ttl_ms=lambda rules: rules.keep_ms)
looks = service.map("looks", Look, ttl_ms=lambda rules: rules.keep_ms)

by_country = service.index("by_country", seller, lambda s: s.country or None)
by_score = service.index("by_score", seller, lambda s: s.score)
by_price = service.index("by_price", offers, lambda o: (o.item, o.cents))
by_tag = service.index("by_tag", offers, lambda o: o.tags)
by_last = service.index("by_last", last, lambda look: look.score)
by_look = service.index("by_look", looks, lambda look: (look.score,))


@service.on(moved, seller, last)
def move(ctx: ms.Context[Rules], e: Moved, seller: Seller, last: Look) -> None:
    seller.country, seller.score, last.score = e.country, e.score, e.score


@service.on(offered, seller, offers, looks)
def offer(
    ctx: ms.Context[Rules], e: Offered, seller: Seller, offers: ms.Entries[Offer], looks: ms.Entries[Look]
) -> None:
    if e.cents == 0:
        offers.delete(e.item)
    else:
        offers.put(e.item, Offer(e.item[:1], e.cents, list(e.tags)))
        looks.put(e.item, Look(seller.score))


@dataclass(frozen=True)
class Cheapest:
    seller: str
    item: str
    cents: int


@service.query
def cheapest(view: ms.View, item: str, most: int = 3) -> list[Cheapest]:
    """The cheapest offers of an item."""
    offers = (Cheapest(seller, id, offer.cents) for seller, id, offer in view.find(by_price, (item,)))
    return ms.first(offers, most, "most")


@service.query
def scored(view: ms.View, score: int) -> list[Seller]:
    """The sellers with a score."""
    return [seller for _, seller in view.find(by_score, score)]


@service.query
def sellers(view: ms.View, country: str, best: bool = False) -> list[Seller]:
    """The sellers of a country, `best`: only those with a score above 0."""
    return [seller for _, seller in view.find(by_country, country) if seller.score > 0 or not best]

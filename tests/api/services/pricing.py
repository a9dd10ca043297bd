"""Orders priced by tables: prices by article, discounts by group and country, and the customer's own limit."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms

HISTORY_MS = 20_000


@dataclass(frozen=True)
class Price:
    sku: str
    cents: int
    valid_from: ms.Millis | None = None


@dataclass
class Discount:
    group: int
    country: str
    percents: list[int]  # not frozen: each step gets a row of its own


@dataclass(frozen=True)
class Limit:
    most: int
    valid_from: ms.Millis | None = None


@dataclass
class Placed:
    order: int
    customer: str
    sku: str
    group: int
    country: str
    at: ms.Millis


@dataclass
class Priced:
    order: int
    customer: str
    now: ms.Millis
    cents: int | None
    then: int | None  # by the history, as of the event's own time
    percents: list[int] | None
    most: int | None
    alike: list[str]  # articles of the same price
    groups: list[str]  # keys of the country's discounts
    by_timer: bool = False


@dataclass
class Limited:
    customer: str
    most: int | None
    now: ms.Millis


@dataclass
class Last:
    order: int = 0
    sku: str = ""


service = ms.Service("pricing")
placed = service.input("orders", Placed, key="customer", time="at")
prices = service.table("prices", Price, key="sku", valid_from="valid_from", history_ms=HISTORY_MS)
discounts = service.table("group-discounts", Discount, key=("group", "country"))
limits = service.table("limits", Limit, valid_from="valid_from", local=True)
priced = service.output("priced", Priced, key="customer")
limited = service.output("limited", Limited, key="customer")
last = service.value("last", Last)
reminder = service.timer("reminder")
by_cents = service.index("by_cents", of=prices, by=lambda p: p.cents)
by_country = service.index("by_country", of=discounts, by=lambda d: d.country)


@service.on(placed, last, prices, discounts, limits)
def price(
    ctx: ms.Context[None], e: Placed, last: Last, prices: ms.Table[Price], discounts: ms.Table[Discount],
    limits: ms.Table[Limit],
) -> None:  # fmt: skip
    last.order, last.sku = e.order, e.sku
    ctx.at(reminder, ctx.now + 7_000)
    row, then = prices.get(e.sku), prices.get(e.sku, at=e.at)
    discount, limit = discounts.get((e.group, e.country)), limits.get(e.customer)
    percents = None if discount is None else discount.percents
    cents = None if row is None else row.cents
    most = None if limit is None else limit.most
    alike = [] if row is None else [sku for sku, _ in prices.find(by_cents, row.cents)]
    groups = [key for key, _ in discounts.find(by_country, e.country)]
    was = None if then is None else then.cents
    ctx.emit(priced, Priced(e.order, ctx.key, ctx.now, cents, was, percents, most, alike, groups))
    if discount is not None:
        discount.percents.append(99)  # nobody else sees it


@service.on(reminder, last, prices)
def remind(ctx: ms.Context[None], last: Last, prices: ms.Table[Price]) -> None:
    cents = prices[last.sku].cents if last.sku in prices else None
    ctx.emit(priced, Priced(last.order, ctx.key, ctx.now, cents, None, None, None, [], [], by_timer=True))


@service.on(limits.changed)
def limit_changed(ctx: ms.Context[None], limit: Limit | None) -> None:
    ctx.emit(limited, Limited(ctx.key, None if limit is None else limit.most, ctx.now))

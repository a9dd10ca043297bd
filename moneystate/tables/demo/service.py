"""Orders meet the price of their article and the discount of their customer, as these were when the order came."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Order:
    order: str
    sku: str
    customer: str


@dataclass(frozen=True)
class Price:
    sku: str
    cents: int
    version: int


@dataclass(frozen=True)
class Discount:
    customer: str
    percent: int
    version: int


@dataclass(frozen=True)
class Priced:
    order: str
    cents: int | None  # None: the article has no price
    price_version: int | None
    percent: int | None
    discount_version: int | None


pricing = ms.Service("pricing")
orders = pricing.input("orders", Order, key="order", time=ms.arrival, format="json")
prices = pricing.table("prices", Price)
discounts = pricing.table("discounts", Discount)
priced = pricing.output("priced", Priced, key="order", format="json")


@pricing.on(orders, prices, discounts)
def price(ctx: ms.Context[None], e: Order, prices: ms.Table[Price], discounts: ms.Table[Discount]) -> None:
    """Any step reads any row, as it holds at the time of the step."""
    price, discount = prices.get(e.sku), discounts.get(e.customer)
    ctx.emit(
        priced,
        Priced(
            e.order,
            None if price is None else price.cents * (100 - (discount.percent if discount else 0)) // 100,
            price.version if price else None,
            discount.percent if discount else None,
            discount.version if discount else None,
        ),
    )

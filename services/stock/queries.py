"""The queries of the ledger, at any version or time."""

from __future__ import annotations

from typing import Any, Final

import moneystate as ms
from services.stock.ledger import hold_prefix, level, nothing_of
from services.stock.records import Hold, Reservation, Sku, StockLevel

LIMIT: Final = 1_000


def declare_queries(
    service: ms.Service[Any], skus: ms.Map[Sku], reservations: ms.Map[Reservation], ended: ms.Map[Reservation],
    holds: ms.Map[Hold],
) -> None:  # fmt: skip
    queries = Queries(service, skus, reservations, ended, holds)
    service.query(queries.available)
    service.query(queries.stock)
    service.query(queries.reservation)
    service.query(queries.reservations_of_order)
    service.query(queries.reservations_of_sku)
    service.query(queries.reservations_due)


class Queries:
    def __init__(
        self, service: ms.Service[Any], skus: ms.Map[Sku], reservations: ms.Map[Reservation],
        ended: ms.Map[Reservation], holds: ms.Map[Hold],
    ) -> None:  # fmt: skip
        self.skus, self.reservations, self.ended, self.holds = skus, reservations, ended, holds
        self.by_order = service.index("by_order", reservations, lambda r: r.order_id)
        self.ended_by_order = service.index("ended_by_order", ended, lambda r: r.order_id)
        self.by_due = service.index("by_due", reservations, lambda r: (r.pool, r.expires_at))

    def available(self, view: ms.View, pool: str, sku: str) -> StockLevel:
        its = view.entry(self.skus, pool, sku)
        return level(pool, sku, its or nothing_of())

    def stock(self, view: ms.View, pool: str, prefix: str = "", limit: int = LIMIT) -> list[StockLevel]:
        """Lists the levels of a pool's skus that begin with `prefix`, in order."""
        return [level(pool, sku, its) for sku, its in ms.first(view.entries(self.skus, pool, prefix), limit)]

    def reservation(self, view: ms.View, pool: str, id: str) -> Reservation | None:
        return view.entry(self.reservations, pool, id) or view.entry(self.ended, pool, id)

    def reservations_of_order(self, view: ms.View, order_id: str) -> list[Reservation]:
        """Lists the reservations of an order in all pools; the open ones first."""
        return [its for index in (self.by_order, self.ended_by_order) for _, _, its in view.find(index, order_id)]

    def reservations_of_sku(self, view: ms.View, pool: str, sku: str, limit: int = LIMIT) -> list[Reservation]:
        """Open ones that hold the sku, the oldest first."""
        ids = [hold.reservation_id for _, hold in ms.first(view.entries(self.holds, pool, hold_prefix(sku)), limit)]
        return [its for its in [view.entry(self.reservations, pool, id) for id in ids] if its is not None]

    def reservations_due(
        self, view: ms.View, pool: str, before: int, since: int = 0, limit: int = LIMIT
    ) -> list[Reservation]:
        """Open ones that expire from `since` to `before` (left out), in ms, the first first."""
        return [its for _, _, its in ms.first(view.range(self.by_due, (pool, since), (pool, before)), limit)]

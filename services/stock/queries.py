"""The queries of the ledger, at any version or time."""

from __future__ import annotations

from typing import Any, Final

import moneystate as ms
from services.stock.ledger import hold_prefix, level, nothing_of
from services.stock.records import Hold, Reservation, Sku, StockLevel

LIMIT: Final = 1_000


def declare(
    service: ms.Service[Any], skus: ms.Map[Sku], reservations: ms.Map[Reservation], ended: ms.Map[Reservation],
    holds: ms.Map[Hold],
) -> None:  # fmt: skip
    by_order = service.index("by_order", reservations, lambda r: r.order_id)
    ended_by_order = service.index("ended_by_order", ended, lambda r: r.order_id)
    by_due = service.index("by_due", reservations, lambda r: (r.pool, r.expires_at))

    @service.query
    def available(view: ms.View, pool: str, sku: str) -> StockLevel:
        its = view.entry(skus, pool, sku)
        return level(pool, sku, its or nothing_of())

    @service.query
    def stock(view: ms.View, pool: str, prefix: str = "", limit: int = LIMIT) -> list[StockLevel]:
        """Lists the levels of a pool's skus that begin with `prefix`, in order."""
        return [level(pool, sku, its) for sku, its in ms.first(view.entries(skus, pool, prefix), limit)]

    @service.query
    def reservation(view: ms.View, pool: str, id: str) -> Reservation | None:
        return view.entry(reservations, pool, id) or view.entry(ended, pool, id)

    @service.query
    def reservations_of_order(view: ms.View, order_id: str) -> list[Reservation]:
        """Lists the reservations of an order in all pools; the open ones first."""
        return [its for index in (by_order, ended_by_order) for _, _, its in view.find(index, order_id)]

    @service.query
    def reservations_of_sku(view: ms.View, pool: str, sku: str, limit: int = LIMIT) -> list[Reservation]:
        """Open ones that hold the sku, the oldest first."""
        ids = [hold.reservation_id for _, hold in ms.first(view.entries(holds, pool, hold_prefix(sku)), limit)]
        return [its for its in [view.entry(reservations, pool, id) for id in ids] if its is not None]

    @service.query
    def reservations_due(
        view: ms.View, pool: str, before: int, since: int = 0, limit: int = LIMIT
    ) -> list[Reservation]:
        """Open ones that expire from `since` to `before` (left out), in ms, the first first."""
        return [its for _, _, its in ms.first(view.range(by_due, (pool, since), (pool, before)), limit)]

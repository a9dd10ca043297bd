"""Customers at random, who order from several pools and then confirm, cancel or do nothing, while stock is counted."""

from __future__ import annotations

import random
from typing import Any, Final

from services.stock.records import Count, OrderCancelled, OrderConfirmed, OrderLine, OrderPlaced
from tests.services.stock.workload import START

POOLS: Final = ("north", "south", "west")
SKUS: Final = ("a", "b", "c")


class Customers:
    """What is sent: counts, orders, and what customers decide, in the order of time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.number = 0
        self.orders: list[OrderPlaced] = []

    def chunk(self) -> list[Any]:
        """Between two looks at the results."""
        return [record for _ in range(self.chance.randint(1, 6)) for record in self._some()]

    def _some(self) -> list[Any]:
        self.now += self._one(0, 1, 5, 30, 100, rarely=1_600)
        self.number += 1
        kind = self.chance.random()
        if kind < 0.22 or not self.number % 50:
            return [self._count(self.chance.choice(POOLS), self._one(2, 6, 9, 15, rarely=0))]
        if kind < 0.6 or not self.orders:
            return [self._order()]
        order = self.chance.choice(self.orders[-5:])
        time = self.now - self._one(0, 0, 0, rarely=50)
        if kind < 0.7:  # its Confirm comes too late for one of its pools
            lost = [self._count(line.pool, 0, line.sku) for line in order.lines[:1]]
            return [OrderConfirmed(order.order_id, time), *lost]
        decision: Any = self.chance.choice((OrderConfirmed, OrderConfirmed, OrderCancelled))
        return [decision("nobody" if self.chance.random() < 0.05 else order.order_id, time)]

    def _count(self, pool: str, on_hand: int, sku: str = "") -> Count:
        self.number += 1
        return Count(f"n{self.number}", pool, self.now, sku or self.chance.choice(SKUS), on_hand)

    def _order(self) -> OrderPlaced:
        lines = [
            OrderLine(self.chance.choice(SKUS), self._one(1, 1, 2, rarely=4), self.chance.choice(POOLS))
            for _ in range(self._one(1, 2, 2, 3, rarely=0))
        ]
        again = self.orders and self.chance.random() < 0.1
        id = self.chance.choice(self.orders[-20:]).order_id if again else f"o{self.number}"
        self.orders.append(OrderPlaced(id, lines, self._one(60, 400, 900, 900, rarely=0), self.now))
        return self.orders[-1]

    def _one(self, *often: int, rarely: int) -> int:
        return rarely if self.chance.random() < 0.04 else self.chance.choice(often)

"""Ledger and saga together give what their references give, for the commands as they stand in the log."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

from moneystate.engine.avro import HEADER_BYTES
from moneystate.testing import CRASH, Bench
from moneystate.testing.run import Sent
from services.stock.config import Config
from services.stock.order_records import OrderCancelled, OrderConfirmed, OrderLine, OrderPlaced
from services.stock.orders import OrdersService
from services.stock.records import Count
from services.stock.service import StockService
from tests.services.stock.auditor import Auditor
from tests.services.stock.orders_reference import Orders
from tests.services.stock.reference import Beat, Ledger
from tests.services.stock.workload import START

POOLS = ("north", "south", "west")
SKUS = ("a", "b", "c")
SEEDS = range(8)
CHUNKS = 35
CONFIG = Config(command_retention_ms=2_000, reservation_retention_ms=3_000, order_retention_ms=1_500, format="avro")


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


def logs_of(bench: Bench, name: str, topic: str) -> list[list[Any]]:
    """By partition: the records of a topic as they stand in a service's log, with heartbeats."""
    member = bench._of(name)
    code = member.topics[topic].code
    logs: dict[int, list[Any]] = {}
    for sent in member.log:
        if not isinstance(sent, Sent) or sent.topic != code:
            continue
        value = (sent.whole.value if sent.whole is not None else None) or sent.value
        plan = member.plan.inputs[code].get(value[:HEADER_BYTES])
        record = Beat(member.plan.heartbeat.decode(value).processed_at) if plan is None else plan.codec.decode(value)
        logs.setdefault(sent.partition, []).append(record)
    return [logs.get(partition, []) for partition in range(max(logs) + 1)]


@cache
def check(seed: int) -> Orders:
    chance = random.Random(seed)
    ledger, saga = StockService(CONFIG), OrdersService(CONFIG)
    bench = Bench(ledger.service, saga.service, seed=seed, partitions=chance.choice((1, 2)))
    customers = Customers(seed)
    for _ in range(CHUNKS):
        bench.send(*customers.chunk())
        if chance.random() < 0.1:
            bench.send(CRASH)
        bench.out(saga.results)
    bench.end()
    its = Ledger(CONFIG.command_retention_ms, CONFIG.reservation_retention_ms)
    its.run(logs_of(bench, "stock", "stock-commands"))
    orders = Orders(CONFIG.order_retention_ms).run(logs_of(bench, "stock-orders", "orders"), its.timed)
    outputs = bench.out(*ledger.events.values(), ledger.replies)
    Auditor().audit(outputs)
    assert bench.out(ledger.replies) == its.replies
    assert bench.out(*ledger.events.values()) == its.events
    assert bench.out(saga.results) == orders.results
    assert bench.out(*saga.commands.values()) == orders.commands
    assert bench.count("known_orders") + bench.count("ignored_decisions") == orders.counted
    assert bench.dead_letters() == []
    return orders


@pytest.mark.parametrize("seed", SEEDS)
def test_random_orders(seed: int) -> None:
    check(seed)


def test_the_random_orders_reach_every_end() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        orders = check(seed)
        seen.update(f"{result.status} {result.reason}" for result in orders.results)
        seen.update("confirmed in part" for r in orders.results if r.status == "LOST" and r.confirmed)
        seen.update("cancelled on acceptance" for _ in orders.late_cancels)
        seen["counted"] += orders.counted
    ends = (
        "HELD None, CANCELLED None, CONFIRMED None, REJECTED INSUFFICIENT, REJECTED INVALID, LOST EXPIRED, "
        "LOST SHORTAGE, LOST ALREADY_EXPIRED, LOST ALREADY_CANCELLED, confirmed in part, cancelled on acceptance, "
        "counted"
    )
    assert {end for end in ends.split(", ") if not seen[end]} == set(), seen

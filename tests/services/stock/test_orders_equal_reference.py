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
from services.stock.orders import OrdersService
from services.stock.service import StockService
from tests.services.stock.auditor import Auditor
from tests.services.stock.customers import Customers
from tests.services.stock.orders_reference import Orders
from tests.services.stock.reference import Beat, Ledger

SEEDS = range(8)
CHUNKS = 35
CONFIG = Config(command_retention_ms=2_000, reservation_retention_ms=3_000, order_retention_ms=1_500, format="avro")


def logs_of(bench: Bench, name: str, topic: str) -> list[list[Any]]:
    """Returns, by partition, the records of a topic as they stand in a service's log, with heartbeats."""
    member = bench._member(name)
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
    assert bench.dead_letters(ledger.service) == []
    assert Counter(bench.dead_letters(saga.service)) == Counter(orders.letters)
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
        seen.update(orders.letters)
    ends = (
        "HELD None, CANCELLED None, CONFIRMED None, REJECTED INSUFFICIENT, REJECTED INVALID, LOST EXPIRED, "
        "LOST SHORTAGE, LOST ALREADY_EXPIRED, LOST ALREADY_CANCELLED, confirmed in part, cancelled on acceptance, "
        "counted, unknown_order, order_conflict"
    )
    assert {end for end in ends.split(", ") if not seen[end]} == set(), seen

"""Many orders at once: nothing is oversold, and nothing is refused while it is there."""

from __future__ import annotations

import random
from collections import Counter
from itertools import accumulate
from typing import Any

from moneystate.testing import CRASH, Bench
from services.stock.config import Config
from services.stock.records import Adjusted, Confirm, Count, Line, Reserve, StockReply
from services.stock.service import StockService
from tests.services.stock.auditor import Auditor
from tests.services.stock.workload import START

PRODUCERS, SKUS, TTL_MS = 8, 100, 80


def orders(count: int, seed: int) -> list[Any]:
    """From producers that send at the same time and retry what they sent: the most popular skus are short."""
    chance = random.Random(seed)
    weights = list(accumulate(1 / (n + 1) for n in range(SKUS)))
    skus = [f"sku{n}" for n in range(SKUS)]
    sent: list[Any] = [Count(f"n{sku}", pool, START, sku, count // 25) for sku in skus for pool in ("north", "south")]
    recent: list[list[Any]] = [[] for _ in range(PRODUCERS)]
    for number in range(count):
        producer = chance.randrange(PRODUCERS)
        pool, time = chance.choice(("north", "south")), START + number // 4 + producer  # their clocks differ
        lines = [Line(sku, chance.randint(1, 3)) for sku in chance.choices(skus, cum_weights=weights, k=2)]
        recent[producer] = recent[producer][-60:]
        recent[producer].append(Reserve(f"{number}+", pool, time, f"{number}", lines, TTL_MS))
        sent.append(recent[producer][-1])
        while chance.random() < 0.2:
            sent.append(chance.choice(recent[producer]))
        if chance.random() < 0.5:
            paid = chance.choice(recent[producer])
            sent.append(Confirm(f"{paid.reservation_id}=", paid.pool, time, paid.reservation_id))
    return sent


def check_each_refusal(outputs: list[Any]) -> Counter[str]:
    """Each first INSUFFICIENT names what was available, and that is what the events before it have left."""
    available: dict[tuple[str, str], int] = {}
    answered: set[tuple[str, str]] = set()
    seen: Counter[str] = Counter()
    for record in outputs:
        if isinstance(record, StockReply):
            seen[record.reason or record.status] += 1
            assert (record.reason == "INSUFFICIENT") == bool(record.short)
            if (record.pool, record.command_id) not in answered:
                for short in record.short:
                    assert short.available == available[record.pool, short.sku] < short.quantity
            answered.add((record.pool, record.command_id))
            continue
        seen[type(record).__name__] += 1
        for line in [record] if isinstance(record, Adjusted) else record.lines:
            available[record.pool, line.sku] = line.on_hand - line.reserved
    return seen


def test_nothing_is_oversold_and_nothing_refused_while_it_is_there() -> None:
    sent = orders(1_500, 1)
    ledger = StockService(Config())
    bench = Bench(ledger.service, seed=1, partitions=2)
    for number in range(0, len(sent), 250):
        bench.send(*sent[number : number + 250], CRASH)
    bench.end()
    outputs = bench.out(*ledger.events.values(), ledger.replies)
    Auditor().audit(outputs)
    seen = check_each_refusal(outputs)
    assert min(seen[name] for name in ("Reserved", "Confirmed", "Expired", "INSUFFICIENT", "ALREADY_EXPIRED")) > 50
    assert len(bench.out(ledger.replies)) == len(sent)


def largest_records(reservations: int) -> tuple[int, int]:
    """Measures the state of one pool, the platform's own entries included, and of the outputs."""
    ledger = StockService(Config())
    bench = Bench(ledger.service, key_groups=1, cuts="one")
    skus = [f"sku{n}" for n in range(reservations)]
    bench.send(*[Count(f"n{sku}", "p", START, sku, 9) for sku in skus])
    for n, sku in enumerate(skus):
        lines, ttl_ms = [Line(sku, 1), Line(skus[n // 2], 1)], 600_000 + 97 * (n % 1_000)
        bench.send(Reserve(f"{n}+", "p", START + n % 1_000, f"{n}", lines, ttl_ms))
    assert bench.ask(ledger.service.queries["available"], "p", skus[-1]).reserved == 1
    assert len(bench.state(ledger.reservations, "p")) == reservations
    state = bench.run.sim.states[0].entries
    return max(map(len, state.values())), max(len(caused.value or b"") for caused in bench.run.caused)


def test_no_record_grows_with_the_pool() -> None:
    """What is in one record does not depend on how many skus and open reservations the pool has."""
    few, many = largest_records(500), largest_records(2_000)
    assert max(few[1], many[1]) < 200
    assert max(few[0], many[0]) < 20_000  # a full chunk of the buffer of timers
    assert many[0] < 2 * few[0]

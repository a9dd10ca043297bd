"""The ledger gives what the reference gives, in any batches and after crashes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from moneystate.testing import CRASH, Bench
from services.stock.config import Config
from services.stock.records import Cancelled, Command, Confirm, Count, Line, Reserve, StockReply
from services.stock.service import StockService
from tests.services.stock.auditor import Auditor
from tests.services.stock.reference import Ledger
from tests.services.stock.workload import POOLS, SHORT, START, Workload

PARTITIONS = 2


def partitions_of(commands: list[Command]) -> list[list[Command]]:
    """As `Bench` spreads them."""
    logs: list[list[Command]] = [[] for _ in range(PARTITIONS)]
    for command in commands:
        logs[sum(command.pool.encode()) % PARTITIONS].append(command)
    return logs


def reference(commands: list[Command], config: Config = SHORT) -> Ledger:
    return Ledger(config.command_retention_ms, config.reservation_retention_ms).run(partitions_of(commands))


def bench_of(commands: list[Command], seed: int, config: Config = SHORT) -> tuple[StockService, Bench]:
    made = StockService(config)
    bench = Bench(made.service, bound_ms=0, seed=seed, partitions=PARTITIONS)
    chance = random.Random(seed)
    for command in commands:
        bench.send(command)
        if chance.random() < 0.02:
            bench.send(CRASH)
    return made, bench


def check_equal(commands: list[Command], seed: int, config: Config = SHORT) -> Ledger:
    expected = reference(commands, config)
    made, bench = bench_of(commands, seed, config)
    bench.end()
    Auditor().audit(bench.out(*made.events.values(), made.replies))
    assert bench.out(*made.events.values()) == expected.events
    assert bench.out(made.replies) == expected.replies
    assert bench.out(made.levels) == expected.levels
    assert bench.dead_letters() == []
    assert set(kinds_of_entries(bench)) <= {b"m\x04skus"}
    return expected


def kinds_of_entries(bench: Bench) -> list[bytes]:
    return [key[: 2 + key[1]] for key, _ in bench.entries()]


@pytest.mark.parametrize("seed", range(12))
def test_random_commands(seed: int) -> None:
    check_equal(Workload(seed).commands(250), seed)


@pytest.mark.parametrize("seed", range(6))
def test_the_state_is_that_of_the_reference_at_any_time(seed: int) -> None:
    commands = Workload(seed).commands(120 + 10 * seed)
    made, bench = bench_of(commands, seed)
    expected = Ledger(SHORT.command_retention_ms, SHORT.reservation_retention_ms)
    expected.run(partitions_of(commands), end=False)
    expected.expire_before(max(command.time for command in commands) + 1)
    for pool in POOLS:
        held = [h for h in expected.held if h.pool == pool and h.status == "OPEN"]
        skus = bench.state(made.skus, pool)
        assert {sku: (s.on_hand, s.reserved) for sku, s in skus.items()} == {
            sku: (expected.on_hand(pool, sku), expected.reserved(pool, sku))
            for sku in {change.sku for change in expected.changes if change.pool == pool}
        }
        reservations = bench.state(made.reservations, pool)
        assert {id: r.expires_at for id, r in reservations.items()} == {h.id: h.due for h in held}
        holds = bench.state(made.holds, pool)
        assert sorted((id.rsplit(":", 1)[0], hold.reservation_id) for id, hold in holds.items()) == sorted(
            (f"{len(sku)}:{sku}", h.id) for h in held for sku in h.lines
        )


def test_a_thousand_lines() -> None:
    """A Reserve of 1,000 skus, of which one is short, and one of 1,001."""
    skus = [f"s{n}" for n in range(1_001)]
    lines = [Line(sku, 2) for sku in skus]
    commands: list[Command] = [Count(f"n{sku}", "p", START, sku, 5) for sku in skus]
    commands += [
        Reserve("r1", "p", START, "1", lines[:1000], 50),
        Reserve("r2", "p", START, "2", [*lines[:999], Line("s1000", 6)], 50, policy="PARTIAL"),
        Reserve("r3", "p", START, "3", lines, 50),
        Confirm("o1", "p", START + 1, "1", {"s7": 1}),
        Count("last", "p", START + 2, "s9", 1),
    ]
    expected = check_equal(commands, 1)
    assert [(r.reason, len(r.lines), len(r.short)) for r in expected.replies[1_001:]] == [
        (None, 1_000, 0), (None, 1_000, 1), ("INVALID", 0, 0), (None, 0, 0), (None, 0, 0)
    ]  # fmt: skip


def test_the_random_commands_reach_every_rule() -> None:
    seen: Counter[Any] = Counter()
    for seed in range(12):
        expected = reference(Workload(seed).commands(250))
        seen.update(type(event).__name__ for event in expected.events)
        seen.update(f"{reply.status} {reply.reason}" for reply in expected.replies)
        seen.update("SHORTAGE" for e in expected.events if isinstance(e, Cancelled) and e.reason == "SHORTAGE")
        seen.update("PARTIAL" for r in expected.replies if r.lines and r.short)
        seen["repeated"] += repeated(expected.replies)
    rejected = (
        "INVALID ID_CONFLICT STALE RESERVATION_EXISTS INSUFFICIENT MORE_THAN_HELD NOT_FOUND ALREADY_CONFIRMED "
        "ALREADY_CANCELLED ALREADY_EXPIRED BELOW_RESERVED"
    )
    outcomes = [f"REJECTED {reason}" for reason in rejected.split()] + ["ACCEPTED None", "SHORTAGE", "PARTIAL"]
    outcomes += ["Reserved", "Confirmed", "Cancelled", "Expired", "Adjusted", "repeated"]
    assert {outcome for outcome in outcomes if seen[outcome] < 10} == set(), seen


def repeated(replies: list[StockReply]) -> int:
    return sum(n - 1 for n in Counter(map(repr, replies)).values())

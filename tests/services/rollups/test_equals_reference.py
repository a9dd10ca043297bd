"""Rollups are held to their reference on random logs, in any batches and after crashes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from moneystate.testing import CRASH, Bench
from services.rollups.records import Forget, Remove
from services.rollups.service import rollups
from tests.budget import examples
from tests.services.rollups.reference import Logged, Reference, same
from tests.services.rollups.workload import Case, case_of, records

COUNTS = ("ahead", "too_late", "unverified", "unmatched", "out_of_range", "repeated", "nothing_to_remove")


def run_both(seed: int, count: int = 250) -> tuple[Bench, Reference, Case]:
    chance = random.Random(seed)
    case = case_of(chance)
    partitions = chance.choice((1, 3))
    bench = Bench(rollups(case.config), seed=seed, partitions=partitions)
    log: list[Logged] = []
    highs: dict[int, int] = {}
    by_at = case.config.order == "at"
    for now, record in records(chance, case, count, commands=not by_at):
        if by_at:
            partition = sum(record.device_id.encode()) % partitions
            high = highs.get(partition, record.at)
            log.append(Logged(max(record.at, high - case.config.readings_bound_ms), record))
            highs[partition] = max(high, record.at)
            bench.send(record)
        else:
            log.append(Logged(now, record))
            bench.send(record, arrival_ms=now)
        bench.send(*[CRASH] * (chance.random() < 0.01))
    bench.end()
    reference = Reference(case.rules)
    reference.run(in_order(log))
    return bench, reference, case


def in_order(log: list[Logged]) -> list[Logged]:
    """At one time, readings come before commands, and removals are of the same topic as what forgets."""
    ranked = [(one.time, isinstance(one.record, (Remove, Forget)), n, one) for n, one in enumerate(log)]
    return [one for _, _, _, one in sorted(ranked, key=lambda its: its[:3])]


def outputs(bench: Bench) -> dict[tuple[str, str], list[Any]]:
    result: dict[tuple[str, str], list[Any]] = {}
    for output in bench.service.outputs:
        for key, record in bench.keyed(output):
            result.setdefault((output.topic.removeprefix("rollups-"), key), []).append(record)
    return result


def compare(bench: Bench, reference: Reference) -> None:
    result = outputs(bench)
    wanted = {(tier, f'["{id}",{start}]'): made for (tier, id, start), made in reference.out.items()}
    assert set(result) == set(wanted)
    for key, made in wanted.items():
        assert len(result[key]) == len(made), key
        assert [same(*pair) for pair in zip(made, result[key], strict=True)] == [""] * len(made), key
    assert {name: bench.count(name) for name in COUNTS} == {name: reference.counts[name] for name in COUNTS}
    assert Counter(bench.dead_letters()) == Counter(reference.letters)


def test_rollups_equal_their_reference() -> None:
    for seed in range(examples(30)):
        bench, reference, _ = run_both(seed)
        compare(bench, reference)
        assert list(bench.entries()) == [], seed

"""The service against the reference, in random batches that also fail and run again."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from moneystate.api.layout import place_of
from moneystate.testing import CRASH, Bench
from services.sequencing.config import Config
from services.sequencing.service import OUTPUTS, sequencing
from tests.services.sequencing import reference
from tests.services.sequencing.reference import Logged, Results
from tests.services.sequencing.workload import BOUND_MS, some_config, some_log

OUTPUT, REQUESTS, FINDINGS = OUTPUTS
SEEDS = 72
RECORDS = 150


def by_stream(bench: Bench, topic: str) -> dict[str, list[Any]]:
    """A topic's records by their keys."""
    records: dict[str, list[Any]] = {}
    for key, record in bench.keyed(*[o for o in bench.service.outputs if o.topic == topic]):
        assert record.stream == key
        records.setdefault(key, []).append(record)
    return records


def run_both(seed: int, records: int = RECORDS) -> tuple[Config, Bench, Results]:
    chance = random.Random(seed)
    config = some_config(chance)
    log = some_log(chance, records)
    partitions = chance.choice((1, 2))
    bench = Bench(sequencing(config), bound_ms=BOUND_MS, seed=seed, partitions=partitions)
    placed = []
    offsets = [0] * partitions
    for record in log:
        bench.send(record)
        partition = record.stream.encode()[0] % partitions
        placed.append(Logged(partition, offsets[partition], record))
        offsets[partition] += 1
        if chance.random() < 0.02:
            bench.send(CRASH)
    bench.end()
    return config, bench, reference.run(placed, BOUND_MS, config)


@pytest.mark.parametrize("part", range(4))
def test_all_results_are_those_of_the_reference(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        config, bench, expected = run_both(seed)
        where = f"seed {seed}, {config}"
        assert by_stream(bench, OUTPUT) == expected.output, where
        assert by_stream(bench, REQUESTS) == expected.requests, where
        assert by_stream(bench, FINDINGS) == expected.findings, where
        assert Counter(bench.dead_letters()) == Counter(reason for _, _, reason in expected.letters), where
        assert bench.count("duplicates") == expected.counts.get("duplicates", 0), where
        assert bench.count("after_close") == expected.counts.get("after_close", 0), where
        owners = {place.owner.decode() for key, _ in bench.entries() if (place := place_of(key))}
        assert owners <= expected.left, where


def test_the_random_logs_reach_every_rule() -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        config, log = some_config(chance), some_log(chance, RECORDS)
        results = reference.run([Logged(0, n, r) for n, r in enumerate(log)], BOUND_MS, config)
        for topic in (results.output, results.requests, results.findings):
            for record in [record for records in topic.values() for record in records]:
                reached[type(record).__name__ + getattr(record, "reason", "")] += 1
                reached["violates"] += bool(getattr(record, "violates", []))
        reached.update(results.counts)
        reached.update(reason for _, _, reason in results.letters)
    few = {name: n for name, n in reached.items() if n < 10}
    assert not few
    assert set(reached) == {
        "Sequenced", "violates", "GapSkipped", "GapVoid", "StreamEnded", "EventsRequested", "SequenceConflict",
        "LateAfterSkip", "AfterClose", "StreamStalled", "StreamParkedgap", "StreamParkedviolation", "HeldLimit",
        "duplicates", "after_close", "out_of_bounds", "already_begun", "last_too_low", "poison",
    }  # fmt: skip

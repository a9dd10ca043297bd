"""The service against the reference, in random batches that also fail and run again. Some records are sent as they
stand in Kafka, in the format of the topic."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from moneystate.runtime.layout import place_of
from moneystate.testing import CRASH, Bench
from services.sequencing.config import Config
from services.sequencing.records import Gap, Poisoned, StreamParked, StreamStalled
from services.sequencing.service import OUTPUTS, sequencing
from tests.services.sequencing import reference
from tests.services.sequencing.reference import Logged, Results
from tests.services.sequencing.workload import BOUND_MS, JUNK, as_json, some_config, some_log

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


def logged(chance: random.Random, config: Config, records: int) -> list[Any]:
    """What does not decode is void in JSON only."""
    made = some_log(chance, records)
    return [record for record in made if config.format == "json" or not isinstance(record, Poisoned)]


def send(bench: Bench, chance: random.Random, config: Config, record: Any) -> None:
    if config.format == "json" and (isinstance(record, Poisoned) or chance.random() < 0.5):
        bench.send_raw("sequenced-input", as_json(record))
    elif config.format == "avro" and chance.random() < 0.5:
        bench.send_raw("sequenced-input", bench.plan.codec(type(record), "").encode(record))
    else:
        bench.send(record)
    if chance.random() < 0.02:
        bench.send(CRASH)


def run_both(seed: int, records: int = RECORDS) -> tuple[Config, Bench, Results]:
    """With junk before all else: a dead letter each, and nothing more."""
    chance = random.Random(seed)
    config = some_config(chance)
    log = logged(chance, config, records)
    partitions = chance.choice((1, 2))
    bench = Bench(sequencing(config), bound_ms=BOUND_MS, seed=seed, partitions=partitions)
    for junk in JUNK:
        bench.send_raw("sequenced-input", junk)
    placed = []
    offsets = [0] * partitions
    for record in log:
        send(bench, chance, config, record)
        partition = record.stream.encode()[0] % partitions
        placed.append(Logged(partition, offsets[partition], record))
        offsets[partition] += 1
    bench.end()
    return config, bench, reference.run(placed, BOUND_MS, config)


def by_age(gap: Gap) -> tuple[int, int, str]:
    return gap.since, gap.from_, gap.stream


def by_reason(parked: StreamParked) -> tuple[str, str]:
    return parked.reason, parked.stream


@pytest.mark.parametrize("part", range(4))
def test_all_results_are_those_of_the_reference(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        config, bench, expected = run_both(seed)
        where = f"seed {seed}, {config}"
        assert by_stream(bench, OUTPUT) == expected.output, where
        assert by_stream(bench, REQUESTS) == expected.requests, where
        assert by_stream(bench, FINDINGS) == expected.findings, where
        letters = [reason for _, _, reason in expected.letters]
        junk = ["malformed" if config.format == "json" else "unknown_schema"] * len(JUNK)
        assert Counter(bench.dead_letters()) == Counter([*letters, *junk]), where
        assert bench.count("duplicates") == expected.counts.get("duplicates", 0), where
        assert bench.count("after_close") == expected.counts.get("after_close", 0), where
        owners = {place.owner.decode() for key, _ in bench.entries() if (place := place_of(key))}
        assert owners <= expected.left, where


def test_queries_answer_with_what_the_reference_has() -> None:
    asked: Counter[str] = Counter()
    for seed in range(32):
        chance = random.Random(seed)
        config = some_config(chance)
        log = logged(chance, config, 60)
        bench = Bench(sequencing(config), bound_ms=BOUND_MS, seed=seed)
        for record in log:
            send(bench, chance, config, record)
        assert bench.latest is not None
        placed = [Logged(0, n, record) for n, record in enumerate(log)]
        open_ = [m for m in reference.models(placed, BOUND_MS, config, bench.latest + 1, Results()) if m.mark is None]
        gaps = [(m.clock[gap[0]], m.stream, gap) for m in open_ for gap in m.gaps()]
        first = {m.stream: (m.clock[gap[0]], gap) for m in open_ if not m.parked for gap in m.gaps()[:1]}
        expected: dict[str, list[Any]] = {
            "gaps": sorted([Gap(stream, gap[0], gap[-1], since) for (since, _, _), stream, gap in gaps], key=by_age),
            "stalled": [StreamStalled(s, gap[0], gap[-1]) for s, ((_, _, stalled), gap) in first.items() if stalled],
            "parked": sorted([StreamParked(m.stream, m.parked) for m in open_ if m.parked], key=by_reason),
        }
        for name, answer in expected.items():
            assert bench.ask(bench.service.queries[name], 1_000) == answer, (seed, config)
            asked[name] += len(answer)
        for m in open_:
            held = [m.held[n] for n in sorted(m.held)]
            assert bench.ask(bench.service.queries["held_events"], m.stream, 1_000) == held, (seed, config)
            asked["held"] += len(held)
    assert min(asked[name] for name in ("gaps", "stalled", "parked", "held")) >= 5, asked


def test_the_random_logs_reach_every_rule() -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        config = some_config(chance)
        log = logged(chance, config, RECORDS)
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
        "LateAfterSkip", "AfterRetention", "AfterClose", "StreamStalled", "StreamParkedgap", "StreamParkedviolation",
        "HeldLimit", "SequenceRestarted", "duplicates", "after_close", "out_of_bounds", "already_begun",
        "already_restarted", "last_too_low", "poison",
    }  # fmt: skip

"""Joining is held to its reference on random logs, in any batches and after crashes. Some records are sent as they
stand in Kafka, in the format of the topic."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pytest

from moneystate.testing import CRASH, Bench
from services.joining.config import Config
from services.joining.service import joining
from tests.services.joining import reference
from tests.services.joining.reference import Logged, Outcome, as_written
from tests.services.joining.workload import SERVICES, as_json, events

PARTITIONS: Final = 2
SHORT: Final = Config(SERVICES, wait_ms=4_000, retention_ms=15_000, tombstones=True)
CONFIGS: Final = (
    SHORT,
    replace(SHORT, expected=("news", "odds"), late_retention_ms=3_000, partial="none", format="avro"),
    Config(SERVICES, ("scores", "odds"), wait_ms=0, retention_ms=5_000, late_retention_ms=0),
    Config(SERVICES, ("video",), wait_ms=9_000, retention_ms=9_500, late_retention_ms=30_000),
)
RULES: Final = {
    "a body after an error", "an error after a body", "newer", "older", "by digest", "duplicate",
    "duplicate that is newer", "duplicate request", "request by digest", "conflict", "part not shown",
    "nothing changed", "silent after the first", "ended", "ended in silence", "cancelled", "cancelled in silence",
    "tombstone", "begun again", "late Part", "late PartsRequested", "late Cancelled", "late in the last moment",
    ">COMPLETE", ">PARTIAL", ">CANCELLED", "PARTIAL>PARTIAL", "PARTIAL>COMPLETE", "PARTIAL>CANCELLED",
    "COMPLETE>COMPLETE", "COMPLETE>PARTIAL", "COMPLETE>CANCELLED",
}  # fmt: skip


def rules(config: Config, bound_ms: int) -> reference.Rules:
    return reference.Rules(
        config.services, config.expected, config.wait_ms, config.retention_ms, config.late_retention_ms,
        config.partial == "emit", config.tombstones, bound_ms,
    )  # fmt: skip


def logged(sent: list[Any]) -> list[Logged]:
    """As the bench appends them to its partitions."""
    ends = Counter[int]()
    log = []
    for event in sent:
        partition = sum(event.id.encode()) % PARTITIONS
        log.append(Logged(partition, ends[partition], event))
        ends[partition] += 1
    return log


def compare(config: Config, bound_ms: int, sent: list[Any], seed: int) -> Outcome:
    chance = random.Random(seed)
    service = joining(config)
    bench = Bench(service, bound_ms=bound_ms, partitions=PARTITIONS, seed=seed)
    for event in sent:
        if chance.random() < 0.5:
            bench.send(event)
        elif config.format == "json":
            bench.send_raw("parts", as_json(event))
        else:
            bench.send_raw("parts", bench.plan.codec(type(event), "").encode(event))
        bench.send(*[CRASH] * (chance.random() < 0.01))
    bench.end()
    want = reference.run(logged(sent), rules(config, bound_ms))
    assert joined(bench) == want.joined
    assert bench.dead_letters() == want.letters
    assert {name: bench.count(name) for name in ("duplicates", "late_parts")} == {
        name: want.counts[name] for name in ("duplicates", "late_parts")
    }
    assert list(bench.entries()) == []
    return want


def joined(bench: Bench) -> dict[str, list[dict[str, Any] | None]]:
    """What was put out of each id, None for a tombstone."""
    (output,) = bench.service.outputs
    codec = bench.plan.outputs[output].codec
    made: dict[str, list[dict[str, Any] | None]] = {}
    for key, record in bench.keyed(output):
        made.setdefault(key, []).append(None if record is None else as_written(codec.to_json(record)))
    return made


@pytest.mark.parametrize("config", CONFIGS)
def test_joining_equals_its_reference(config: Config) -> None:
    for seed in range(6):
        compare(config, (2_000, 8_000)[seed % 2], events(seed, 250, ids=4 + 3 * seed), seed)


def test_the_workload_reaches_all_rules() -> None:
    seen = Counter[str]()
    letters = Counter[str]()
    for config in CONFIGS:
        for seed in range(6):
            sent = logged(events(seed, 250, ids=4 + 3 * seed))
            want = reference.run(sent, rules(config, (2_000, 8_000)[seed % 2]))
            seen.update(want.seen)
            letters.update(want.letters)
    assert {rule for rule, n in seen.items() if n} >= RULES
    assert set(letters) == {"unknown_service", "body_or_error"}

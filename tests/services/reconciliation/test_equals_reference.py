"""Random logs give what the reference over the whole log gives, whatever the batches."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from moneystate.engine.keys import CLOCK
from moneystate.testing import CRASH, Bench
from moneystate.testing.run import Sent
from services.reconciliation.completeness import completeness
from services.reconciliation.records import InventoryItem
from services.reconciliation.service import reconciliation
from tests.services.reconciliation.reference import Logged, Reference
from tests.services.reconciliation.workload import Beat, Workload, config, iso, reference

OUTCOMES = {
    "TOO_LATE", "DUPLICATE", "LOST", "MISSING", "FOUND", "UNEXPECTED", "EXPLAINED", "TIME_MISMATCH",
    "too late after the final record", "T moved to another interval", "matched when expected came",
    "matched when an actual came", "extra that waited", "expected came, some parts were there", "derived",
    "matched by a filtered actual", "due and end at one time", "counts as last written",
    "an interval that is empty again", "pairs of an item: 0", "pairs of an item: 1", "pairs of an item: 2",
    "a side stops and returns",
}  # fmt: skip


def log_of(bench: Bench) -> list[Logged]:
    log = []
    for sent in bench.log:
        if not isinstance(sent, Sent):
            continue
        topic = bench.plan.topics[sent.topic]
        plan = bench.plan.inputs[sent.topic].get(sent.value[:10])
        if plan is None:
            time = bench.plan.heartbeat.decode(sent.value).processed_at
            log.append(Logged(topic, sent.partition, sent.offset, time, None))
        else:
            item = plan.codec.decode(sent.value)
            log.append(Logged(topic, sent.partition, sent.offset, item.event_time, item))
    return log


SEEDS = range(24)
ENOUGH = 3  # times that an outcome is reached


def filled(seed: int) -> Bench:
    bench = Bench(reconciliation(config()), completeness(config()), seed=seed, partitions=2)
    chance = random.Random(seed)
    for topic, partition, record in Workload(seed).lines():
        if isinstance(record, Beat):
            value = bench.run.heartbeat(record.time_ms)
        else:
            value = bench.plan.codec(InventoryItem, "").encode(record)
        bench._append(bench.plan.codes[topic], partition, value)
        if chance.random() < 0.02:
            bench.send(CRASH)
    return bench


@functools.cache
def run(seed: int) -> tuple[Bench, Reference]:
    bench = filled(seed)
    bench.end()
    expected = reference(config())
    expected.run(log_of(bench))
    return bench, expected


def by_key(records: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    keyed = defaultdict(list)
    for key, record in records:
        keyed[key].append(record)
    return keyed


@pytest.mark.parametrize("seed", SEEDS)
def test_findings_and_completeness_are_those_of_the_reference(seed: int) -> None:
    bench, expected = run(seed)
    items, counts = (member.plan.service for member in bench.members)
    assert by_key(bench.keyed(items.outputs[0])) == expected.findings
    intervals = {
        json.dumps([pair, iso(start)], separators=(",", ":")): records
        for (pair, start), records in expected.completeness.items()
    }
    assert by_key(bench.keyed(counts.outputs[0])) == intervals
    for name in ("no_pair", "too_late", "duplicates", "resent"):
        assert bench.count(name) == expected.counts[name], name
    assert [*bench.entries(items), *bench.entries(counts)] == []


def test_the_workload_reaches_every_outcome() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        _, expected = run(seed)
        reached += expected.outcomes
        reached["a side stops and returns"] += any(isinstance(record, Beat) for *_, record in Workload(seed).lines())
    assert {outcome: reached[outcome] for outcome in OUTCOMES if reached[outcome] < ENOUGH} == {}


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_state_is_back_to_nothing_once_m_and_the_retention_have_passed(seed: int) -> None:
    bench = filled(seed)
    items, counts = (member.plan.service for member in bench.members)
    bench.out(items.outputs[0])
    assert [*bench.entries(items)] != []
    assert [*bench.entries(counts)] != []
    latest = max(record.event_time for record in log_of(bench))
    longest = max(pair.o_ms + pair.m_ms + pair.retention_ms for pair in config().pairs)
    bench.send(InventoryItem("elsewhere", "eu", "x", "ACTUAL", latest + longest), to=items.inputs[0])
    bench.out(items.outputs[0])
    stored = {key for member in bench.members for state in member.run.sim.states for key in state.entries}
    assert stored == {CLOCK}  # no item, no count, no timer

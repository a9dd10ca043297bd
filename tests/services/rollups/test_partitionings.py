"""However readings are spread over partitions: the same outputs, and the same state of devices. Timers are left out, as
they name the place of the reading that set them."""

from __future__ import annotations

import random

from moneystate.api.rules import plain
from moneystate.runtime.job import job_spec
from moneystate.runtime.layout import TIMER
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import with_rules
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import Fingerprint, of_facts
from moneystate.testing.run import Run
from moneystate.testing.simulation import Input
from services.rollups.records import Forget, Reading, Remove
from tests.api.test_partitionings import PARTITIONINGS, Spread, by_key, spread
from tests.services.rollups.workload import HOUR, Case, case_of, records

Outputs = dict[tuple[int, bytes | None], list[bytes | None]]  # values by stream and key, in order


def log_of(reference: str, case: Case, chance: random.Random) -> list[Input]:
    """Each arrives at a time of its own."""
    plan = plan_of(reference)
    codes = {topic.name: topic.code for topic in plan.input_topics()}
    made: list[Input] = []
    for number, (now, record) in enumerate(records(chance, case, 160)):
        assert isinstance(record, (Reading, Remove, Forget))
        topic = codes["readings" if isinstance(record, Reading) else "rollups-commands"]
        value = plan.codecs[type(record)].encode(record)
        made.append(Input(topic, 0, 0, now + number, None, value, [], whole=True))
    return made


def result(reference: str, log: Spread, chance: random.Random, end_ms: int) -> tuple[Outputs, int]:
    job, plan = job_spec(reference, {"bound_ms": 0}), plan_of(reference)
    sim = Run(plan, 0, log.partitions, chance.randint(1, 5), False).sim
    start = 0
    for end in sorted(chance.randint(0, len(log.records)) for _ in range(chance.randint(0, 4))):
        sim.batch(log.records[start:end])
        start = end
    sim.batch(log.records[start:], clocks=dict.fromkeys(log.places(), end_ms))
    sim.batch([])
    entries = [[(k, v) for k, v in sorted(state.entries.items()) if not k.startswith(TIMER)] for state in sim.states]
    groups = [of_facts(facts(its, job.state, job.rules, with_clock=False)) for its in entries]
    assert sim.counts.get("late", 0) == 0
    return by_key(sim.outputs), sum(groups, Fingerprint()).keys


def test_rollups_are_the_same_in_any_partitioning() -> None:
    chance = random.Random(5)
    case = case_of(chance, order="arrival", keep_15m_ms=30 * 24 * HOUR)
    reference = with_rules("services.rollups.service:rollups", plain(case.config))
    log, topics = log_of(reference, case, chance), [t.code for t in plan_of(reference).input_topics()]
    end_ms = log[-1].timestamp_ms + 2 * HOUR
    whole = result(reference, spread(log, topics, chance, most=1), chance, end_ms)
    assert sum(map(len, whole[0].values())) > 100
    assert whole[1] != Fingerprint().keys
    for _ in range(PARTITIONINGS):
        assert result(reference, spread(log, topics, chance), chance, end_ms) == whole

"""The enrichment as a plain service gives what the reference model gives, whatever the batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.enrichment import enrichment
from moneystate.api.decoder import ServiceDecoder
from moneystate.api.plan import Plan
from moneystate.api.runtime import ServiceProcessor
from moneystate.engine import clock
from moneystate.testing.simulation import Input, Simulation
from services.enrichment import fingerprints as fp
from tests.budget import examples
from tests.enrichment.harness import cut, dead_letters
from tests.enrichment.test_equals_model import any_cuts
from tests.reference import model
from tests.reference.strategies import Case, cases

MANY = settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))


def without_lookups(case: Case) -> Case:
    return case._replace(rules=replace(case.rules, lookup=False), replies=[])


def run_case(case: Case, seed: int, ends: list[int], drain: bool, key_groups: int = 4) -> Simulation:
    rules = enrichment.Rules(case.rules.session_ttl_ms, case.rules.dedup_ttl_ms, case.rules.session_wait_ms)
    plan = Plan(enrichment.service, rules)
    sim = Simulation(
        ServiceDecoder(plan), plan.input_topics(), [(plan.codes[topic], n) for topic, n in case.partitions],
        lambda: ServiceProcessor(plan), case.rules.bound_ms, case.rules.max_future_ms, key_groups,
        dead_letter_stream=plan.dead_letter_stream,
    )  # fmt: skip
    records = [
        Input(
            plan.codes[r.topic], r.partition, r.offset, -1 if r.timestamp_ms is None else r.timestamp_ms, r.key,
            r.value, list(r.headers),
        )
        for r in interleaved(case.records, seed)
    ]  # fmt: skip
    for batch in cut(records, [end % (len(records) + 1) for end in ends]):
        sim.batch(batch)
    if drain:
        sim.batch([], drain=True)
    return sim


def interleaved(records: list[model.LogRecord], seed: int) -> list[model.LogRecord]:
    """Partitions in their own order, mixed at random."""
    queues: dict[model.Partition, list[model.LogRecord]] = {}
    for record in records:
        queues.setdefault((record.topic, record.partition), []).append(record)
    chance = random.Random(seed)
    mixed = []
    while queues:
        place = chance.choice(sorted(queues))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def by_user(sim: Simulation) -> dict[bytes, list[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for stream, key, value, _ in sim.outputs:
        if stream == 0:
            values.setdefault(key or b"", []).append(value or b"")
    return values


def reasons(letters: Iterable[Any]) -> Counter[tuple[str, int, int, str]]:
    """The lookups' types are unknown to a service without lookups."""
    same = {"unknown_schema": "no_event_time"}
    return Counter((topic, partition, offset, same.get(why, why)) for topic, partition, offset, why in letters)


@MANY
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_any_batches_give_the_models_records(case: Case, seed: int, ends: list[int], drain: bool) -> None:
    case = without_lookups(case)
    sim, want = run_case(case, seed, ends, drain), model.run(case.records, case.partitions, case.rules, drain)
    expected: dict[bytes, list[bytes]] = {}
    for out in want.enriched:
        expected.setdefault(out.user_id.encode(), []).append(out.encoded)
    assert by_user(sim) == expected
    assert reasons(letters_of(sim).elements()) == reasons(want.dead_letters)
    assert sim.counts.get("duplicates", 0) == want.duplicates
    assert sim.buffered == want.buffered


def letters_of(sim: Simulation) -> Counter[tuple[str, int, int, str]]:
    stream = sim.dead_letter_stream
    sim.outputs = [(2 if s == stream else s, k, v, h) for s, k, v, h in sim.outputs]
    return dead_letters(sim)


@MANY
@given(cases(least_ms=1), any_cuts)
def test_after_a_drain_nothing_is_left_but_users(case: Case, ends: list[int]) -> None:
    sim = run_case(without_lookups(case), 0, ends, True)
    left = Counter(key[:6] for state in sim.states for key in state.entries if key != clock.KEY)
    assert set(left) <= {b"v\x04user"}


def test_its_records_are_those_of_the_schemas() -> None:
    plan = Plan(enrichment.service)
    headers = {input.codec.header for inputs in plan.inputs.values() for input in inputs.values()}
    assert {fp.PAYMENT_EVENT, fp.TRANSACTION_EVENT, fp.USER_SESSION_CREATED_EVENT, fp.FORGET_USER_REQUESTED} < headers
    assert plan.outputs[enrichment.enriched].codec.header == fp.MONEY_ENRICHED
    assert plan.heartbeat.header == fp.HEARTBEAT

"""Whatever the batches and however the partitions interleave: the enrichment gives what the reference model gives."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.testing.simulation import Input, Simulation
from tests.budget import examples
from tests.enrichment import topics
from tests.enrichment.harness import cut, dead_letters, enriched, inputs, leftovers, requests, simulation
from tests.reference import model
from tests.reference.codec import encode
from tests.reference.strategies import Case, cases

SLOW_IS_FINE = settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))


def interleaved(case: Case, seed: int) -> list[Input]:
    """All records, partitions in their own order and mixed at random, replies anywhere."""
    queues: dict[tuple[int, int], list[Input]] = {}
    known = case.records + (case.replies if case.rules.lookup else [])
    for record in inputs(known):
        queues.setdefault((record.topic, record.partition), []).append(record)
    rng = random.Random(seed)
    mixed = []
    while queues:
        place = rng.choice(sorted(queues))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def run_case(case: Case, seed: int, ends: list[int], drain: bool, key_groups: int = 4) -> Simulation:
    records = interleaved(case, seed)
    places = {(topics.LOOKUP_RESULTS, r.partition) for r in case.replies} if case.rules.lookup else set()
    names = [*case.partitions, *(("session-lookup-results", p) for _, p in sorted(places))]
    sim = simulation(case.rules, names, key_groups)
    batches = cut(records, [end % (len(records) + 1) for end in ends])
    for batch in batches:
        sim.batch(batch)
    if drain:
        sim.batch([], drain=True)
    return sim


def expect(case: Case, drain: bool) -> model.Result:
    return model.run(case.records, case.partitions, case.rules, drain, case.replies)


def by_user(result: model.Result) -> dict[bytes, Counter[bytes]]:
    users: dict[bytes, Counter[bytes]] = {}
    for out in result.enriched:
        users.setdefault(out.user_id.encode(), Counter())[out.encoded] += 1
    return users


any_cuts = st.lists(st.integers(0, 200), max_size=6)


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_any_batches_and_any_interleaving_give_the_models_records(
    case: Case, seed: int, ends: list[int], drain: bool
) -> None:
    sim, want = run_case(case, seed, ends, drain), expect(case, drain)
    assert {user: Counter(values) for user, values in enriched(sim).items()} == by_user(want)
    assert requests(sim) == sorted(encode("SessionLookupRequested", r) for r in want.requests)
    assert dead_letters(sim) == Counter(tuple(letter) for letter in want.dead_letters)


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_counts_are_the_models_whatever_the_batches(case: Case, seed: int, ends: list[int], drain: bool) -> None:
    sim, want = run_case(case, seed, ends, drain), expect(case, drain)
    assert sim.buffered == want.buffered
    counts = {name: sim.counts.get(name, 0) for name in ("waiting", "looking_up", "duplicates")}
    assert counts == {
        "waiting": want.waiting, "looking_up": want.looking_up, "duplicates": want.duplicates,
    }  # fmt: skip


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts)
def test_without_replies_the_order_of_a_users_records_is_the_models(case: Case, seed: int, ends: list[int]) -> None:
    alone = case._replace(replies=[])
    sim, want = run_case(alone, seed, ends, drain=True), expect(alone, drain=True)
    values: dict[bytes, list[bytes]] = {}
    for out in want.enriched:
        values.setdefault(out.user_id.encode(), []).append(out.encoded)
    assert enriched(sim) == values


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts)
def test_after_a_drain_no_trace_of_what_expires_is_left(case: Case, seed: int, ends: list[int]) -> None:
    sim = run_case(case, seed, ends, drain=True)
    left = leftovers(sim)
    assert left.pop("lookups", 0) == sim.counts.get("looking_up", 0)
    assert left == {}

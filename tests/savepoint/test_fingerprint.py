"""The fingerprint and the number of key groups: the same state is the same, however it came to be."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine import clock as clocks
from moneystate.ports.state import KEYS, Fact, Field
from moneystate.savepoint.fingerprint import Fingerprint, of_facts, of_group
from moneystate.savepoint.rescale import rescaled
from moneystate.testing.simulation import Simulation
from tests.budget import examples
from tests.engine.earlier_clock import first_version
from tests.enrichment.harness import any_cuts, cut, enriched, interleaved, requests, run_case, simulation
from tests.enrichment.jobs import STATE
from tests.reference.strategies import Case, cases

SLOW_IS_FINE = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))


KINDS = ["info", "session", "money id"]
fields = st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62), st.binary(max_size=3)), max_size=3).map(tuple)


def fingerprint(sim: Simulation, case: Case) -> Fingerprint:
    rules = {"dedup_ttl_ms": case.rules.dedup_ttl_ms}
    prints = [of_group(n, sorted(state.entries.items()), STATE, rules) for n, state in enumerate(sim.states)]
    return sum(prints, Fingerprint())


def move(sim: Simulation, case: Case, key_groups: int) -> None:
    """Put the job's state into another number of key groups, as export and a start from it do."""
    old = [sorted(state.entries.items()) for state in sim.states]
    counts: dict[str, int] = {}
    for state in sim.states:
        for name, n in clocks.decode(state.entries.get(clocks.KEY)).counts.items():
            counts[name] = counts.get(name, 0) + n
    moved = [
        rescaled(STATE, group, key_groups, old.__getitem__, len(old), case.rules.bound_ms, counts)
        for group in range(key_groups)
    ]
    fresh = type(sim.states[0])
    sim.states = [fresh(dict(entries)) for entries in moved]
    sim.key_groups = key_groups


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, any_cuts, st.integers(1, 9), st.booleans())
def test_the_fingerprint_is_the_same_whatever_batches_and_key_groups_led_to_it(
    case: Case, seed: int, ends: list[int], other_ends: list[int], key_groups: int, drain: bool
) -> None:
    one = run_case(case, seed, ends, drain)
    other = run_case(case, seed + 1, other_ends, drain, key_groups)
    if case.replies:
        # when a reply is read is part of the state until the watermark has passed its request
        other = run_case(case, seed, ends, drain, key_groups)
    assert fingerprint(one, case) == fingerprint(other, case)


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32))
def test_the_same_state_with_a_clock_of_the_first_version_has_the_same_fingerprint(case: Case, seed: int) -> None:
    sim = run_case(case, seed, [], drain=False)
    want = fingerprint(sim, case)
    for state in sim.states:
        if clocks.KEY in state.entries:
            state.entries[clocks.KEY] = first_version(state.entries[clocks.KEY])
    assert fingerprint(sim, case) == want


@SLOW_IS_FINE
@given(cases(least_ms=1), st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 9), st.integers(1, 9))
def test_a_job_that_goes_on_in_other_key_groups_gives_the_same_output_state_and_counts(
    case: Case, seed: int, end: int, before: int, after: int
) -> None:
    want = run_case(case, seed, [end], drain=True, key_groups=before)
    moved = run_case_from(case, seed, end, before, after)
    assert fingerprint(moved, case) == fingerprint(want, case)
    assert {u: sorted(v) for u, v in enriched(moved).items()} == {u: sorted(v) for u, v in enriched(want).items()}
    assert requests(moved) == requests(want)
    assert moved.counts == want.counts
    assert (moved.buffered, moved.oldest) == (want.buffered, want.oldest)


def run_case_from(case: Case, seed: int, end: int, before: int, after: int) -> Simulation:
    """As `run_case`, moved to `after` key groups once `end` records are in."""
    records = interleaved(case, seed)
    places = sorted({("session-lookup-results", r.partition) for r in case.replies}) if case.rules.lookup else []
    sim = simulation(case.rules, [*case.partitions, *places], before)
    first, *rest = cut(records, [end % (len(records) + 1)])
    sim.batch(first)
    move(sim, case, after)
    for batch in rest:
        sim.batch(batch)
    sim.batch([], drain=True)
    return sim


@given(st.lists(st.tuples(st.sampled_from(KINDS), fields, fields), unique=True, min_size=1), st.data())
def test_a_fact_that_is_missing_added_or_other_is_another_fingerprint(
    contents: list[tuple[str, tuple[Field, ...], tuple[Field, ...]]], data: st.DataObject
) -> None:
    known = [Fact(KEYS, kind, b"user", id, content) for kind, id, content in contents]
    one_less = list(known)
    gone = one_less.pop(data.draw(st.integers(0, len(known) - 1)))
    assert of_facts(one_less) != of_facts(known)
    assert of_facts([*one_less, gone._replace(key=b"other")]) != of_facts(known)
    assert of_facts(reversed(known)) == of_facts(known)


def test_what_is_in_one_part_is_not_in_the_other() -> None:
    fingerprint = of_facts([Fact(KEYS, "info", b"ana", (), (None, b"DE"))])
    assert fingerprint.keys != 0
    assert fingerprint.buffer == 0

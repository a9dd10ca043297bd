"""Whatever the batches and however the partitions interleave: the enrichment gives what the reference model gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.enrichment.harness import (
    any_cuts,
    by_user,
    dead_letters,
    enriched,
    expect,
    leftovers,
    requests,
    run_case,
)
from tests.reference.codec import encode
from tests.reference.strategies import Case, cases

SLOW_IS_FINE = settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))


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
    assert counts == {"waiting": want.waiting, "looking_up": want.looking_up, "duplicates": want.duplicates}


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
    open_lookups = sim.counts.get("looking_up", 0)
    left = leftovers(sim)
    assert left.pop("lookups", 0) == open_lookups
    assert left == {}

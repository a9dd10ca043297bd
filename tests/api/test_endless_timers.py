"""Timers that set timers: where a drain ends for them, and how many may follow each other at one order time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.engine.limits import MAX_CHAIN
from moneystate.errors import StepError
from moneystate.testing import Bench
from tests.api.services.periodic import HOUR, Reading, reports, service
from tests.budget import examples

DAY = 24 * HOUR
START = 20_000 * DAY


def ended(*readings: Reading, cuts: str = "random") -> list[tuple[str, str, int]]:
    """All reports after a drain. `end` compares with other cuts, key groups and partitions."""
    bench = Bench(service, bound_ms=1_000)
    bench.send(*readings)
    bench.end()
    return [(r.meter, r.what, r.at - START) for r in bench.out(reports)]


def test_a_periodic_timer_runs_a_few_times_after_the_last_event() -> None:
    assert ended(Reading("m", START), Reading("n", START + 5 * HOUR)) == [
        *(("m", "hour", n * HOUR) for n in range(1, 6)),
        *((meter, "hour", n * HOUR) for n in range(6, 9) for meter in "mn"),
    ]


def test_it_runs_for_as_long_as_the_longest_timer_of_its_key_waits() -> None:
    shown = ended(Reading("m", START, wait_ms=DAY), Reading("n", START))
    assert shown.count(("m", "once", DAY)) == 1
    assert [at for meter, what, at in shown if (meter, what) == ("m", "hour")] == [n * HOUR for n in range(1, 27)]
    assert [at for meter, what, at in shown if meter == "n"] == [n * HOUR for n in range(1, 4)]


READINGS = st.lists(
    st.builds(
        Reading,
        st.sampled_from("abc"),
        st.integers(0, DAY).map(lambda ms: START + ms),
        st.sampled_from([0, 1, HOUR, 7 * HOUR]),
    ),
    min_size=1,
    max_size=8,
).map(lambda readings: sorted(readings, key=lambda r: r.at))


@settings(max_examples=examples(20))
@given(READINGS)
def test_a_drain_depends_on_the_log_alone(readings: list[Reading]) -> None:
    last = max(r.at for r in readings) - START
    shown = ended(*readings)
    assert all(at <= last + 10 * HOUR for _, _, at in shown)
    # before the last event and at the first full hour after it, nothing is left out
    for meter in {r.meter for r in readings}:
        first = min(r.at for r in readings if r.meter == meter) - START
        hours = [at for m, what, at in shown if (m, what) == (meter, "hour")]
        wanted = range(first - first % HOUR + HOUR, last - last % HOUR + HOUR + 1, HOUR)
        events = {r.at - START for r in readings if r.meter == meter}  # at a full hour, one replaces its timer
        assert set(wanted) - events <= set(hours)


def test_timers_may_follow_each_other_at_one_order_time_up_to_the_limit() -> None:
    ended(Reading("m", START, chain=MAX_CHAIN))
    with pytest.raises(StepError, match=r"again.* of the key 'm'.*10,000"):
        ended(Reading("m", START, chain=MAX_CHAIN + 2))

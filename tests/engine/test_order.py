"""The order rule (docs/model.md section 2): order times, lateness and the watermark."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.engine.items import END_OF_TIME, MAX_EVENT_TIME, MIN_EVENT_TIME, NO_TIME, TIMER_RANK, Mark
from moneystate.engine.order import (
    Partition,
    RangeOrder,
    advance,
    drained_watermark,
    finalize_order_time,
    holder,
    marks_for,
    silent,
)
from tests.budget import examples
from tests.engine.tiny import ALPHA, BETA, BOUND_MS, TinyRun

BOUND = 10
BOUNDS = {ALPHA: BOUND}
times = st.integers(-50, 50)


def order_times(events: list[int], bound: int = BOUND) -> list[int]:
    order = RangeOrder(bound)
    return [order.observe(time) for time in events]


def test_the_first_record_keeps_its_event_time_however_old() -> None:
    assert order_times([MIN_EVENT_TIME]) == [MIN_EVENT_TIME]


def test_an_event_within_the_bound_keeps_its_event_time() -> None:
    assert order_times([100, 90, 95, 101]) == [100, 90, 95, 101]


def test_an_event_beyond_the_bound_takes_the_place_where_it_became_known() -> None:
    assert order_times([100, 89, 50, 90]) == [100, 90, 90, 90]


def test_the_largest_and_the_least_time_meet_without_overflow() -> None:
    assert order_times([MAX_EVENT_TIME, MIN_EVENT_TIME]) == [MAX_EVENT_TIME, MAX_EVENT_TIME - BOUND]


@given(st.lists(times, min_size=1), st.integers(0, 50), st.integers(0, 30))
def test_a_range_cut_anywhere_gives_the_same_order_times(events: list[int], cut: int, bound: int) -> None:
    head, tail = events[:cut], events[cut:]
    high = max(head, default=NO_TIME)
    finalized = [finalize_order_time(time, high - bound, NO_TIME) for time in order_times(tail, bound)]
    assert order_times(head, bound) + finalized == order_times(events, bound)


@given(st.lists(times, min_size=1), st.integers(0, 30))
def test_order_time_is_never_behind_the_partitions_own_watermark(events: list[int], bound: int) -> None:
    high = NO_TIME
    for event, order_time in zip(events, order_times(events, bound), strict=True):
        assert order_time == (event if high == NO_TIME else max(event, high - bound))
        high = max(high, event)


def test_an_order_time_behind_the_watermark_becomes_the_watermark() -> None:
    assert finalize_order_time(5, NO_TIME, watermark=40) == 40
    assert finalize_order_time(45, NO_TIME, watermark=40) == 45


# The watermark


def mark(high: int, partition: int = 0, holds: int = 1) -> Mark:
    return (ALPHA, partition, high, holds, NO_TIME)


def test_the_watermark_is_the_least_high_minus_the_bound() -> None:
    highs: dict[Partition, int] = {}
    assert advance(highs, [mark(100), mark(70, 1)], BOUNDS, NO_TIME, drain_to=NO_TIME) == 60
    assert highs == {(ALPHA, 0): 100, (ALPHA, 1): 70}


def test_a_partition_without_news_stands_where_it_stood() -> None:
    highs = {(ALPHA, 0): 100, (ALPHA, 1): 70}
    assert advance(highs, [mark(200), mark(NO_TIME, 1)], BOUNDS, 60, drain_to=NO_TIME) == 60


def test_one_empty_partition_holds_the_watermark_and_is_named() -> None:
    highs: dict[Partition, int] = {}
    marks = [mark(100), mark(NO_TIME, 1)]
    assert advance(highs, marks, BOUNDS, NO_TIME, drain_to=NO_TIME) == NO_TIME
    assert silent(highs, marks) == [(ALPHA, 1)]


def test_an_idle_partition_does_not_hold_the_watermark() -> None:
    highs = {(ALPHA, 1): 20}
    assert advance(highs, [mark(100), mark(NO_TIME, 1, holds=0)], BOUNDS, 10, drain_to=NO_TIME) == 90
    assert silent({}, [mark(NO_TIME, 1, holds=0)]) == []


def test_the_watermark_stays_when_there_are_no_partitions() -> None:
    assert advance({}, [], BOUNDS, 50, drain_to=NO_TIME) == 50


def test_a_drain_takes_the_watermark_to_the_end_whatever_is_silent() -> None:
    assert advance({}, [mark(NO_TIME)], BOUNDS, 50, drain_to=drained_watermark(True, None)) == END_OF_TIME


def test_a_drain_up_to_a_time_passes_this_time_and_never_takes_the_watermark_back() -> None:
    for until_ms, after in ((49, 50), (50, 51), (9_000, 9_001)):
        assert advance({}, [mark(100)], BOUNDS, 50, drain_to=drained_watermark(True, until_ms)) == after
    assert drained_watermark(False, 9_000) == NO_TIME


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), times, st.integers(0, 1)), max_size=4), max_size=12))
def test_the_watermark_does_not_reverse(batches: list[list[tuple[int, int, int]]]) -> None:
    highs: dict[Partition, int] = {}
    watermark = NO_TIME
    for batch in batches:
        after = advance(highs, [mark(high, p, holds) for p, high, holds in batch], BOUNDS, watermark, drain_to=NO_TIME)
        assert after >= watermark
        watermark = after


# The same through source tasks and key groups


def test_the_watermark_of_a_run_follows_the_slowest_partition() -> None:
    run = TinyRun()
    run.log.beat(10_000, (ALPHA, 0))
    run.batch()
    assert run.sim.watermark == NO_TIME
    run.log.beat(4_000, (BETA, 0))
    run.batch()
    assert run.sim.watermark == 4_000 - BOUND_MS


def test_an_empty_partition_holds_everything_until_it_is_idle() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 1_000, "a")
    run.log.beat(9_000, (ALPHA, 0))
    run.batch()
    assert (run.stepped(), run.sim.buffered) == ([], 1)
    run.batch(idle=[(BETA, 0)])
    assert (run.stepped(), run.sim.buffered) == (["a", "(a)"], 0)


def test_an_idle_partition_that_speaks_behind_the_watermark_counts_late() -> None:
    run = TinyRun()
    run.log.beat(20_000, (ALPHA, 0))
    run.batch(idle=[(BETA, 0)])
    run.log.put(BETA, 3_000, "b")
    run.batch()
    assert run.sim.watermark == 20_000 - BOUND_MS
    run.log.beat(30_000)
    run.batch()
    assert run.trace[0][:2] == (18_000, 0)
    assert run.trace[0][6] == 3_000
    assert run.sim.counts["late"] == 1


def test_an_idle_partition_that_speaks_ahead_of_the_watermark_is_not_late() -> None:
    run = TinyRun()
    run.log.beat(20_000, (ALPHA, 0))
    run.batch(idle=[(BETA, 0)])
    run.log.put(BETA, 19_000, "b")
    run.log.beat(30_000)
    run.batch()
    assert run.trace[0][0] == 19_000
    assert "late" not in run.sim.counts


def test_a_partition_added_in_mid_life_behind_the_watermark_counts_late() -> None:
    run = TinyRun()
    run.log.beat(20_000)
    run.batch()
    run.sim.partitions.append((ALPHA, 1))
    run.batch()
    assert run.sim.watermark == 18_000
    run.log.put(ALPHA, 5_000, "new", partition=1)
    run.log.put(ALPHA, 19_000, "newer", partition=1)
    run.log.beat(40_000, (ALPHA, 0), (BETA, 0), (ALPHA, 1))
    run.batch()
    assert [item[0] for item in run.trace[:2]] == [18_000, 19_000]
    assert run.sim.counts["late"] == 1


def test_heartbeats_advance_stream_time_and_are_nothing_else() -> None:
    run = TinyRun()
    run.log.beat(50_000)
    run.batch()
    assert run.sim.watermark == 48_000
    assert (run.trace, run.sim.outputs, run.sim.buffered) == ([], [], 0)


def test_a_dead_letter_does_not_advance_stream_time() -> None:
    run = TinyRun()
    run.log.beat(10_000, (BETA, 0))
    run.log.raw(ALPHA, b"short")
    run.log.put(ALPHA, 9_000_000, "far", timestamp_ms=1_000)
    run.batch()
    assert run.sim.watermark == NO_TIME
    run.log.put(ALPHA, 1_000, "a")
    run.log.beat(12_000)
    run.batch()
    assert run.sim.watermark == 10_000
    assert run.trace[0][0] == 1_000


def test_a_drain_empties_the_buffer_and_fires_every_timer() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 1_000, "a")
    run.batch(drain=True)
    assert (run.sim.watermark, run.sim.buffered, run.stepped()) == (END_OF_TIME, 0, ["a", "(a)"])
    assert set(run.sim.states[0].entries) == {b"c"}


@pytest.mark.parametrize("lateness", [0, 1])
def test_late_is_exactly_beyond_the_bound(lateness: int) -> None:
    run = TinyRun()
    run.log.beat(10_000)
    run.log.put(ALPHA, 10_000 - BOUND_MS - lateness, "a")
    run.batch(drain=True)
    assert run.sim.counts.get("late", 0) == lateness


def test_the_holder_is_the_partition_with_the_least_high_that_is_not_idle() -> None:
    highs = {(1, 0): 50, (1, 1): 40, (2, 0): 10}
    bounds = {1: BOUND, 2: BOUND, 3: 0}
    assert holder(highs, [(1, 0, 0, 1, NO_TIME), (1, 1, 0, 1, NO_TIME), (2, 0, 0, 0, NO_TIME)], bounds) == [(1, 1)]
    assert holder(highs, [(1, 0, 0, 1, NO_TIME), (3, 7, 0, 1, NO_TIME)], bounds) == [(3, 7)]  # it has had no record
    assert holder(highs, [(1, 0, 0, 0, NO_TIME)], bounds) == []


# Inputs with bounds of their own


def test_each_input_holds_the_watermark_back_by_its_own_bound() -> None:
    marks = [(ALPHA, 0, 100, 1, NO_TIME), (BETA, 0, 90, 1, NO_TIME)]
    assert advance({}, marks, {ALPHA: 50, BETA: 5}, NO_TIME, drain_to=NO_TIME) == 50
    assert advance({}, marks, {ALPHA: 5, BETA: 5}, NO_TIME, drain_to=NO_TIME) == 85
    assert holder({(ALPHA, 0): 100, (BETA, 0): 90}, marks, {ALPHA: 50, BETA: 5}) == [(ALPHA, 0)]


Record = tuple[int, int, int]  # topic, partition, event time
records = st.tuples(st.sampled_from([ALPHA, BETA]), st.integers(0, 1), st.integers(0, 12_000))
FOUR = [(topic, partition) for topic in (ALPHA, BETA) for partition in (0, 1)]


def with_bounds(alpha_ms: int, beta_ms: int, events: list[Record], ends: list[int]) -> TinyRun:
    run = TinyRun(FOUR)
    own = {ALPHA: alpha_ms, BETA: beta_ms}
    run.sim.inputs = [t._replace(bound_ms=own.get(t.code)) for t in run.sim.inputs]
    for n, (topic, partition, time) in enumerate(events):
        run.log.put(topic, time, f"k{n % 5}", partition=partition)
        if n in ends:
            run.batch()
    run.batch(drain=True)
    return run


@settings(max_examples=examples(60))
@given(
    st.integers(0, 9_000), st.integers(0, 9_000), st.lists(records, max_size=25), st.lists(st.integers(0, 24)),
    st.lists(st.integers(0, 24)),
)  # fmt: skip
def test_batches_decide_nothing_whatever_the_bounds(
    alpha_ms: int, beta_ms: int, events: list[Record], ends: list[int], other_ends: list[int]
) -> None:
    one, other = with_bounds(alpha_ms, beta_ms, events, ends), with_bounds(alpha_ms, beta_ms, events, other_ends)
    assert one.trace == other.trace
    assert one.totals() == other.totals()
    late = [item[5] for item in one.trace if item[1] < TIMER_RANK and item[0] > item[6]]
    assert one.sim.counts.get("late", 0) == len(late) == _late(alpha_ms, beta_ms, events)


def _late(alpha_ms: int, beta_ms: int, events: list[Record]) -> int:
    """Counts by the definition of section 2."""
    late = 0
    for n, (topic, partition, time) in enumerate(events):
        before = [t for a, b, t in events[:n] if (a, b) == (topic, partition)]
        late += bool(before) and time < max(before) - (alpha_ms if topic == ALPHA else beta_ms)
    return late


# Inputs in arrival order


def test_the_clock_of_a_quiet_partition_moves_the_watermark_but_no_high() -> None:
    highs = {(ALPHA, 0): 100}
    marks = [(ALPHA, 0, NO_TIME, 1, 500), (ALPHA, 1, NO_TIME, 1, 500)]
    assert advance(highs, marks, {ALPHA: 0}, 100, drain_to=NO_TIME) == 500
    assert highs == {(ALPHA, 0): 100}  # the next record of the partition is late only if it is behind the watermark
    assert holder(highs, marks, {ALPHA: 0}) == [(ALPHA, 0)]
    assert silent(highs, marks) == []


def test_a_partition_without_a_clock_holds_the_watermark_at_its_own_time() -> None:
    marks = [(ALPHA, 0, 300, 1, NO_TIME), (ALPHA, 1, NO_TIME, 1, 500)]
    assert advance({}, marks, {ALPHA: 0}, NO_TIME, drain_to=NO_TIME) == 300
    assert advance({}, [(ALPHA, 0, NO_TIME, 1, NO_TIME), marks[1]], {ALPHA: 0}, 40, drain_to=NO_TIME) == 40


def test_a_clock_counts_less_the_bound_of_its_input() -> None:
    marks = [(ALPHA, 0, 100, 1, 500), (BETA, 0, 700, 1, 500)]
    assert advance({}, marks, {ALPHA: 50, BETA: 0}, NO_TIME, drain_to=NO_TIME) == 450


# All partitions are idle


def test_if_all_partitions_are_idle_the_one_that_is_farthest_ahead_decides() -> None:
    highs = {(ALPHA, 0): 100, (BETA, 0): 700}
    idle: list[Mark] = [(ALPHA, 0, NO_TIME, 0, NO_TIME), (BETA, 0, NO_TIME, 0, NO_TIME)]
    assert advance(highs, idle, {ALPHA: 10, BETA: 20}, 90, drain_to=NO_TIME) == 680
    assert advance({}, idle, {ALPHA: 10, BETA: 20}, NO_TIME, drain_to=NO_TIME) == NO_TIME
    assert advance(highs, idle, {ALPHA: 10, BETA: 20}, 690, drain_to=NO_TIME) == 690  # it does not go back


def test_marks_for_a_recorded_watermark_advance_exactly_to_it() -> None:
    highs = {(ALPHA, 0): 100}
    bounds = {ALPHA: 10, BETA: 20}
    assert advance(highs, marks_for([(ALPHA, 0), (BETA, 0)], bounds, 500), bounds, 90, drain_to=NO_TIME) == 500
    assert highs == {(ALPHA, 0): 100}

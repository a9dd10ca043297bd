"""The total order (docs/model.md section 2), timers included, whatever the batches."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine.clock import KEY
from moneystate.engine.items import TIMER_RANK
from moneystate.testing.simulation import Input
from tests.budget import examples
from tests.engine.tiny import ALPHA, BETA, BOUND_MS, NOTES, WINDOW_MS, TinyRun, value_of

PLACES = [(ALPHA, 0), (ALPHA, 1), (BETA, 0)]


def test_events_of_one_time_stand_by_rank_then_topic_partition_and_offset() -> None:
    run = TinyRun(PLACES)
    run.log.put(ALPHA, 1_000, "a1-0", partition=1)
    run.log.put(ALPHA, 1_000, "a0-0")
    run.log.put(ALPHA, 1_000, "a0-1")
    run.log.put(BETA, 1_000, "b0-0")  # of a lower rank
    run.batch(drain=True)
    assert run.stepped()[:4] == ["b0-0", "a0-0", "a0-1", "a1-0"]


def test_order_time_comes_before_rank_and_offset() -> None:
    run = TinyRun(PLACES)
    run.log.put(ALPHA, 1_001, "second")
    run.log.put(ALPHA, 1_000, "first")
    run.log.put(BETA, 1_002, "third")
    run.batch(drain=True)
    assert run.stepped()[:3] == ["first", "second", "third"]


def test_a_timer_runs_after_the_events_of_its_time_and_before_any_later_one() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 0, "k", 1)
    run.log.put(ALPHA, WINDOW_MS, "k", 10)
    run.log.put(ALPHA, WINDOW_MS + 1, "k", 100)
    run.batch(drain=True)
    assert run.totals() == [("k", "5000: 2 11"), ("k", "10001: 1 100")]


def test_timers_of_one_time_run_in_the_order_of_their_setters() -> None:
    run = TinyRun(PLACES)
    run.log.put(ALPHA, 1_000, "a1", partition=1)
    run.log.put(ALPHA, 1_000, "a0")
    run.log.put(BETA, 1_000, "b")
    run.batch(drain=True)
    # topic before partition before offset, of the setters; the rank of the setter has no part in it
    assert run.stepped()[3:] == ["(a0)", "(a1)", "(b)"]


def test_a_timer_set_in_a_batch_and_due_below_its_watermark_fires_in_that_batch_in_order() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 1_000, "a")
    run.log.put(ALPHA, 3_000, "b")
    run.log.put(ALPHA, 7_000, "c")
    run.log.beat(10_500)
    run.batch()
    assert run.sim.watermark == 8_500
    assert run.stepped() == ["a", "b", "(a)", "c", "(b)"]
    assert run.sim.counts["open"] == 1


def test_a_timer_due_at_the_watermark_waits_for_the_next_batch() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 1_000, "a")
    run.log.beat(1_000 + WINDOW_MS + BOUND_MS)
    run.batch()
    assert run.stepped() == ["a"]
    run.log.beat(1_001 + WINDOW_MS + BOUND_MS)
    run.batch()
    assert run.stepped() == ["a", "(a)"]


def test_an_event_at_the_watermark_waits_for_the_next_batch() -> None:
    run = TinyRun()
    run.log.put(ALPHA, 1_000, "a")
    run.log.beat(1_000 + BOUND_MS)
    run.batch()
    assert (run.stepped(), run.sim.buffered) == ([], 1)
    run.log.beat(1_001 + BOUND_MS)
    run.batch()
    assert (run.stepped(), run.sim.buffered) == (["a"], 0)


def test_records_outside_the_order_come_at_once_and_have_no_part_in_the_watermark() -> None:
    run = TinyRun([(ALPHA, 0), (BETA, 0), (NOTES, 0)])
    run.log.put(NOTES, 99_000, "n")
    run.batch()
    run.log.beat(5_000)
    run.batch()
    assert [(note[2], note[3]) for note in run.notes] == [(0, b"n")]
    assert run.sim.watermark == 3_000


# Any split into batches

moments = st.integers(0, 12).map(lambda n: n * 1_000)
drafts = st.tuples(st.sampled_from(PLACES), moments, st.sampled_from(["", "a", "b", "c"]), st.integers(-5, 5))


def records_of(log: Iterable[tuple[tuple[int, int], int, str, int]]) -> list[Input]:
    ends = dict.fromkeys(PLACES, 0)
    records = []
    for place, time, key, amount in log:
        records.append(Input(*place, ends[place], -1, None, value_of(time, key, amount), []))
        ends[place] += 1
    return records


def run_split(records: list[Input], cuts: list[int], drain: bool, key_groups: int) -> TinyRun:
    run = TinyRun(PLACES, key_groups)
    ends = sorted(cut % (len(records) + 1) for cut in cuts)
    for start, end in zip([0, *ends], [*ends, len(records)], strict=True):
        run.sim.batch(records[start:end])
    if drain:
        run.sim.batch([], drain=True)
    return run


SETTINGS = settings(max_examples=examples(250), suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.lists(drafts, max_size=40), st.lists(st.integers(0, 100), max_size=8), st.booleans())
def test_any_split_into_batches_gives_the_same_steps(
    log: list[tuple[tuple[int, int], int, str, int]], cuts: list[int], drain: bool
) -> None:
    records = records_of(log)
    whole, split = run_split(records, [], drain, 1), run_split(records, cuts, drain, 1)
    assert split.trace == whole.trace
    assert split.sim.outputs == whole.sim.outputs
    assert (split.sim.watermark, split.sim.buffered, split.sim.counts) == (
        whole.sim.watermark,
        whole.sim.buffered,
        whole.sim.counts,
    )


@SETTINGS
@given(st.lists(drafts, max_size=40), st.lists(st.integers(0, 100), max_size=8), st.integers(1, 7))
def test_the_number_of_key_groups_changes_no_keys_results(
    log: list[tuple[tuple[int, int], int, str, int]], cuts: list[int], key_groups: int
) -> None:
    records = records_of(log)
    one, many = run_split(records, [], True, 1), run_split(records, cuts, True, key_groups)
    assert sorted(many.totals()) == sorted(one.totals())
    assert all(set(state.entries) == {KEY} for state in many.sim.states)


@SETTINGS
@given(st.lists(drafts, max_size=40), st.lists(st.integers(0, 100), max_size=8))
def test_steps_come_in_the_total_order_and_totals_are_right(
    log: list[tuple[tuple[int, int], int, str, int]], cuts: list[int]
) -> None:
    run = run_split(records_of(log), cuts, True, 1)
    assert [item[:6] for item in run.trace] == sorted(item[:6] for item in run.trace)
    events = [item for item in run.trace if item[1] != TIMER_RANK]
    assert len(events) == sum(1 for _, _, key, _ in log if key)
    assert sum(int(total.split()[2]) for _, total in run.totals()) == sum(n for _, _, key, n in log if key)

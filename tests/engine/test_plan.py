"""The plan of a batch: offsets as text, sharing by event time, idleness."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.engine.plan import (
    ACTIVE,
    EMPTY,
    IDLE,
    STATE_VERSION,
    VERSION,
    Backlog,
    Idleness,
    NewerProgram,
    PartitionPlan,
    Plan,
    Rewrite,
    Unreadable,
    check_version,
    digest,
    from_offset,
    next_share,
    rules_hash,
    share,
)

partition_plans = st.builds(PartitionPlan, st.integers(0, 2**62), st.sampled_from([EMPTY, ACTIVE, IDLE]))
places = st.tuples(st.sampled_from(["alpha", "beta", "beta-2"]), st.integers(0, 120))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    partitions = draw(st.dictionaries(places, partition_plans, max_size=20))
    ids = {topic: f"id of {topic}" for topic, _ in partitions}
    until_ms = draw(st.none() | st.integers(MIN_EVENT_TIME, MAX_EVENT_TIME))
    drain = until_ms is not None or draw(st.booleans())
    return Plan(draw(st.text(max_size=8)), ids, partitions, drain, draw(st.integers(0, 9)), drain_until_ms=until_ms)


@given(plans())
def test_an_offset_gives_its_plan_back(plan: Plan) -> None:
    assert from_offset(plan.to_offset()) == plan
    assert from_offset(json.loads(json.dumps(plan.to_offset()))) == plan


@given(plans(), st.randoms())
def test_the_text_of_an_offset_does_not_depend_on_the_order_of_partitions(plan: Plan, random: object) -> None:
    shuffled = list(plan.partitions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    text = json.dumps(plan.to_offset())
    assert json.dumps(plan.with_partitions(dict(shuffled)).to_offset()) == text
    assert json.dumps(json.loads(text), sort_keys=True) == text


def test_the_text_of_an_offset_is_this() -> None:
    partitions = {
        ("b", 10): PartitionPlan(5, IDLE),
        ("b", 9): PartitionPlan(7, ACTIVE),
        ("a", 0): PartitionPlan(0, EMPTY),
    }
    plan = Plan("r", {"a": "ida", "b": "idb"}, partitions, tick=2)
    assert json.dumps(plan.to_offset()) == (
        '{"drain": false, "rules": "r", "stateVersion": 2, "tick": 2, "topics": {'
        '"a": {"id": "ida", "partitions": {"0": {"end": 0, "state": "empty"}}}, '
        '"b": {"id": "idb", "partitions": {"10": {"end": 5, "state": "idle"}, "9": {"end": 7, "state": "active"}}}}, '
        '"version": 1}'
    )
    assert digest(plan.to_offset()) == "8d5efe41710eed9b235d11d53f465468"


def test_only_a_plan_with_the_end_of_a_drain_is_of_version_2() -> None:
    assert json.dumps(Plan("r", {}, {}, drain=True, drain_until_ms=-7).to_offset()) == (
        '{"drain": true, "drainUntil": -7, "rules": "r", "stateVersion": 2, "tick": 0, "topics": {}, "version": 2}'
    )
    assert Plan("r", {}, {}, drain=True).to_offset()["version"] == 1


@pytest.mark.parametrize(
    "wrong", [{"drainUntil": "7"}, {"drainUntil": MAX_EVENT_TIME + 1}, {"drainUntil": True}, {"drain": False}], ids=str
)
def test_the_end_of_a_drain_is_an_event_time_of_a_drain(wrong: dict[str, object]) -> None:
    offset = Plan("r", {}, {}, drain=True, drain_until_ms=7).to_offset()
    with pytest.raises(Unreadable, match="expected drainUntil"):
        from_offset({**offset, **wrong})


def test_a_drain_up_to_a_time_continues_up_to_a_later_one_only() -> None:
    drained = Plan("r", {}, {}, drain=True, drain_until_ms=7)
    assert [drained.drains_on(until_ms) for until_ms in (None, 6, 7, 8)] == [False, False, False, True]
    assert not replace(drained, drain_until_ms=None).drains_on(8)
    assert not Plan("r", {}, {}).drains_on(8)


@pytest.mark.parametrize(
    ("newer", "message"),
    [
        ({"version": VERSION + 1}, f"a plan of version {VERSION + 1}, this program knows {VERSION}"),
        (
            {"stateVersion": STATE_VERSION + 1},
            f"state of version {STATE_VERSION + 1}, this program knows {STATE_VERSION}",
        ),
    ],
)
def test_the_offset_of_a_newer_program_is_refused(newer: dict[str, int], message: str) -> None:
    offset = {**Plan("r", {}, {}).to_offset(), **newer}
    for refuse in (check_version, from_offset):
        with pytest.raises(NewerProgram) as caught:
            refuse(offset)
        assert caught.value.args == (message,)


def test_a_newer_plan_is_refused_whatever_else_it_has() -> None:
    with pytest.raises(NewerProgram):
        from_offset({"version": VERSION + 1})


def test_the_offset_of_an_older_state_is_taken() -> None:
    plan = Plan("r", {}, {})
    assert from_offset({**plan.to_offset(), "stateVersion": STATE_VERSION - 1}) == plan


def test_a_digest_tells_offsets_apart_and_ignores_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    assert rules_hash({"bound_ms": 1}) != rules_hash({"bound_ms": 2})


# Sharing


def known(records: int, head_ms: int, per_ms: float) -> Backlog:
    return Backlog(records, ((0, head_ms), (1_000, head_ms + round(1_000 / per_ms))))


backlog = st.one_of(
    st.builds(Backlog, st.integers(0, 10_000)),
    st.builds(known, st.integers(0, 10_000), st.integers(0, 10**12), st.sampled_from([0.001, 0.5, 1.0, 40.0, 5_000.0])),
    st.builds(
        lambda records, steps: Backlog(records, tuple((n * 10, ms) for n, ms in enumerate(steps))),
        st.integers(0, 10_000),
        st.lists(st.integers(0, 10**12), min_size=1, max_size=6),  # times may stand still or go back
    ),
)


@given(st.dictionaries(places, backlog, max_size=8), st.integers(0, 12_000))
def test_the_budget_is_kept_and_used_up(backlogs: dict[tuple[str, int], Backlog], budget: int) -> None:
    taken = share(backlogs, budget)
    assert taken.keys() == backlogs.keys()
    assert all(0 <= taken[tp] <= b.records for tp, b in backlogs.items())
    assert sum(taken.values()) == min(budget, sum(b.records for b in backlogs.values()))


def test_what_fits_is_taken_whole() -> None:
    assert share({("a", 0): Backlog(3), ("b", 0): known(4, 10**9, 1)}, 7) == {("a", 0): 3, ("b", 0): 4}


def test_a_partition_that_is_ahead_waits_for_one_behind() -> None:
    taken = share({("old", 0): known(5_000, 0, 1), ("new", 0): known(5_000, 10_000, 1)}, 1_000)
    assert taken == {("old", 0): 1_000, ("new", 0): 0}


def test_dense_and_sparse_partitions_end_at_the_same_event_time() -> None:
    taken = share({("dense", 0): known(50_000, 0, 9), ("sparse", 0): known(50_000, 0, 1)}, 1_000)
    assert taken[("dense", 0)] == pytest.approx(900, abs=2)
    assert taken[("sparse", 0)] == pytest.approx(100, abs=2)


def test_a_partition_without_a_known_time_is_read_first() -> None:
    taken = share({("known", 0): known(5_000, 0, 1), ("unknown", 0): Backlog(600)}, 1_000)
    assert taken == {("known", 0): 400, ("unknown", 0): 600}


def test_unknown_partitions_alone_keep_to_the_budget() -> None:
    assert sum(share({("a", 0): Backlog(900), ("b", 0): Backlog(900)}, 100).values()) == 100


@given(st.lists(st.integers(1, 3_000), min_size=2, max_size=5), st.integers(20, 500))
def test_partitions_of_any_density_are_read_side_by_side_to_their_ends(lengths: list[int], budget: int) -> None:
    """All of them span the same hour: none runs ahead of another by more than what cannot be cut finer."""
    hour = 3_600_000
    positions = dict.fromkeys((("t", n) for n in range(len(lengths))), 0)
    for _ in range(sum(lengths) // budget + 1):
        backlogs = {
            tp: Backlog(length - positions[tp], ((0, positions[tp] * hour // length), (length - positions[tp], hour)))
            for tp, length in zip(positions, lengths, strict=True)
            if positions[tp] < length
        }
        for tp, n in share(backlogs, budget).items():
            positions[tp] += n
        reached = [positions[tp] * hour / length for tp, length in zip(positions, lengths, strict=True)]
        assert max(reached) - min(reached) <= (len(lengths) + 1) * hour / min(lengths)
    assert list(positions.values()) == lengths


# Idleness


TP = ("alpha", 0)


def states(idleness: Idleness, before: str, *looks: tuple[float, bool]) -> list[str]:
    """Returns the states of one partition after looks at these times, with or without news."""
    after = []
    for now_s, news in looks:
        idleness.look(now_s)
        before = idleness.state(TP, before, news)
        after.append(before)
    return after


def test_a_partition_is_idle_after_the_timeout_without_news() -> None:
    looks = [
        (100.0, True),
        (115.0, False),
        (129.9, False),
        (130.0, False),
        (131.0, False),
        (132.0, True),
        (147.0, False),
    ]
    assert states(Idleness(30.0), EMPTY, *looks) == [ACTIVE, ACTIVE, ACTIVE, IDLE, IDLE, ACTIVE, ACTIVE]


def test_the_time_of_a_partition_never_seen_begins_with_the_first_look() -> None:
    assert states(Idleness(30.0), EMPTY, (1_000.0, False), (1_015.0, False), (1_030.0, False)) == [EMPTY, EMPTY, IDLE]


def test_a_pause_between_two_looks_counts_as_half_of_the_timeout() -> None:
    """A machine that was frozen for an hour has seen no hour of silence."""
    looks = [(0.0, True), (3_600.0, False), (3_614.0, False), (3_615.0, False)]
    assert states(Idleness(30.0), EMPTY, *looks) == [ACTIVE, ACTIVE, ACTIVE, IDLE]


def test_after_a_look_that_failed_the_time_begins_anew() -> None:
    idleness = Idleness(30.0)
    assert states(idleness, EMPTY, (0.0, True), (14.0, False), (28.0, False)) == [ACTIVE] * 3
    idleness.failed()
    looks = [(40.0, False), (55.0, False), (69.0, False), (70.0, False)]
    assert states(idleness, ACTIVE, *looks) == [ACTIVE, ACTIVE, ACTIVE, IDLE]


def test_what_is_idle_stays_so_when_a_look_fails() -> None:
    idleness = Idleness(30.0)
    idleness.failed()
    assert states(idleness, IDLE, (0.0, False)) == [IDLE]


def test_a_bounded_run_declares_no_partition_idle_and_wakes_none() -> None:
    assert states(Idleness(None), ACTIVE, (0.0, False), (1e9, False)) == [ACTIVE, ACTIVE]
    assert states(Idleness(None), IDLE, (1e9, False)) == [IDLE]


PLAN = Plan("rules", {"alpha": "id of alpha"}, {("alpha", 0): PartitionPlan(7, ACTIVE)})


def test_a_rewrite_stands_in_the_plan_and_only_there() -> None:
    assert "rewrite" not in PLAN.to_offset()
    rewriting = replace(PLAN, tick=3, rewrite=Rewrite(1, 4, 1))
    assert list(rewriting.to_offset()) == sorted(rewriting.to_offset())
    assert from_offset(rewriting.to_offset()) == rewriting


def test_shares_follow_one_another_and_begin_anew_for_another_version() -> None:
    after_the_second = replace(PLAN, rewrite=Rewrite(1, 4, 2))
    assert next_share(after_the_second, 4, 2) == 2
    assert next_share(after_the_second, 4, 1) == next_share(after_the_second, 3, 2) == next_share(PLAN, 4, 2) == 0
    assert next_share(replace(PLAN, rewrite=Rewrite(3, 4, 2)), 4, 2) == 4
    assert next_share(replace(PLAN, rewrite=Rewrite(4, 4, 2)), 4, 2) == 5
    assert {g for share in range(4) for g in range(10) if Rewrite(share, 4, 2).takes(g)} == set(range(10))

"""The follower's pauses: between the writes of a batch, and never for so long that it stays behind."""

from __future__ import annotations

from moneystate.replica.pace import PAUSE_S, SPREAD_S, Pace


def pauses(pace: Pace, slept: list[float], writes: int) -> int:
    slept.clear()
    for _ in range(writes):
        pace.pause()
    return len(slept)


def test_a_batch_is_spread_and_a_large_one_no_further() -> None:
    slept: list[float] = []
    pace = Pace(slept.append)
    pace.at_the_end()
    assert pauses(pace, slept, 75) == 75  # 1,200 changes
    pace.at_the_end()
    assert SPREAD_S <= pauses(pace, slept, 10_000) * PAUSE_S < SPREAD_S + 2 * PAUSE_S


def test_without_the_logs_end_in_between_there_are_no_more_pauses() -> None:
    slept: list[float] = []
    pace = Pace(slept.append)
    assert pauses(pace, slept, 100) == 0  # the first catching up
    pace.at_the_end()
    assert pauses(pace, slept, 1_000) > 0
    assert pauses(pace, slept, 1_000) == 0
    pace.at_the_end()
    assert pauses(pace, slept, 1) == 1

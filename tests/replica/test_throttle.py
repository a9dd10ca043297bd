"""The follower's pauses: between the writes of a batch, and never for so long that it stays behind."""

from __future__ import annotations

from moneystate.replica.throttle import PAUSE_S, SPREAD_S, WriteThrottle


def pauses(throttle: WriteThrottle, slept: list[float], writes: int) -> int:
    slept.clear()
    for _ in range(writes):
        throttle.pause()
    return len(slept)


def test_a_batch_is_spread_and_a_large_one_no_further() -> None:
    slept: list[float] = []
    throttle = WriteThrottle(slept.append)
    throttle.at_the_end()
    assert pauses(throttle, slept, 75) == 75  # 1,200 changes
    throttle.at_the_end()
    assert SPREAD_S <= pauses(throttle, slept, 10_000) * PAUSE_S < SPREAD_S + 2 * PAUSE_S


def test_without_the_logs_end_in_between_there_are_no_more_pauses() -> None:
    slept: list[float] = []
    throttle = WriteThrottle(slept.append)
    assert pauses(throttle, slept, 100) == 0  # the first catching up
    throttle.at_the_end()
    assert pauses(throttle, slept, 1_000) > 0
    assert pauses(throttle, slept, 1_000) == 0
    throttle.at_the_end()
    assert pauses(throttle, slept, 1) == 1

"""One sentence about what limits the speed-up, and what to do."""

from __future__ import annotations

from collections import Counter
from typing import Final

from moneystate.skew.loads import hot_keys, of_key_groups, of_operator_partitions, speed_ups

EVEN: Final = 0.8  # of the speed-up of an even load
WORTH: Final = 1.1  # a change that gives less is not advised
TIMES: Final = (2, 4, 8, 16)  # as many key groups
LEAST_IN_GROUP: Final = 100  # records of a sample for each key group, for figures that mean something


def advice(by_key: Counter[bytes], key_groups: int, partitions: int, is_whole: bool) -> str:
    """About a job with so many key groups on up to `partitions` operator partitions. `is_whole`: the counts are of all
    records."""
    if not by_key:
        return "No record of the sample has a key: check --key and --format."
    if not is_whole and by_key.total() < LEAST_IN_GROUP * key_groups:
        return f"The sample is small for {key_groups:,} key groups: give --sample {LEAST_IN_GROUP * key_groups}."
    got = of_operator_partitions(of_key_groups(by_key, key_groups), partitions).speed_up
    hottest = hot_keys(by_key, 1, is_whole)[0]
    possible = 1 / (hottest.share + (1 - hottest.share) / partitions)  # if all other keys were spread evenly
    if got >= EVEN * partitions:
        return f"The load is even: {partitions:,} operator partitions give {got:.1f} times the speed of one."
    more = _more_key_groups(by_key, key_groups, partitions, EVEN * possible) if got < EVEN * possible else None
    if more is not None:
        return (
            f"More key groups help: with {more[0]:,} of them, {partitions:,} operator partitions give {more[1]:.1f} "
            f"times the speed of one instead of {got:.1f}."
        )
    if possible < EVEN * partitions:
        return (
            f"One key has {hottest.share:.1%} of the records, and one core processes a key, so {partitions:,} operator "
            f"partitions give {got:.1f} times the speed of one and no number gives more than "
            f"{1 / hottest.share:.1f} times: split this key, or aggregate its records before."
        )
    return (
        f"{partitions:,} operator partitions give {got:.1f} times the speed of one, and more key groups do not help: "
        "use fewer partitions, or a key with more values."
    )


def _more_key_groups(
    by_key: Counter[bytes], key_groups: int, partitions: int, wanted: float
) -> tuple[int, float] | None:
    """The least of `TIMES` as many key groups that reach the speed-up `wanted`, otherwise the best of them; None: not
    worth it."""
    got = speed_ups(by_key, key_groups, [partitions])[partitions]
    tried = [(n, speed_ups(by_key, n, [partitions])[partitions]) for n in (key_groups * times for times in TIMES)]
    enough = next((one for one in tried if one[1] >= wanted), None)
    best = enough or max(tried, key=lambda one: (one[1], -one[0]))
    return best if best[1] >= WORTH * got else None

"""Which offsets a sample reads: slices all over each partition, because keys come and go with time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moneystate.kafka.offsets import FullPartition
from moneystate.kafka.ranges import Range

SLICES: Final = 10  # of a partition


def slices(logs: Mapping[FullPartition, tuple[int, int]], wanted: int) -> list[list[Range]]:
    """Rounds of ranges, of each partition at most one in a round, with about `wanted` offsets in all.

    `logs`: the first offset and the end of each partition. Each partition's part of the sample is its part of the
    offsets, so records of the sample count alike.
    """
    total = sum(end - start for start, end in logs.values())
    if total <= wanted:
        return [[Range(*tp, start, end) for tp, (start, end) in sorted(logs.items()) if end > start]]
    rounds = [
        [one for tp, log in sorted(logs.items()) if (one := _slice(tp, *log, number, wanted / total)) is not None]
        for number in range(SLICES)
    ]
    return [ranges for ranges in rounds if ranges]


def _slice(tp: FullPartition, start: int, end: int, number: int, share: float) -> Range | None:
    """The first offsets of one of `SLICES` equal parts of the log. What rounding leaves over goes to later slices."""
    size = end - start
    first, last = size * number // SLICES, size * (number + 1) // SLICES
    take = round(last * share) - round(first * share)
    return Range(*tp, start + first, start + first + take) if take else None

"""The bins of percentiles: whole numbers whose quotient is at most 101/99, so that one number stands for all of them
within 1 %.

The bounds are the whole parts of (101/99)^i, computed with whole numbers. So every machine has the same bins, and the
counts of two buckets merge by adding them. Bin 0 is the value 0, bin n the values above `BOUNDS[n - 1]` up to
`BOUNDS[n]`, and bin -n the same values below 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

LIMIT: Final = 1 << 53  # values are below it
GROWTH: Final = (101, 99)


def _bounds() -> list[int]:
    bounds, above, below = [0], 1, 1
    while bounds[-1] < LIMIT:
        if above // below > bounds[-1]:
            bounds.append(above // below)
        above, below = above * GROWTH[0], below * GROWTH[1]
    return bounds


BOUNDS: Final = _bounds()


class Ratio(NamedTuple):
    """An exact fraction."""

    above: int
    below: int


def bin_of(value: int) -> int:
    return bisect_left(BOUNDS, value) if value >= 0 else -bisect_left(BOUNDS, -value)


def count(values: Iterable[int]) -> dict[int, int]:
    """Returns how many of the values are in each bin."""
    bins: dict[int, int] = {}
    for value in values:
        number = bisect_left(BOUNDS, value) if value >= 0 else -bisect_left(BOUNDS, -value)
        bins[number] = bins.get(number, 0) + 1
    return bins


def middle(number: int) -> Ratio:
    """Returns what stands for the values of a bin: equally far from its lowest and its highest, measured by their
    size."""
    if number == 0:
        return Ratio(0, 1)
    size = abs(number)
    low, high = BOUNDS[size - 1] + 1, BOUNDS[size]
    return Ratio(2 * low * high if number > 0 else -2 * low * high, low + high)


def quantile(bins: Mapping[int, int], percent: int, low: int, high: int) -> Ratio:
    """Returns what stands for the value at the sorted index floor(percent / 100 * (n - 1)). `low`, `high`: the least
    and the greatest of all values."""
    left = percent * (sum(bins.values()) - 1) // 100
    for number in sorted(bins):
        left -= bins[number]
        if left < 0:
            result = middle(number)
            if result.above < low * result.below:
                return Ratio(low, 1)
            return Ratio(high, 1) if result.above > high * result.below else result
    raise ValueError("expected values, found none")

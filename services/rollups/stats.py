"""The aggregate of one metric in one bucket: made from values, merged, and as bytes.

All numbers are whole: values are scaled by the metric's digits. So sums are exact, and merging gives the same as all
values at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from services.rollups import bins as quantiles
from services.rollups import varints

HAS_INCREASE: Final = 1
HAS_BINS: Final = 2
FLAG_BITS: Final = 2


class Stats:
    """`first_at`, `last_at`: in ms; `increase`: of a counter, else None; `bins`: of a metric with percentiles."""

    __slots__ = ("bins", "count", "first", "first_at", "increase", "last", "last_at", "max", "min", "total")

    def __init__(
        self, count: int, min: int, max: int, total: int, first: int, last: int, first_at: int, last_at: int,
        increase: int | None, bins: dict[int, int] | None,
    ) -> None:  # fmt: skip
        self.count = count
        self.min = min
        self.max = max
        self.total = total
        self.first = first
        self.last = last
        self.first_at = first_at
        self.last_at = last_at
        self.increase = increase
        self.bins = bins


def step(before: int, after: int) -> int:
    """Returns how much a counter has grown. A smaller value means that it began again with 0."""
    return after - before if after >= before else after


def of_values(times: Sequence[int], values: Sequence[int], counter: bool, percentiles: bool) -> Stats:
    """`times`: ascending, in ms. There is one at least."""
    increase = sum(map(step, values, values[1:])) if counter else None
    return Stats(
        len(values), min(values), max(values), sum(values), values[0], values[-1], times[0], times[-1], increase,
        quantiles.count(values) if percentiles else None,
    )  # fmt: skip


def merged(parts: Sequence[Stats]) -> Stats:
    """Merges buckets one after the other. What one of them lacks, the whole lacks."""
    if len(parts) == 1:
        return parts[0]
    first, last = parts[0], parts[-1]
    return Stats(
        sum([part.count for part in parts]), min([part.min for part in parts]), max([part.max for part in parts]),
        sum([part.total for part in parts]), first.first, last.last, first.first_at, last.last_at,
        _increase(parts), added_bins(parts),
    )  # fmt: skip


def _increase(parts: Sequence[Stats]) -> int | None:
    total = 0
    before: Stats | None = None
    for part in parts:
        if part.increase is None:
            return None
        total += part.increase + (0 if before is None else step(before.last, part.first))
        before = part
    return total


def added_bins(parts: Sequence[Stats]) -> dict[int, int] | None:
    """None if one of them has no bins."""
    bins: dict[int, int] = {}
    for part in parts:
        if part.bins is None:
            return None
        for number, n in part.bins.items():
            bins[number] = bins.get(number, 0) + n
    return bins


def write(out: bytearray, stats: Stats, start: int, end: int, near: int) -> None:
    """Appends the bytes of an aggregate. `start`, `end`: of its bucket, in ms; `near`: a value that `min` is probably
    close to, such as that of the bucket before."""
    has_increase = HAS_INCREASE if stats.increase is not None else 0
    has_bins = HAS_BINS if stats.bins is not None else 0
    varints.write(out, stats.count << FLAG_BITS | has_increase | has_bins)
    varints.write_signed(out, stats.min - near)
    varints.write(out, stats.max - stats.min)
    if stats.count > 1:
        if stats.max > stats.min:
            varints.write(out, stats.total - stats.min * stats.count)
            varints.write(out, stats.first - stats.min)
            varints.write(out, stats.last - stats.min)
        varints.write(out, end - 1 - stats.last_at)
    varints.write(out, stats.first_at - start)
    if stats.increase is not None and stats.count > 1:
        varints.write(out, stats.increase)
    if stats.bins is not None:
        _write_bins(out, stats.bins, quantiles.bin_of(stats.min))


def _write_bins(out: bytearray, bins: dict[int, int], lowest: int) -> None:
    varints.write(out, len(bins))
    before = lowest
    for number in sorted(bins):
        varints.write(out, number - before)
        varints.write(out, bins[number])
        before = number


def read(reader: varints.Reader, start: int, end: int, near: int) -> Stats:
    """The inverse of `write`."""
    flags, distance, spread = reader.numbers(3)
    count = flags >> FLAG_BITS
    low = near + varints.signed_of(distance)
    has_increase = flags & HAS_INCREASE
    total, first, last, last_at = low * count, low, low, -1
    increase: int | None = 0 if has_increase else None
    if count == 1:
        last_at = first_at = start + reader.number()
    else:
        if spread:
            above, first_above, last_above = reader.numbers(3)
            total, first, last = total + above, low + first_above, low + last_above
        before_end, after_start = reader.numbers(2)
        last_at, first_at = end - 1 - before_end, start + after_start
        if has_increase:
            increase = reader.number()
    bins = _read_bins(reader, quantiles.bin_of(low)) if flags & HAS_BINS else None
    return Stats(count, low, low + spread, total, first, last, first_at, last_at, increase, bins)


def _read_bins(reader: varints.Reader, lowest: int) -> dict[int, int]:
    bins: dict[int, int] = {}
    number = lowest
    for _ in range(reader.number()):
        number += reader.number()
        bins[number] = reader.number()
    return bins

"""Answers about time: which tier fits, and the columns of a series."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import moneystate as ms
from services.rollups.catalog import Known, Settings
from services.rollups.config import Config
from services.rollups.outputs import exact, quantile
from services.rollups.points import Point
from services.rollups.records import SUM
from services.rollups.tiers import DAY, DAYS, TIERS, Tier

NO_VALUE: Final = float("nan")  # in packed columns


@dataclass(frozen=True)
class Gap:
    """A time without values."""

    start: ms.Millis
    end: ms.Millis


@dataclass(frozen=True)
class Series:
    """Buckets of a metric, column by column. `revisions`: 0 for one that is not put out yet; `completeness`: values by
    what the device's interval makes; `increases`, `rates`: of a counter, with the step from the bucket before, and by
    second of the time covered; `open`: the last bucket is not closed yet."""

    device: str
    metric: str
    unit: str
    tier: str
    zone: str
    starts: list[ms.Millis]
    ends: list[ms.Millis]
    counts: list[int]
    mins: list[float]
    maxs: list[float]
    means: list[float]
    sums: list[Annotated[ms.Decimal, SUM]]
    p50: list[float] | None
    p90: list[float] | None
    p99: list[float] | None
    increases: list[float] | None
    rates: list[float | None] | None
    revisions: list[int]
    completeness: list[float]
    open: bool
    gaps: list[Gap]


@dataclass(frozen=True)
class PackedSeries:
    """The same series as bytes: 64-bit little-endian whole numbers for times, counts and revisions, doubles for others.
    NaN: there is no value."""

    device: str
    metric: str
    unit: str
    tier: str
    zone: str
    starts: bytes
    ends: bytes
    counts: bytes
    mins: bytes
    maxs: bytes
    means: bytes
    p50: bytes
    p90: bytes
    p99: bytes
    increases: bytes
    rates: bytes
    revisions: bytes
    completeness: bytes
    open: bool


def tier_for(config: Config, start: int, end: int, points: int, now: int) -> Tier:
    """The finest one that has at most so many buckets, and still has the first of them; else the coarsest."""
    for tier in TIERS:
        first = start - start % tier.length_ms
        if buckets_in(tier, start, end) <= points and first + tier.length_ms + config.keep_ms(tier) > now:
            return tier
    return DAYS


def buckets_in(tier: Tier, start: int, end: int) -> int:
    """Returns how many buckets there are at most: a local day has two UTC days' parts."""
    if tier is DAYS:
        return -(-(end - start) // DAY)
    return -(-end // tier.length_ms) - start // tier.length_ms


class Columns:
    """The points of a series as values."""

    def __init__(self, points: Sequence[Point], known: Known) -> None:
        self.points = points
        self.stats = [point.stats for point in points]
        self.known = known
        self.percentiles = bool(points) and all(point.stats.bins is not None for point in points)
        self.counter = known.counter and all(point.increase is not None for point in points)

    def mins(self) -> list[float]:
        scale = self.known.scale
        return [its.min / scale for its in self.stats]

    def maxs(self) -> list[float]:
        scale = self.known.scale
        return [its.max / scale for its in self.stats]

    def means(self) -> list[float]:
        scale = self.known.scale
        return [its.total / (its.count * scale) for its in self.stats]

    def increases(self) -> list[float]:
        return [(point.increase or 0) / self.known.scale for point in self.points]

    def rates(self) -> list[float | None]:
        """Returns the rates by second."""
        pairs = zip(self.increases(), self.points, strict=True)
        return [1_000 * increase / point.covered if point.covered else None for increase, point in pairs]

    def completeness(self) -> list[float]:
        return [point.stats.count / point.expected for point in self.points]

    def quantiles(self, percent: int) -> list[float] | None:
        return [quantile(its, percent, self.known.scale) for its in self.stats] if self.percentiles else None


def series_of(
    device: str, known: Known, tier: str, settings: Settings, points: Sequence[Point], start: int, end: int
) -> Series:  # fmt: skip
    its = Columns(points, known)
    return Series(
        device, known.name, known.unit, tier, settings.zone, [point.start for point in points],
        [point.end for point in points], [point.stats.count for point in points], its.mins(),
        its.maxs(), its.means(),
        [exact(point.stats.total, known.digits) for point in points], its.quantiles(50), its.quantiles(90),
        its.quantiles(99), its.increases() if its.counter else None, its.rates() if its.counter else None,
        [point.revision for point in points], its.completeness(), bool(points) and points[-1].open,
        gaps_of(points, start, end),
    )  # fmt: skip


def packed_of(device: str, known: Known, tier: str, settings: Settings, points: Sequence[Point]) -> PackedSeries:
    its = Columns(points, known)
    nothing = [NO_VALUE] * len(points)
    p50, p90, p99 = (doubles(its.quantiles(percent) or nothing) for percent in (50, 90, 99))
    return PackedSeries(
        device, known.name, known.unit, tier, settings.zone, whole(point.start for point in points),
        whole(point.end for point in points), whole(point.stats.count for point in points),
        doubles(its.mins()), doubles(its.maxs()), doubles(its.means()),
        p50, p90, p99, doubles(its.increases() if its.counter else nothing),
        doubles(its.rates() if its.counter else nothing), whole(point.revision for point in points),
        doubles(its.completeness()), bool(points) and points[-1].open,
    )  # fmt: skip


def whole(numbers: Iterable[int]) -> bytes:
    return _little(array("q", numbers))


def doubles(numbers: Iterable[float | None]) -> bytes:
    return _little(array("d", [NO_VALUE if number is None else number for number in numbers]))


def _little(numbers: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def gaps_of(points: Sequence[Point], start: int, end: int) -> list[Gap]:
    """Lists the gaps from the beginning of the first point's time to `end`, which is at most now."""
    gaps: list[Gap] = []
    known = start
    for point in points:
        if point.start > known:
            gaps.append(Gap(known, point.start))
        known = max(known, point.end)
    if known < end:
        gaps.append(Gap(known, end))
    return gaps

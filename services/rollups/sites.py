"""Buckets of several devices as one."""

from __future__ import annotations

from collections.abc import Iterable

from services.rollups.points import Point
from services.rollups.stats import Stats, added_bins


def in_digits(points: list[Point], digits: int, wanted: int) -> list[Point]:
    """Converts points to as many digits as another device has. Bins are of one number of digits."""
    if digits == wanted:
        return points
    by = 10 ** (wanted - digits)
    made = []
    for point in points:
        its = point.stats
        increase = None if its.increase is None else its.increase * by
        stats = Stats(
            its.count, its.min * by, its.max * by, its.total * by, its.first * by, its.last * by, its.first_at,
            its.last_at, increase, None,
        )  # fmt: skip
        increase = None if point.increase is None else point.increase * by
        made.append(point._replace(stats=stats, increase=increase))
    return made


def across(devices: Iterable[list[Point]]) -> list[Point]:
    """Points of the same time become one. Those of devices in other zones may overlap."""
    by_start: dict[tuple[int, int], list[Point]] = {}
    for points in devices:
        for point in points:
            by_start.setdefault((point.start, point.end), []).append(point)
    return [_together(by_start[span]) for span in sorted(by_start)]


def _together(points: list[Point]) -> Point:
    parts = [point.stats for point in points]
    first, last = min(parts, key=lambda its: its.first_at), max(parts, key=lambda its: its.last_at)
    increases = [point.increase for point in points if point.increase is not None]
    increase = sum(increases) if len(increases) == len(points) else None
    stats = Stats(
        sum(its.count for its in parts), min(its.min for its in parts), max(its.max for its in parts),
        sum(its.total for its in parts), first.first, last.last, first.first_at, last.last_at, increase,
        added_bins(parts),
    )  # fmt: skip
    return Point(
        points[0].start, points[0].end, max(point.revision for point in points),
        sum(point.expected for point in points), stats, any(point.open for point in points), increase,
        sum(point.covered for point in points),
    )  # fmt: skip

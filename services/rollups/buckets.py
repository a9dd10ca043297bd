"""The aggregates of all metrics of a bucket as bytes: of each its number, a length and the aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.rollups import stats, varints
from services.rollups.stats import Stats


def pack(metrics: Mapping[int, Stats], start: int, end: int) -> bytes:
    out = bytearray()
    before = -1
    for number in sorted(metrics):
        varints.write(out, number - before - 1)
        its = bytearray()
        stats.write(its, metrics[number], start, end, 0)
        varints.write_bytes(out, bytes(its))
        before = number
    return bytes(out)


def unpack(packed: bytes, start: int, end: int, wanted: int | None = None) -> dict[int, Stats]:
    """`wanted`: only this metric."""
    reader = varints.Reader(packed)
    metrics: dict[int, Stats] = {}
    number = -1
    while reader.more():
        number += reader.number() + 1
        size = reader.number()
        after = reader.pos + size
        if wanted in (None, number):
            metrics[number] = stats.read(reader, start, end, 0)
        reader.pos = after
    return metrics


def merged(parts: Iterable[Mapping[int, Stats]]) -> dict[int, Stats]:
    """Merges the statistics of buckets one after the other."""
    by_number: dict[int, list[Stats]] = {}
    for part in parts:
        for number, its in part.items():
            by_number.setdefault(number, []).append(its)
    return {number: stats.merged(its) for number, its in by_number.items()}

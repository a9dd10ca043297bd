"""Cuts a history into chunks that end at about the same event time in all partitions, as the job cuts its batches
(`moneystate.engine.plan.share`). Chunk boundaries decide how much is buffered between chunks. They never change the
output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from moneystate.bootstrap.history import PartitionHistory
from moneystate.engine.plan import Backlog, Reached, TopicPartition, share

POINTS_AHEAD = 8  # of each partition, among which the end of a chunk is searched

Chunk = dict[TopicPartition, tuple[int, int]]  # first offset and end offset of each partition


def cut_into_chunks(partitions: list[PartitionHistory], most: int) -> list[Chunk]:
    """Cuts all of `partitions` into chunks of at most `most` offsets, at least one."""
    positions = {p.tp: p.start for p in partitions}
    chunks: list[Chunk] = []
    while True:
        takes = share({p.tp: _backlog(p, positions[p.tp]) for p in partitions}, most)
        chunks.append({tp: (start, start + takes[tp]) for tp, start in positions.items()})
        positions = {tp: end for tp, (_, end) in chunks[-1].items()}
        if all(positions[p.tp] == p.end for p in partitions):
            return chunks


def cut_at(
    partitions: list[PartitionHistory], most: int, reached: Sequence[Reached]
) -> tuple[list[Chunk], dict[int, int]]:
    """Works like `cut_into_chunks`, but chunks also end where a run recorded its watermark. Also returns these
    watermarks, by the number of the chunk that ends there. Records that lie beyond the history do not count."""
    chunks: list[Chunk] = []
    watermarks: dict[int, int] = {}
    rest = partitions
    for ends, watermark_ms in reached:
        if any(ends.get(p.tp, p.start) > p.end for p in partitions):
            break
        until = {p.tp: max(p.start, ends.get(p.tp, p.start)) for p in rest}
        if not chunks or any(p.start < until[p.tp] for p in rest):
            chunks += cut_into_chunks([replace(p, end=until[p.tp]) for p in rest], most)
        watermarks[len(chunks) - 1] = watermark_ms
        rest = [replace(p, start=until[p.tp]) for p in rest]
    return chunks + cut_into_chunks(rest, most), watermarks


def _backlog(p: PartitionHistory, position: int) -> Backlog:
    """The rest of a partition from `position` on, with its known event times."""
    after = bisect_right(p.points, (position, 1 << 62))
    ahead = [(offset - position, ms) for offset, ms in p.points[after : after + POINTS_AHEAD]]
    if after == 0:
        return Backlog(p.end - position, tuple(_from_head(ahead)))
    offset, ms = p.points[after - 1]
    if not ahead:
        before = p.points[after - 2] if after > 1 else (offset, ms)
        return Backlog(
            p.end - position,
            ((0, ms + _run_on(before, (offset, ms), position)), *_slope(before, (offset, ms), position)),
        )
    gone, way = position - offset, ahead[0][0] + position - offset
    return Backlog(p.end - position, ((0, ms + (ahead[0][1] - ms) * gone // way), *ahead))


def _from_head(ahead: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Uses the first known time for the head, too."""
    return [(0, ahead[0][1]), *ahead[1:]] if ahead else []


def _run_on(before: tuple[int, int], last: tuple[int, int], offset: int) -> int:
    """The event time at `offset`, at the rate between the last two points."""
    if last[0] == before[0]:
        return 0
    return max(0, last[1] - before[1]) * (offset - last[0]) // (last[0] - before[0])


def _slope(before: tuple[int, int], last: tuple[int, int], offset: int) -> list[tuple[int, int]]:
    """A second point beyond the last one, which gives the rate."""
    n = last[0] - before[0]
    return [] if n == 0 else [(n, last[1] + _run_on(before, last, offset + n))]

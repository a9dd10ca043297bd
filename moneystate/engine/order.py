"""The ordering rule: order time, lateness and watermark, computed from the log alone (docs/model.md section 2).

`order_time(e) = max(event_time(e), high_before(e) - bound)`. Each input may have its own bound. The maximum can be
computed in two parts: a source task, which knows only the records of its range, computes the first (`RangeOrder`). A
key group, which knows each partition's high before the range, computes the second (`finalize_order_time`). Neither
needs the other's state.
"""

from __future__ import annotations

from collections.abc import Iterable

from moneystate.engine.items import END_OF_TIME, NO_TIME, Mark

Partition = tuple[int, int]  # topic code, partition


class RangeOrder:
    """Order times within one range of one partition. It sees the records in offset order."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self.high = NO_TIME  # largest event time so far; NO_TIME: before the first record

    def observe(self, event_time_ms: int) -> int:
        """The order time of the next record, as far as this range decides it."""
        high = self.high
        if event_time_ms >= high:
            self.high = event_time_ms
            return event_time_ms
        floor = high - self.bound_ms
        return event_time_ms if event_time_ms > floor else floor


def finalize_order_time(order_time_ms: int, floor_ms: int, watermark: int) -> int:
    """Finalizes an order time of `RangeOrder`. `floor_ms` is the partition's high before the range, minus its bound.

    The result is never behind the watermark. Only events of a partition that was idle or is new could be (section 2).
    """
    if floor_ms > order_time_ms:
        order_time_ms = floor_ms
    return watermark if order_time_ms < watermark else order_time_ms


def floors(highs: dict[Partition, int], bounds: dict[int, int]) -> dict[Partition, int]:
    """The lowest order time that a following record of each partition can get. Partitions of timed streams have no
    floor: their records carry their order times."""
    return {place: high - bounds[place[0]] for place, high in highs.items() if place[0] in bounds}


def advance(
    highs: dict[Partition, int], marks: list[Mark], bounds: dict[int, int], watermark: int, drain_to: int
) -> int:
    """Raises `highs` by a batch's marks and returns the watermark after the batch, which never goes back. `bounds` are
    by topic. A timed stream has none: its high is its last mark, which is the end of time once its writer is drained.
    `drain_to`: the watermark that a drain takes (`drained_watermark`), or NO_TIME.

    The watermark stays where it is if an active partition has never had a record. If all partitions are idle, nothing
    is left to wait for: it goes to the time of the partition that is farthest ahead, as Flink's valve does. The clock
    of a mark counts for the watermark only: it is no high, so it makes no record of its partition late.
    """
    for topic, partition, high, _, _ in marks:
        if high > highs.get((topic, partition), NO_TIME):
            highs[topic, partition] = high
    if drain_to != NO_TIME:
        return max(watermark, drain_to)
    least = END_OF_TIME
    for topic, partition, _, holds, clock in marks:
        if holds:
            high = max(highs.get((topic, partition), NO_TIME), clock)
            if high == NO_TIME:
                return watermark
            reached = high - bounds.get(topic, 0)
            if reached < least:
                least = reached
    if least == END_OF_TIME:
        return END_OF_TIME if marks and _all_ended(highs, marks) else max(watermark, _farthest(highs, marks, bounds))
    return max(watermark, least)


def drained_watermark(drain: bool, until_ms: int | None) -> int:
    """The watermark that a batch takes at least; NO_TIME if it does not drain. `until_ms`: the last time that a drain
    runs; None: all that is left."""
    if not drain:
        return NO_TIME
    return END_OF_TIME if until_ms is None else until_ms + 1


def _farthest(highs: dict[Partition, int], marks: list[Mark], bounds: dict[int, int]) -> int:
    """The watermark of the partition that is farthest ahead, of those that have not ended; NO_TIME: none has had a
    record."""
    farthest = NO_TIME
    for topic, partition, _, _, _ in marks:
        high = highs.get((topic, partition), NO_TIME)
        if NO_TIME < high < END_OF_TIME:
            farthest = max(farthest, high - bounds.get(topic, 0))
    return farthest


def marks_for(partitions: Iterable[Partition], bounds: dict[int, int], watermark: int) -> list[Mark]:
    """Marks that advance the watermark to a recorded one, whatever the logs say."""
    return [(topic, partition, NO_TIME, 1, watermark + bounds.get(topic, 0)) for topic, partition in partitions]


def _all_ended(highs: dict[Partition, int], marks: list[Mark]) -> bool:
    return all(highs.get((topic, partition), NO_TIME) == END_OF_TIME for topic, partition, _, _, _ in marks)


def holder(highs: dict[Partition, int], marks: list[Mark], bounds: dict[int, int]) -> list[Partition]:
    """The partition that holds the watermark back most, as a list of one; empty if all are idle."""
    least: list[tuple[int, int, int]] = []
    for topic, partition, _, holds, clock in marks:
        high = max(highs.get((topic, partition), NO_TIME), clock)
        if holds and high < END_OF_TIME:
            place = (high if high == NO_TIME else high - bounds.get(topic, 0), topic, partition)
            if not least or place < least[0]:
                least = [place]
    return [(topic, partition) for _, topic, partition in least]


def silent(highs: dict[Partition, int], marks: list[Mark]) -> list[Partition]:
    """The partitions that hold the watermark back because they have never had a record."""
    return [
        (topic, partition)
        for topic, partition, _, holds, clock in marks
        if holds and clock == NO_TIME and (topic, partition) not in highs
    ]

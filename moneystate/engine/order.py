"""The ordering rule: order time, lateness and watermark, computed from the log alone (DESIGN.md section 2).

`order_time(e) = max(event_time(e), high_before(e) - bound)`, where each input may have a bound of its own. As `max`
distributes, a source task that knows only the records of its range can do its part (`RangeOrder`), and a key group,
which knows each partition's high before the range, the rest (`finalize_order_time`): neither needs the other's state.
"""

from __future__ import annotations

from moneystate.engine.items import END_OF_TIME, NO_TIME, Mark

Partition = tuple[int, int]  # topic code, partition


class RangeOrder:
    """Order times within one range of one partition, its records seen in offset order.

    `high` is the largest event time seen so far, NO_TIME before the first.
    """

    def __init__(self, bound_ms: int, high: int = NO_TIME) -> None:
        self.bound_ms = bound_ms
        self.high = high

    def observe(self, event_time_ms: int) -> int:
        """The order time of the next record, as far as this range decides it."""
        high = self.high
        if event_time_ms >= high:
            self.high = event_time_ms
            return event_time_ms
        floor = high - self.bound_ms
        return event_time_ms if event_time_ms > floor else floor


def finalize_order_time(order_time_ms: int, floor_ms: int, watermark: int) -> int:
    """An order time of `RangeOrder`, with what was before the range: `floor_ms` is the partition's high there less its
    bound.

    Never behind the watermark: that happens only to a partition that was idle or is new (section 2), whose events
    become known now.
    """
    if floor_ms > order_time_ms:
        order_time_ms = floor_ms
    return watermark if order_time_ms < watermark else order_time_ms


def floors(highs: dict[Partition, int], bounds: dict[int, int]) -> dict[Partition, int]:
    """No record that follows in a partition takes an order time before its floor. Partitions of timed streams have
    none: their records carry their order times."""
    return {place: high - bounds[place[0]] for place, high in highs.items() if place[0] in bounds}


def advance(highs: dict[Partition, int], marks: list[Mark], bounds: dict[int, int], watermark: int, drain: bool) -> int:
    """Raise `highs` by a batch's marks and give the watermark after it, which never goes back. `bounds`: by topic; a
    timed stream has none, and its high is the last mark in it, which is the end of time once its writer is drained.

    A partition that holds back and has had no record keeps the watermark where it is; when all are idle it stays, too.
    """
    for topic, partition, high, _ in marks:
        if high > highs.get((topic, partition), NO_TIME):
            highs[topic, partition] = high
    if drain:
        return END_OF_TIME
    least = END_OF_TIME
    for topic, partition, _, holds in marks:
        if holds:
            high = highs.get((topic, partition), NO_TIME)
            if high == NO_TIME:
                return watermark
            reached = high - bounds.get(topic, 0)
            if reached < least:
                least = reached
    if least == END_OF_TIME:
        return END_OF_TIME if marks and _all_ended(highs, marks) else watermark
    return max(watermark, least)


def _all_ended(highs: dict[Partition, int], marks: list[Mark]) -> bool:
    return all(highs.get((topic, partition), NO_TIME) == END_OF_TIME for topic, partition, _, _ in marks)


def holder(highs: dict[Partition, int], marks: list[Mark], bounds: dict[int, int]) -> list[Partition]:
    """The partition that holds the watermark back most, as a list of one; none where all are idle."""
    least: list[tuple[int, int, int]] = []
    for topic, partition, _, holds in marks:
        if holds:
            high = highs.get((topic, partition), NO_TIME)
            place = (high if high == NO_TIME else high - bounds.get(topic, 0), topic, partition)
            if not least or place < least[0]:
                least = [place]
    return [(topic, partition) for _, topic, partition in least]


def silent(highs: dict[Partition, int], marks: list[Mark]) -> list[Partition]:
    """The partitions that hold the watermark back because they have never had a record."""
    return [(topic, partition) for topic, partition, _, holds in marks if holds and (topic, partition) not in highs]

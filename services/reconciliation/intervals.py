"""What a change or the timer does to an interval of a pair, and the query about intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import moneystate as ms
from moneystate.api.handles import Index
from services.reconciliation.config import Config, Pair
from services.reconciliation.queries import MOST
from services.reconciliation.records import Completeness, CountChange, Counts, Interval


@dataclass(frozen=True)
class Intervals:
    """`pairs`: by name."""

    pairs: Mapping[str, Pair]
    records: ms.Output[Completeness]
    look: ms.Timer
    by_pair: Index[Interval, tuple[str, int]]

    def take(self, ctx: ms.Context[Config], change: CountChange, interval: Interval) -> None:
        pair = self.pairs.get(change.pair)
        if pair is None:  # the configuration has dropped it
            return
        interval.pair, interval.start = change.pair, change.interval_start
        interval.counts = added(interval.counts, change)
        due = min(pair.next_multiple(ctx.now), pair.last_write(interval.start))
        if interval.due is None or due < interval.due:
            self.look_at(ctx, interval, due)

    def write(self, ctx: ms.Context[Config], interval: Interval) -> None:
        pair = self.pairs.get(interval.pair)
        if pair is None or interval.final:
            interval.clear()
            return
        last = pair.last_write(interval.start)
        if ctx.now < last:
            if interval.counts != interval.written:
                self.put_out(ctx, pair, interval)
            self.look_at(ctx, interval, last)
        elif interval.revision or interval.counts != Counts():
            interval.final = True
            self.put_out(ctx, pair, interval)
            self.look_at(ctx, interval, last + pair.retention_ms)
        else:
            interval.clear()

    def look_at(self, ctx: ms.Context[Config], interval: Interval, due: int) -> None:
        interval.due = due
        ctx.at(self.look, due)

    def put_out(self, ctx: ms.Context[Config], pair: Pair, interval: Interval) -> None:
        interval.written = interval.counts
        interval.revision += 1
        ctx.emit(self.records, record_of(pair, interval))

    def intervals_of(self, view: ms.View, pair: str, limit: int = MOST) -> list[Completeness]:
        """The intervals of a pair as they were last written, the latest first."""
        known = self.pairs.get(pair)
        intervals = [interval for _, interval in view.find(self.by_pair, (pair,)) if interval.revision]
        every = [] if known is None else [record_of(known, interval) for interval in intervals]
        return ms.first(reversed(every), limit)


def added(counts: Counts, change: CountChange) -> Counts:
    return Counts(
        counts.expected + change.expected,
        counts.matched + change.matched,
        counts.missing + change.missing,
        counts.unexpected + change.unexpected,
        counts.duplicates + change.duplicates,
        counts.too_late + change.too_late,
    )


def percent(matched: int, expected: int) -> float:
    """Returns the matched percentage. It is 100 only if all match: a double would round 2^60 - 1 of 2^60 up to 100."""
    if matched == expected:
        return 100.0
    return min(100 * matched / expected, math.nextafter(100.0, 0.0))


def record_of(pair: Pair, interval: Interval) -> Completeness:
    counts = interval.written
    return Completeness(
        pair=pair.name,
        interval_start=interval.start,
        interval_end=interval.start + pair.o_ms,
        expected=counts.expected,
        matched=counts.matched,
        missing=counts.missing,
        pending=counts.expected - counts.matched - counts.missing,
        unexpected=counts.unexpected,
        duplicates=counts.duplicates,
        too_late=counts.too_late,
        percent=percent(counts.matched, counts.expected),
        revision=interval.revision,
        final=interval.final,
    )

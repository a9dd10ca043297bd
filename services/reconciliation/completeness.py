"""Counts of the items by pair and interval: the second of the two services, behind the first one's changes."""

from __future__ import annotations

import math

import moneystate as ms
from moneystate.records.iso_time import from_ms
from services.reconciliation.config import Config, Pair, check
from services.reconciliation.keys import interval_key
from services.reconciliation.queries import MOST
from services.reconciliation.records import Completeness, CountChange, Counts, Interval
from services.reconciliation.service import CHANGES

COMPLETENESS = "reconciliation-completeness"


def completeness(config: Config) -> ms.Service[Config]:
    service = ms.Service(COMPLETENESS, rules=config, namespace="reconciliation")
    check(service, config)
    pairs = {pair.name: pair for pair in config.pairs}

    def key_of(record: Completeness) -> str:
        """The time as it stands in the value."""
        start = record.interval_start
        return interval_key(record.pair, from_ms(start) if config.format == "json" else start)

    records = service.output(COMPLETENESS, Completeness, key=key_of, compacted=True, format=config.format)
    intervals = service.value("interval", Interval)
    by_pair = service.index("by_pair", intervals, by=lambda i: (i.pair, i.start))
    look = service.timer("look")  # at the next multiple of o where there was a change, and for the final record
    changes = service.input(CHANGES, CountChange, key=lambda c: interval_key(c.pair, c.interval_start), timed=True)

    @service.on(changes, intervals)
    def take(ctx: ms.Context[Config], change: CountChange, interval: Interval) -> None:
        pair = pairs.get(change.pair)
        if pair is None:  # the configuration has dropped it
            return
        interval.pair, interval.start = change.pair, change.interval_start
        interval.counts = added(interval.counts, change)
        due = min(pair.next_multiple(ctx.now), pair.last_write(interval.start))
        if interval.due is None or due < interval.due:
            interval.due = due
            ctx.at(look, due)

    @service.on(look, intervals)
    def write(ctx: ms.Context[Config], interval: Interval) -> None:
        pair = pairs.get(interval.pair)
        if pair is None or interval.final:
            interval.clear()
            return
        last = pair.last_write(interval.start)
        if ctx.now < last:
            if interval.counts != interval.written:
                put_out(ctx, pair, interval)
            look_again(ctx, interval, last)
        elif interval.revision or interval.counts != Counts():
            interval.final = True
            put_out(ctx, pair, interval)
            look_again(ctx, interval, last + pair.retention_ms)
        else:
            interval.clear()

    def look_again(ctx: ms.Context[Config], interval: Interval, due: int) -> None:
        interval.due = due
        ctx.at(look, due)

    def put_out(ctx: ms.Context[Config], pair: Pair, interval: Interval) -> None:
        interval.written = interval.counts
        interval.revision += 1
        ctx.emit(records, record_of(pair, interval))

    @service.query
    def intervals_of(view: ms.View, pair: str, limit: int = MOST) -> list[Completeness]:
        """The intervals of a pair as they were last written, the latest first."""
        known = pairs.get(pair)
        intervals = [interval for _, interval in view.find(by_pair, (pair,)) if interval.revision]
        every = [] if known is None else [record_of(known, interval) for interval in intervals]
        return ms.first(reversed(every), limit)

    return service


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

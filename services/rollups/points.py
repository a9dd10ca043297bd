"""The buckets of a device in a view: closed ones as they were put out last, and open ones made of what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

import moneystate as ms
from services.rollups import stats, zones
from services.rollups.blocks import Block
from services.rollups.catalog import Catalog, Known
from services.rollups.columns import column_id, frame_id
from services.rollups.minutes import IN_BLOCK
from services.rollups.records import Book, Bucket, Device, Minutes, OpenBlock, Packed, Pulse, Raw, Tail
from services.rollups.shelf import Maps, Shelf
from services.rollups.stats import Stats
from services.rollups.tails import Row, rows
from services.rollups.taking import tail_ids
from services.rollups.tiers import DAYS, HOURS, MINUTE, MINUTES, QUARTER, QUARTERS, Tier, block_id, bucket_id

S = TypeVar("S")


class States(NamedTuple):
    """The declared state."""

    device: ms.Value[Device]
    pulse: ms.Value[Pulse]
    book: ms.Value[Book]
    tails: ms.Map[Tail]
    raw: ms.Map[Raw]
    minutes: ms.Map[Minutes]
    buckets: ms.Map[Bucket]
    columns: ms.Map[Packed]


class ViewMap(Generic[S]):
    """A map under one device (`shelf.Gets`)."""

    loaded: dict[str, S | None]

    def __init__(self, view: ms.View, state: ms.Map[S], key: str) -> None:
        self.view = view
        self.state = state
        self.key = key
        self.loaded = {}

    def load(self, ids: Iterable[str]) -> None:
        """Reads entries together that `get` returns later."""
        wanted = list(ids)
        self.loaded.update(dict.fromkeys(wanted))
        for id, entry in self.view.entries_by_id(self.state, self.key, wanted).items():
            self.loaded[id] = entry

    def get(self, id: str) -> S | None:
        return self.loaded[id] if id in self.loaded else self.view.entry(self.state, self.key, id)


class Point(NamedTuple):
    """A bucket of one metric. `revision`: 0 if it was never put out; `covered`: ms in which a counter grew by its
    increase."""

    start: int
    end: int
    revision: int
    expected: int
    stats: Stats
    open: bool
    increase: int | None = None
    covered: int = 0


class DeviceView:
    def __init__(self, view: ms.View, states: States, catalog: Catalog, key: str) -> None:
        self.catalog = catalog
        self.config = catalog.config
        self.now = view.time_ms
        self.device = view.get(states.device, key)
        self.pulse = view.get(states.pulse, key)
        self.buckets = ViewMap(view, states.buckets, key)
        self.columns = ViewMap(view, states.columns, key)
        tails, raw = ViewMap(view, states.tails, key), ViewMap(view, states.raw, key)
        minutes = ViewMap(view, states.minutes, key)
        self.maps = Maps(tails, raw, minutes, self.buckets, self.columns)
        self.shelf = Shelf(self.maps, view.get(states.book, key))
        self.settings = catalog.settings_of(key, self.device)
        self.table = catalog.table(self.device.names)

    def known(self, metric: str) -> Known | None:
        return self.table.by_name.get(metric)

    def points(self, tier: Tier, known: Known, start: int, end: int) -> list[Point]:
        """The buckets with values of a metric that have a part of this time, in order."""
        if tier is MINUTES:
            result = self._minutes(known, start, end)
        else:
            result = [*self._packed(tier, known, start, end), *self._closed(tier, known, start, end)]
            closed = {point.start for point in result}
            result += [its for its in self._open(tier, known, start, end) if its.start not in closed]
        oldest_end = self.now - self.config.keep_ms(tier)
        inside = [its for its in result if its.start < end and its.end > start and its.end > oldest_end]
        return sorted(inside, key=lambda its: its.start)

    def _packed(self, tier: Tier, known: Known, start: int, end: int) -> list[Point]:
        points: list[Point] = []
        chunks = self.shelf.chunks(tier, max(0, start - 2 * tier.length_ms), end)
        self.columns.load([id for n in chunks for id in (frame_id(tier, n), column_id(tier, n, known.number))])
        for chunk in chunks:
            frame = self.shelf.frame(tier, chunk)
            if known.number in frame.numbers:
                column = self.shelf.column(tier, chunk, known.number, frame)
                points += [
                    Point(slot.start, slot.end, slot.revision, slot.expected, column[slot.start], False)
                    for slot in frame.slots
                    if slot.start in column
                ]
        return points

    def _closed(self, tier: Tier, known: Known, start: int, end: int) -> list[Point]:
        points: list[Point] = []
        starts = self.shelf.starts(tier, start - 2 * tier.length_ms, end)
        self.buckets.load([bucket_id(tier, at) for at in starts])
        for at in starts:
            slot, its = self.shelf.slot(tier, at), self.shelf.metrics(tier, at, known.number)
            if slot is not None and known.number in its:
                points.append(Point(at, slot.end, slot.revision, slot.expected, its[known.number], False))
        return points

    # Buckets that are not closed yet

    def _open(self, tier: Tier, known: Known, start: int, end: int) -> list[Point]:
        """Merged from the quarters of an hour that are closed, and those that are open."""
        spans = dict(self._span(tier, block) for block in self.pulse.open)
        spans.update({its.start: its.end for its in self.pulse.closings if its.tier == tier.code})
        points: list[Point] = []
        for first, after in sorted(spans.items()):
            if first < end and after > start:
                parts = self._quarters(tier, known, first, after)
                if parts:
                    expected = max(1, (after - first) // self.settings.interval_ms)
                    points.append(Point(first, after, 0, expected, stats.merged(parts), True))
        return points

    def _span(self, tier: Tier, block: OpenBlock) -> tuple[int, int]:
        if tier is DAYS:
            return zones.day_of(block.zone or self.settings.zone, block.start)
        first = block.start - block.start % tier.length_ms
        return first, first + tier.length_ms

    def _quarters(self, tier: Tier, known: Known, first: int, after: int) -> list[Stats]:
        parts: dict[int, Stats] = {}
        starts = self.shelf.starts(QUARTERS, first, after) if tier is not QUARTERS else []
        self.buckets.load([bucket_id(QUARTERS, at) for at in starts])
        for at in starts:
            bucket = self.maps.buckets.get(bucket_id(QUARTERS, at))
            its = self.shelf.metrics(QUARTERS, at, known.number)
            if bucket is not None and known.number in its and (tier is HOURS or bucket.day == first):
                parts[at] = its[known.number]
        for block in self.pulse.open:
            at = block.start
            if self._span(tier, block)[0] == first and at not in parts and self.maps.raw.get(block_id(at)) is None:
                result = self._stats(self._tails(Block(), block), at, known, 0, QUARTER)
                parts.update({at: result} if result is not None else {})
        return [parts[at] for at in sorted(parts)]

    def _tails(self, block: Block, its: OpenBlock) -> Block:
        for id in tail_ids(its):
            tail = self.maps.tails.get(id)
            after = int(id[:8], 16) * MINUTE - its.start
            for row in rows(tail.packed) if tail is not None else ():
                block.add(Row(row.at + after, row.id, row.numbers, row.values))
        return block

    def _stats(self, block: Block, start: int, known: Known, first: int, end: int) -> Stats | None:
        return block.stats_of(known.number, start, first, end, known.counter, known.percentiles)

    # The tier 1m, of raw blocks

    def _minutes(self, known: Known, start: int, end: int) -> list[Point]:
        opened = {its.start: its for its in self.pulse.open}
        points: list[Point] = []
        for at in sorted({*self.shelf.raw_starts(), *opened}):
            if at >= end or at + QUARTER <= start:
                continue
            block = self.shelf.block(at, None if at in opened else known.number) or Block()
            if at in opened:
                self._tails(block, opened[at])
            points += self._minutes_of(block, at, known)
        return points

    def _minutes_of(self, block: Block, start: int, known: Known) -> list[Point]:
        put_out = self.maps.minutes.get(block_id(start))
        expected = max(1, MINUTE // self.settings.interval_ms)
        points: list[Point] = []
        for minute in range(IN_BLOCK):
            first = start + minute * MINUTE
            result = self._stats(block, start, known, minute * MINUTE, (minute + 1) * MINUTE)
            if result is not None:
                revision = 0 if put_out is None else put_out.revisions[minute]
                points.append(Point(first, first + MINUTE, revision, expected, result, first + MINUTE > self.now))
        return points


def months_of(points: list[Point], zone: str, start: int, end: int, interval_ms: int) -> list[Point]:
    """Local months, by merging days."""
    months: list[Point] = []
    for month in zones.months_between(zone, start, end):
        its = [point for point in points if month.start <= point.start < month.end]
        if its:
            expected = max(1, (month.end - month.start) // interval_ms)
            merged = stats.merged([point.stats for point in its])
            newest = max(point.revision for point in its)
            months.append(Point(month.start, month.end, newest, expected, merged, any(point.open for point in its)))
    return months


def with_steps(points: list[Point], before: Point | None) -> list[Point]:
    """Counters with the step from the bucket before, which belongs to the later one."""
    made: list[Point] = []
    for point in points:
        its, increase, covered = point.stats, point.stats.increase, point.stats.last_at - point.stats.first_at
        if increase is not None:
            if before is not None:
                increase += stats.step(before.stats.last, its.first)
                covered += its.first_at - before.stats.last_at
            made.append(point._replace(increase=increase, covered=covered))
        else:
            made.append(point)
        before = point
    return made

"""What happens at a device's timer (rule 3): readings are taken into their blocks, buckets are closed or corrected,
finer ones first, and what has expired goes."""

from __future__ import annotations

from typing import Final

import moneystate as ms
from services.rollups import blocks, buckets, zones
from services.rollups.blocks import Block
from services.rollups.catalog import Catalog, Table
from services.rollups.config import Config
from services.rollups.expiring import Expiring
from services.rollups.minutes import MinuteTier
from services.rollups.records import Book, Bucket, Closing, Device, LateBlock, OpenBlock, Pulse, Raw
from services.rollups.shelf import Shelf, metrics_of, part_id, slot_of
from services.rollups.stats import Stats
from services.rollups.stepping import Outputs, StepMaps
from services.rollups.tails import Row, rows
from services.rollups.taking import spread_of, tail_ids
from services.rollups.tiers import (
    BY_CODE,
    DAYS,
    HOUR,
    HOURS,
    MINUTE,
    QUARTER,
    QUARTERS,
    Tier,
    block_id,
    bucket_id,
)
from services.rollups.zones import Day

NO_DAY: Final = -1


class Wake:
    """A step that changes blocks and buckets of a device."""

    def __init__(
        self, ctx: ms.Context[Config], catalog: Catalog, outputs: Outputs, device: Device, pulse: Pulse, book: Book,
        maps: StepMaps,
    ) -> None:  # fmt: skip
        self.ctx = ctx
        self.catalog = catalog
        self.config = catalog.config
        self.outputs = outputs
        self.device = device
        self.pulse = pulse
        self.book = book
        self.maps = maps
        self.shelf = Shelf(maps.read(), book)
        self.table: Table = catalog.table(device.names)
        self.settings = catalog.settings_of(ctx.key, device)
        self.spread_ms = spread_of(ctx.key)
        self.changed: set[tuple[int, int, int]] = set()  # tier, start and end of coarser buckets to make again
        self.minute_tier = MinuteTier(ctx, self.config, outputs, maps, self.settings, self.table)

    def run(self, wake: ms.Timer) -> None:
        now = self.ctx.now
        due = [its for its in self.pulse.closings if its.end + self.spread_ms <= now]
        for block in sorted(self.pulse.open, key=lambda its: its.start):
            if block.due <= now or any(its.start <= block.start < its.end for its in due):
                self.take_in(block)
        self.make_coarser(due)
        expiring = Expiring(self.config, self.shelf, self.maps)
        expiring.run(now)
        self.shelf.listed.write(self.book)
        self.set_timer(wake, expiring)

    def set_timer(self, wake: ms.Timer, expiring: Expiring) -> None:
        pulse = self.pulse
        dues = [block.due for block in pulse.open]
        dues += [its.end + self.spread_ms for its in pulse.closings]
        expires_at = expiring.next_due()
        if expires_at is not None:  # with the closing of a block
            dues.append(-(-expires_at // QUARTER) * QUARTER + self.spread_ms)
        pulse.due = min(dues, default=0)
        if dues:
            self.ctx.at(wake, pulse.due)
        else:  # nothing is left
            self.clear(wake)

    def clear(self, wake: ms.Timer) -> None:
        """Clears a device without entries. What is known by its row stays."""
        self.ctx.cancel(wake)
        device, pulse, book = self.device, self.pulse, self.book
        device.names, device.has_sent = "", False
        device.site = device.site if device.has_row else ""
        pulse.seen, pulse.due, pulse.open, pulse.closings = 0, 0, [], []
        book.blocks, book.late, book.buckets, book.chunks = b"", [], [], []

    # Blocks

    def take_in(self, its: OpenBlock) -> None:
        """The tails of a block, once it is closed. Before that, its minutes may be put out."""
        end = its.start + QUARTER
        if self.ctx.now < end + self.spread_ms:
            self.minute_tier.close(its, self.spread_ms)
            return
        block = self.shelf.block(its.start) or Block()
        self.add_tails(block, its)
        self.pulse.open.remove(its)
        first = self.maps.raw.get(part_id(its.start, 0))
        if block.changed:
            first_at = its.first_at if first is None else min(first.first_at, its.first_at)
            self.store(its.start, block, first_at, its.zone)
        elif first is None:  # all of its readings were removed
            self.minute_tier.put_out_block(its.start, block)
            if block_id(its.start) in self.maps.minutes:  # their revisions go on if readings come again
                self.list_block(its.start, its.first_at)

    def add_tails(self, block: Block, its: OpenBlock) -> None:
        for id in tail_ids(its):
            after = int(id[:8], 16) * MINUTE - its.start
            for row in rows(self.maps.tails[id].packed):
                block.add(Row(row.at + after, row.id, row.numbers, row.values))
            self.maps.tails.delete(id)
        for name, n in (("repeated", block.repeated), ("too_many", block.refused)):
            if n:
                self.ctx.count(name, n)

    def store(self, start: int, block: Block, first_at: int, zone: str = "") -> None:
        """A changed block, its bucket and its minutes. `zone`: if the device has another one by now."""
        before = self.maps.raw.get(part_id(start, 0))
        parts = blocks.write(block)
        for n, part in enumerate(parts):
            self.maps.raw.put(part_id(start, n), Raw(first_at, len(parts), part))
        for n in range(len(parts), 0 if before is None else before.parts):
            self.maps.raw.delete(part_id(start, n))
        self.list_block(start, first_at)
        self.minute_tier.put_out_block(start, block)
        day = self.day(start, zone)
        self.put_bucket(QUARTERS, start, start + QUARTER, day.start, self.stats_of(start, block))
        self.mark_coarser(start, day)

    def list_block(self, start: int, first_at: int) -> None:
        end = start + QUARTER
        open_until = min(first_at + self.config.exact_ms, end + self.config.horizon_ms)
        drop_at = max(end + self.config.raw_ms, open_until)
        listed, book = self.shelf.listed.blocks, self.book
        known = next((late for late in book.late if late.start == start), None)
        if known is not None:
            known.drop_at = max(known.drop_at, drop_at)
        elif drop_at == end + self.config.raw_ms:
            listed.add(start // QUARTER)
        else:
            listed.discard(start // QUARTER)
            book.late.append(LateBlock(start, drop_at))

    def stats_of(self, start: int, block: Block) -> dict[int, Stats]:
        made: dict[int, Stats] = {}
        for number in block.columns:
            its = self.table.known[number]
            stats = block.stats_of(number, start, 0, QUARTER, its.counter, its.percentiles)
            if stats is not None:
                made[number] = stats
        return made

    def day(self, start: int, zone: str) -> Day:
        """The local day of a block: that of the zone in which the block was opened. It keeps its end, too."""
        bucket = self.maps.buckets.get(bucket_id(QUARTERS, start))
        local = zones.day_of(zone or self.settings.zone, start)
        first = local.start if bucket is None else bucket.day
        known = self.maps.buckets.get(bucket_id(DAYS, first))
        if known is not None:
            return Day(first, known.day)
        ends = [its.end for its in self.pulse.closings if (its.tier, its.start) == (DAYS.code, first)]
        return Day(first, ends[0] if ends else local.end)

    # Buckets

    def put_bucket(self, tier: Tier, start: int, end: int, day: int, metrics: dict[int, Stats]) -> None:
        """Stores a new revision of a bucket and puts it out. Without readings it is removed, but stays known, so that
        its revisions go on."""
        id = bucket_id(tier, start)
        before = self.maps.buckets.get(id)
        if before is None and not metrics:
            return
        revision = 1 if before is None else before.revision + 1
        expected = max(1, (end - start) // self.settings.interval_ms) if before is None else before.expected
        packed = buckets.pack(metrics, start, end)
        bucket = Bucket(revision, expected, day, packed)
        self.maps.buckets.put(id, bucket)
        self.shelf.listed.buckets[tier.code].add(start // MINUTE)
        self.outputs.put(self.ctx, tier, slot_of(tier, start, bucket), metrics, self.table)

    def mark_coarser(self, start: int, day: Day) -> None:
        """The hour and the day of a block have changed."""
        hour = start - start % HOUR
        for tier, first, end in ((HOURS, hour, hour + HOUR), (DAYS, day.start, day.end)):
            if end + self.spread_ms <= self.ctx.now:
                self.changed.add((tier.code, first, end))
            elif all((its.tier, its.start) != (tier.code, first) for its in self.pulse.closings):
                self.pulse.closings.append(Closing(tier.code, first, end))

    def make_coarser(self, due: list[Closing]) -> None:
        for its in due:
            self.changed.add((its.tier, its.start, its.end))
            self.pulse.closings.remove(its)
        for code, start, end in sorted(self.changed):
            tier = BY_CODE[code]
            if tier is HOURS:
                self.make_hour(start)
            else:
                self.make_day(start, end)

    def make_hour(self, start: int) -> None:
        parts = self.parts(QUARTERS, start, start + HOUR)
        days = {bucket.day for _, bucket in parts}
        metrics = buckets.merged([metrics_of(QUARTERS, its, bucket) for its, bucket in parts])
        self.put_bucket(HOURS, start, start + HOUR, days.pop() if len(days) == 1 else NO_DAY, metrics)

    def make_day(self, start: int, end: int) -> None:
        """Makes a day of its hours, if all of them are in one day, else of its quarters."""
        tier, parts = HOURS, self.parts(HOURS, start, end)
        if start % HOUR or end % HOUR or any(bucket.day == NO_DAY for _, bucket in parts):
            tier, parts = QUARTERS, self.parts(QUARTERS, start, end)
        its = [metrics_of(tier, at, bucket) for at, bucket in parts if bucket.day == start]
        self.put_bucket(DAYS, start, end, end, buckets.merged(its))

    def parts(self, tier: Tier, start: int, end: int) -> list[tuple[int, Bucket]]:
        result = [(its, self.maps.buckets.get(bucket_id(tier, its))) for its in self.shelf.starts(tier, start, end)]
        return [(its, bucket) for its, bucket in result if bucket is not None]

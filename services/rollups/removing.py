"""Bad data goes (rule 5): values of a time, or all that is known of a device.

Where the readings are still there, exactly the values of the time go. Of older data only whole buckets can go: those of
the finest tier that is still there. A time that cuts one of them is refused.
"""

from __future__ import annotations

import moneystate as ms
from services.rollups import buckets
from services.rollups.blocks import Block
from services.rollups.closing import NO_DAY, Wake
from services.rollups.columns import Slot
from services.rollups.expiring import Expiring
from services.rollups.records import OpenBlock, Remove, Tail
from services.rollups.shelf import part_id
from services.rollups.stats import Stats
from services.rollups.tails import Row, append, rows
from services.rollups.taking import tail_ids
from services.rollups.tiers import (
    DAYS,
    HOUR,
    HOURS,
    MINUTE,
    MINUTES,
    PACKED,
    QUARTER,
    QUARTERS,
    Tier,
    bucket_id,
    next_minute,
)

Found = tuple[Slot, dict[int, Stats]]


def remove(wake: Wake, e: Remove, timer: ms.Timer) -> None:
    if not 0 <= e.from_ < e.to:
        raise ms.Reject("empty_range", "expected from before to")
    known = None if e.metric is None else wake.table.by_name.get(e.metric)
    if e.metric is not None and known is None:
        wake.ctx.count("nothing_to_remove")
        return
    Removal(wake, e.from_, e.to, None if known is None else known.number).run(timer)


def forget(wake: Wake, timer: ms.Timer) -> None:
    """Tombstones for every bucket that the topics may have, then nothing is left in the state but what the table of
    devices says."""
    ctx, shelf, outputs = wake.ctx, wake.shelf, wake.outputs
    for tier in PACKED:
        starts = [start * MINUTE for start in sorted(shelf.listed.buckets[tier.code])]
        slots = [shelf.slot(tier, start) for start in starts if shelf.metrics(tier, start)]
        for chunk in sorted(shelf.listed.chunks[tier.code]):
            slots += shelf.frame(tier, chunk).slots
        for slot in slots:
            if slot is not None:
                outputs.remove(ctx, tier, slot.start, slot.end)
    for id, minutes in wake.maps.minutes.items():
        for number, digest in enumerate(minutes.digests):
            start = (int(id, 16) + number) * MINUTE
            if digest:
                outputs.remove(ctx, MINUTES, start, start + MINUTE)
    for entries in wake.maps:
        for id in entries.ids():
            entries.delete(id)
    wake.clear(timer)


class Removal:
    """Removes the values from `first` on and before `end`. `number`: of a metric; None: of all."""

    def __init__(self, wake: Wake, first: int, end: int, number: int | None) -> None:
        self.wake = wake
        self.shelf = wake.shelf
        self.first = first
        self.end = end
        self.number = number
        self.expiring = Expiring(wake.config, self.shelf, wake.maps)
        self.raw = {*self.expiring.raw_at(wake.ctx.now), *(block.start for block in wake.pulse.open)}
        self.chunks: dict[tuple[int, int], list[Found]] = {}  # those that were looked at, by tier and chunk
        self.dirty: set[tuple[int, int]] = set()  # of them

    def run(self, timer: ms.Timer) -> None:
        self.refuse_cuts()
        removed = self.from_tails_and_blocks()
        for tier in PACKED:
            removed = self.from_tier(tier) or removed
        wake = self.wake
        wake.changed.clear()  # `from_tier` has made them again
        for code, chunk in sorted(self.dirty):
            self.write_chunk(next(tier for tier in PACKED if tier.code == code), chunk)
        if not removed:
            wake.ctx.count("nothing_to_remove")
        self.shelf.listed.write(wake.book)
        wake.set_timer(timer, self.expiring)

    # Reading what the removal may change

    def overlapping(self, tier: Tier, start: int, end: int) -> list[Found]:
        """The buckets that have a part of this time, in order."""
        longest = 2 * tier.length_ms
        entries = [
            (slot, self.shelf.metrics(tier, at))
            for at in self.shelf.starts(tier, start - longest, end)
            if (slot := self.shelf.slot(tier, at)) is not None
        ]
        chunks = self.shelf.chunks(tier, max(0, start - longest), end)
        packed = [its for chunk in chunks for its in self.chunk(tier, chunk)]
        return sorted([its for its in packed + entries if its[0].start < end and its[0].end > start], key=_start_of)

    def chunk(self, tier: Tier, chunk: int) -> list[Found]:
        known = self.chunks.get((tier.code, chunk))
        if known is None:
            frame = self.shelf.frame(tier, chunk)
            columns = {number: self.shelf.column(tier, chunk, number, frame) for number in frame.numbers}
            known = self.chunks[tier.code, chunk] = [
                (slot, {number: column[slot.start] for number, column in columns.items() if slot.start in column})
                for slot in frame.slots
            ]
        return known

    def write_chunk(self, tier: Tier, chunk: int) -> None:
        remaining = [its for its in self.chunks[tier.code, chunk] if its[1]]
        self.expiring.drop_chunk(tier, chunk)
        self.expiring.put_chunk(tier, chunk, remaining)

    def is_held(self, tier: Tier, start: int, end: int) -> bool:
        """Whether the tier still has the buckets of a time."""
        now = self.wake.ctx.now
        chunks = range(tier.chunk_of(start), tier.chunk_of(end - 1) + 1)
        its = self.expiring
        return all(max(its.ends_at(tier, chunk), its.packed_at(tier, chunk)) > now for chunk in chunks)

    def refuse_cuts(self) -> None:
        """Raises Reject for a time that cuts a bucket of which nothing finer is there."""
        for tier in PACKED:
            for slot, metrics in self.overlapping(tier, self.first, self.end):
                if self.is_whole(slot) or not self.wanted(metrics) or self.has_finer(tier, slot):
                    continue
                raise ms.Reject(
                    "cuts_a_bucket",
                    f"the readings of the bucket {tier.name} from {slot.start} to {slot.end} are gone: expected a time "
                    f"with all of it, or nothing of it",
                )

    def has_finer(self, tier: Tier, slot: Slot) -> bool:
        if tier is QUARTERS:
            return slot.start in self.raw
        return self.finer(tier, slot) is not None

    def finer(self, tier: Tier, slot: Slot) -> Tier | None:
        """Returns what a bucket can be made of again."""
        of_hours = tier is DAYS and slot.start % HOUR == 0 and slot.end % HOUR == 0
        if of_hours and self.is_held(HOURS, slot.start, slot.end):
            hours = self.overlapping(HOURS, slot.start, slot.end)
            if all(its.day != NO_DAY for its, _ in hours):
                return HOURS
        return QUARTERS if self.is_held(QUARTERS, slot.start, slot.end) else None

    def is_whole(self, slot: Slot) -> bool:
        return self.first <= slot.start and slot.end <= self.end

    def wanted(self, metrics: dict[int, Stats]) -> list[int]:
        return [number for number in metrics if self.number in (None, number)]

    # Removing

    def from_tails_and_blocks(self) -> bool:
        removed = False
        for its in list(self.wake.pulse.open):
            if its.start < self.end and its.start + QUARTER > self.first:
                removed = self.from_tails(its) or removed
        for start in self.expiring.raw_at(self.wake.ctx.now):
            if start < self.end and start + QUARTER > self.first:
                block = self.shelf.block(start) or Block()
                if block.remove(self.first - start, self.end - start, self.number):
                    first = self.wake.maps.raw[part_id(start, 0)]
                    self.wake.store(start, block, first.first_at)
                    removed = True
        return removed

    def from_tails(self, its: OpenBlock) -> bool:
        """Removes values from tails. Those that stay are appended again. Minutes that were put out are corrected at the
        next full minute."""
        removed = False
        tails = self.wake.maps.tails
        for id in tail_ids(its):
            at = int(id[:8], 16) * MINUTE
            before = list(rows(tails[id].packed))
            after = [row for row in [self.without(row, at) for row in before] if row.numbers]
            if after == before:
                continue
            removed = True
            packed = b""
            for row in after:
                packed = append(packed, row)
            tails.put(id, Tail(packed, tails[id].further))
            its.touched |= 1 << (at - its.start) // MINUTE if self.wake.config.put_out_1m else 0
        if removed and self.wake.config.put_out_1m:
            its.due = min(its.due, next_minute(self.wake.ctx.now))
        return removed

    def without(self, row: Row, at: int) -> Row:
        if not self.first <= at + row.at < self.end:
            return row
        others = [pair for pair in zip(row.numbers, row.values, strict=True) if self.number not in (None, pair[0])]
        return Row(row.at, row.id, [number for number, _ in others], [value for _, value in others])

    def from_tier(self, tier: Tier) -> bool:
        """Removes values from the buckets of a tier. They are made again of what is finer, where that is there."""
        removed = False
        for slot, metrics in self.overlapping(tier, self.first, self.end):
            wanted = self.wanted(metrics)
            if not wanted or (tier is QUARTERS and slot.start in self.raw):
                continue
            finer = None if tier is QUARTERS else self.finer(tier, slot)
            if finer is None:
                after = {number: its for number, its in metrics.items() if number not in wanted}
            else:
                parts = self.overlapping(finer, slot.start, slot.end)
                after = buckets.merged([its for at, its in parts if tier is HOURS or at.day == slot.start])
            if buckets.pack(after, slot.start, slot.end) != buckets.pack(metrics, slot.start, slot.end):
                self.replace(tier, slot, after)
                removed = True
        return removed

    def replace(self, tier: Tier, slot: Slot, metrics: dict[int, Stats]) -> None:
        wake = self.wake
        if bucket_id(tier, slot.start) in wake.maps.buckets:
            wake.put_bucket(tier, slot.start, slot.end, slot.day, metrics)
            return
        chunk = tier.chunk_of(slot.start)
        slots = self.chunk(tier, chunk)
        new = slot._replace(revision=slot.revision + 1)
        slots[[its.start for its, _ in slots].index(slot.start)] = (new, metrics)
        self.dirty.add((tier.code, chunk))
        wake.outputs.put(wake.ctx, tier, new, metrics, wake.table)


def _start_of(its: Found) -> int:
    return its[0].start

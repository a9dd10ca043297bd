"""What goes with time (rule 4): raw blocks, buckets that become final and are packed into columns, and columns."""

from __future__ import annotations

from services.rollups import columns
from services.rollups.columns import Frame, Slot
from services.rollups.config import Config
from services.rollups.records import Packed
from services.rollups.shelf import Shelf, part_id
from services.rollups.stats import Stats
from services.rollups.stepping import StepMaps
from services.rollups.tiers import DAYS, LONGEST_DAY, MINUTE, PACKED, QUARTER, Tier, block_id, bucket_id


class Expiring:
    def __init__(self, config: Config, shelf: Shelf, maps: StepMaps) -> None:
        self.config = config
        self.shelf = shelf
        self.maps = maps

    def run(self, now: int) -> None:
        self._drop_blocks(now)
        for tier in PACKED:
            self._pack_chunks(tier, now)
            for chunk in sorted(self.shelf.listed.chunks[tier.code]):
                if self.ends_at(tier, chunk) > now:
                    break
                self.drop_chunk(tier, chunk)

    def next_due(self) -> int | None:
        """Returns when the next thing goes."""
        listed, dues = self.shelf.listed, [late.drop_at for late in self.shelf.book.late]
        if listed.blocks:
            dues.append((min(listed.blocks) + 1) * QUARTER + self.config.raw_ms)
        for tier in PACKED:
            if listed.buckets[tier.code]:
                dues.append(self.packed_at(tier, tier.chunk_of(min(listed.buckets[tier.code]) * MINUTE)))
            if listed.chunks[tier.code]:
                dues.append(self.ends_at(tier, min(listed.chunks[tier.code])))
        return min(dues, default=None)

    def raw_at(self, now: int) -> list[int]:
        """The starts of raw blocks that have not expired, whether or not a timer has run since."""
        over = set(self._over(now))
        return [start for start in self.shelf.raw_starts() if start not in over]

    def _over(self, now: int) -> list[int]:
        usual = [n * QUARTER for n in self.shelf.listed.blocks if (n + 1) * QUARTER + self.config.raw_ms <= now]
        return [*usual, *(late.start for late in self.shelf.book.late if late.drop_at <= now)]

    def _drop_blocks(self, now: int) -> None:
        book, over = self.shelf.book, self._over(now)
        for start in over:
            first = self.maps.raw.get(block_id(start))
            for n in range(0 if first is None else first.parts):
                self.maps.raw.delete(part_id(start, n))
            self.maps.minutes.delete(block_id(start))
            self.shelf.listed.blocks.discard(start // QUARTER)
        book.late = [late for late in book.late if late.start not in over]

    def packed_at(self, tier: Tier, chunk: int) -> int:
        """Returns when no reading changes a bucket of the chunk any more, and no coarser bucket is made of it."""
        config = self.config
        return (chunk + 1) * tier.chunk_ms + LONGEST_DAY + max(config.horizon_ms, config.raw_ms) + MINUTE

    def ends_at(self, tier: Tier, chunk: int) -> int:
        """Returns when the last bucket of a chunk is no longer kept."""
        over = LONGEST_DAY if tier is DAYS else 0
        return (chunk + 1) * tier.chunk_ms + over + self.config.keep_ms(tier)

    def _pack_chunks(self, tier: Tier, now: int) -> None:
        listed = self.shelf.listed.buckets[tier.code]
        for chunk in sorted({tier.chunk_of(its * MINUTE) for its in listed}):
            if self.packed_at(tier, chunk) > now:
                break
            starts = self.shelf.starts(tier, chunk * tier.chunk_ms, (chunk + 1) * tier.chunk_ms)
            if self.ends_at(tier, chunk) > now:
                result = [(self.shelf.slot(tier, start), self.shelf.metrics(tier, start)) for start in starts]
                self.put_chunk(tier, chunk, [(slot, its) for slot, its in result if slot is not None and its])
            for start in starts:
                self.maps.buckets.delete(bucket_id(tier, start))
                listed.discard(start // MINUTE)

    def put_chunk(self, tier: Tier, chunk: int, result: list[tuple[Slot, dict[int, Stats]]]) -> None:
        numbers = sorted({number for _, metrics in result for number in metrics})
        if not numbers:
            return
        slots = [slot for slot, _ in result]
        packed = columns.write_frame(Frame(slots, numbers), tier, chunk)
        self.maps.columns.put(columns.frame_id(tier, chunk), Packed(packed))
        for number in numbers:
            column = {slot.start: metrics[number] for slot, metrics in result if number in metrics}
            packed = columns.write_column(column, slots)
            self.maps.columns.put(columns.column_id(tier, chunk, number), Packed(packed))
        self.shelf.listed.chunks[tier.code].add(chunk)

    def drop_chunk(self, tier: Tier, chunk: int) -> None:
        for number in self.shelf.frame(tier, chunk).numbers:
            self.maps.columns.delete(columns.column_id(tier, chunk, number))
        self.maps.columns.delete(columns.frame_id(tier, chunk))
        self.shelf.listed.chunks[tier.code].discard(chunk)

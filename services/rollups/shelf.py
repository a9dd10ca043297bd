"""What the state has of a device, and the book of it: raw blocks, buckets that may still change, and columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from services.rollups import blocks, buckets, columns, varints
from services.rollups.blocks import Block
from services.rollups.columns import Frame, Slot
from services.rollups.records import Book, Bucket, Minutes, Packed, Raw, Tail
from services.rollups.stats import Stats
from services.rollups.tiers import DAYS, MINUTE, QUARTER, TIERS, Tier, block_id, bucket_id

S = TypeVar("S", covariant=True)


class Gets(Protocol[S]):
    """The entries of a map under the device: of a step or of a query."""

    def get(self, id: str) -> S | None: ...


class Maps(NamedTuple):
    tails: Gets[Tail]
    raw: Gets[Raw]
    minutes: Gets[Minutes]
    buckets: Gets[Bucket]
    columns: Gets[Packed]


class Listed:
    """The book in memory: numbers of raw blocks, starts of buckets in minutes and numbers of chunks by tier."""

    def __init__(self, book: Book) -> None:
        self.blocks = _numbers(book.blocks)
        self.buckets = [_numbers(packed) for packed in book.buckets or [b""] * len(TIERS)]
        self.chunks = [_numbers(packed) for packed in book.chunks or [b""] * len(TIERS)]

    def write(self, book: Book) -> None:
        book.blocks = _packed(self.blocks)
        book.buckets = [_packed(numbers) for numbers in self.buckets] if any(self.buckets) else []
        book.chunks = [_packed(numbers) for numbers in self.chunks] if any(self.chunks) else []


def _numbers(packed: bytes) -> set[int]:
    return set(varints.Reader(packed).runs()) if packed else set()


def _packed(numbers: Iterable[int]) -> bytes:
    out = bytearray()
    varints.write_runs(out, sorted(numbers))
    return bytes(out) if len(out) > 1 else b""


class Shelf:
    """Reads what there is. `closing.Wake` and `removing` change it."""

    def __init__(self, maps: Maps, book: Book) -> None:
        self.maps = maps
        self.book = book
        self.listed = Listed(book)

    def raw_starts(self) -> list[int]:
        return sorted({n * QUARTER for n in self.listed.blocks} | {late.start for late in self.book.late})

    def block(self, start: int, wanted: int | None = None) -> Block | None:
        """A raw block. `wanted`: only this metric."""
        first = self.maps.raw.get(block_id(start))
        return None if first is None else blocks.read(self._parts(start, first), wanted)

    def _parts(self, start: int, first: Raw) -> list[bytes]:
        further = [self.maps.raw.get(part_id(start, n)) for n in range(1, first.parts)]
        return [first.packed, *[part.packed for part in further if part is not None]]

    def starts(self, tier: Tier, start: int, end: int) -> list[int]:
        """Returns the starts of the buckets that are entries of their own and begin in this time."""
        low, high = start // MINUTE, -(-end // MINUTE)
        return sorted([its * MINUTE for its in self.listed.buckets[tier.code] if low <= its < high])

    def slot(self, tier: Tier, start: int) -> Slot | None:
        bucket = self.maps.buckets.get(bucket_id(tier, start))
        return None if bucket is None else slot_of(tier, start, bucket)

    def metrics(self, tier: Tier, start: int, wanted: int | None = None) -> dict[int, Stats]:
        """The aggregates of a bucket that is an entry of its own."""
        bucket = self.maps.buckets.get(bucket_id(tier, start))
        return {} if bucket is None else metrics_of(tier, start, bucket, wanted)

    def chunks(self, tier: Tier, start: int, end: int) -> list[int]:
        """Returns the chunks with buckets that begin in this time."""
        low, high = tier.chunk_of(start), tier.chunk_of(end - 1)
        return sorted([chunk for chunk in self.listed.chunks[tier.code] if low <= chunk <= high])

    def frame(self, tier: Tier, chunk: int) -> Frame:
        packed = self.maps.columns.get(columns.frame_id(tier, chunk))
        return Frame([], []) if packed is None else columns.read_frame(packed.packed, tier, chunk)

    def column(self, tier: Tier, chunk: int, number: int, frame: Frame) -> dict[int, Stats]:
        packed = self.maps.columns.get(columns.column_id(tier, chunk, number))
        return {} if packed is None else columns.read_column(packed.packed, frame.slots)


def part_id(start: int, n: int) -> str:
    return f"{block_id(start)}.{n}" if n else block_id(start)


def slot_of(tier: Tier, start: int, bucket: Bucket) -> Slot:
    end = bucket.day if tier is DAYS else start + tier.length_ms
    return Slot(start, end, bucket.revision, bucket.expected, bucket.day)


def metrics_of(tier: Tier, start: int, bucket: Bucket, wanted: int | None = None) -> dict[int, Stats]:
    return buckets.unpack(bucket.packed, start, slot_of(tier, start, bucket).end, wanted)

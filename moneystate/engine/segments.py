"""A key group's state as a log of segments: a batch reads and writes a few large segments, however many entries it
touches.

A call to Spark's state store costs about 60 µs whatever its size, far more than everything else that is done to an
entry. So a batch writes all entries that it changed as one *segment*, in chunks of up to `CHUNK_BYTES`. The newest
segment with a key has the key's value. Segments are merged like the digits of a counter carry: every 8th batch merges
the segments of single batches into one, every 64th merges those of eight, and so on. So there are few segments, and an
entry is rewritten about once per tier. Key groups merge in different batches (`phase_of`). A merge that includes the
oldest segment drops removals.

Chunk key: `r`, the segment's name (8 bytes, big-endian), the chunk's number (4 bytes, big-endian). Value: `StateRun`.
The manifest, which lists the segments, is `StateManifest` under the clock's key (`avro/state/`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from moneystate.engine import avro, keys
from moneystate.engine.fingerprints import STATE_MANIFEST, STATE_RUN
from moneystate.engine.processor import Change

MANIFEST_KEY: Final[bytes] = (
    keys.CLOCK
)  # the clock's key: a program that knows no segments stops because of the unknown value
PREFIX: Final = keys.RUN
CHUNK_BYTES: Final = 256 * 1024
FANOUT: Final = 8
MAX_CHUNKS: Final = 1 << 32  # of a segment: a chunk's number has 4 bytes
# The first segment of a key group gets the tier at which merged segments have about its size.
TIER_0_BYTES: Final = 16 * 1024


class Segment:
    """The changes of one or more consecutive batches."""

    def __init__(self, name: int, tier: int, first: int, last: int, chunks: int, size: int) -> None:
        self.name = name  # its chunks are named after it
        self.tier = tier
        self.first = first  # first batch
        self.last = last  # last batch
        self.chunks = chunks
        self.size = size  # of all chunks, in bytes

    def chunk_keys(self) -> list[bytes]:
        return [PREFIX + self.name.to_bytes(8, "big") + n.to_bytes(4, "big") for n in range(self.chunks)]

    def is_whole(self) -> bool:
        """Whether this is the oldest segment. Then an entry that it does not have does not exist."""
        return self.first == 1


class Manifest:
    """The segments of a key group, the oldest first, as batch `number` of the key group left them."""

    def __init__(self, origin: int) -> None:
        # changes each time a key group's segments begin again, so that their numbers cannot be confused
        self.origin = origin
        self.number = 0
        self.next_segment = 0
        self.check = 0
        self.segments: list[Segment] = []

    def after(self, number: int) -> list[Segment]:
        """The segments with changes of batches after `number`."""
        return [segment for segment in self.segments if segment.last > number]


def encode_manifest(manifest: Manifest) -> bytes:
    out = bytearray(STATE_MANIFEST)
    avro.write_long(out, manifest.origin)
    avro.write_long(out, manifest.number)
    avro.write_long(out, manifest.next_segment)
    avro.write_long(out, manifest.check)
    items = bytearray()
    for segment in manifest.segments:
        for value in (segment.name, segment.tier, segment.first, segment.last, segment.chunks, segment.size):
            avro.write_long(items, value)
    avro.write_block(out, len(manifest.segments), bytes(items))
    return bytes(out)


def is_manifest(entry: bytes) -> bool:
    return entry.startswith(STATE_MANIFEST)


def decode_manifest(entry: bytes) -> Manifest:
    origin, pos = avro.read_long(entry, avro.HEADER_BYTES)
    manifest = Manifest(origin)
    manifest.number, pos = avro.read_long(entry, pos)
    manifest.next_segment, pos = avro.read_long(entry, pos)
    manifest.check, pos = avro.read_long(entry, pos)
    count, block, pos = avro.read_block(entry, pos)
    item_pos = 0
    for _ in range(count):
        name, item_pos = avro.read_long(block, item_pos)
        tier, item_pos = avro.read_long(block, item_pos)
        first, item_pos = avro.read_long(block, item_pos)
        last, item_pos = avro.read_long(block, item_pos)
        chunks, item_pos = avro.read_long(block, item_pos)
        size, item_pos = avro.read_long(block, item_pos)
        if name < 0 or not 0 <= chunks <= MAX_CHUNKS or size < 0:
            raise avro.Malformed("a segment whose chunks cannot exist")
        manifest.segments.append(Segment(name, tier, first, last, chunks, size))
    return manifest


def encode_segment(changes: Mapping[bytes, bytes | None]) -> list[bytes]:
    """The chunks of a segment, in the order of the keys. Equal changes give equal bytes."""
    chunks: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for key in sorted(changes):
        value = changes[key]
        part = avro.string_bytes(key) + (b"\x00" if value is None else b"\x02" + avro.string_bytes(value))
        if size + len(part) > CHUNK_BYTES and parts:
            chunks.append(_chunk(parts))
            parts = []
            size = 0
        parts.append(part)
        size += len(part)
    if parts:
        chunks.append(_chunk(parts))
    return chunks


def _chunk(parts: list[bytes]) -> bytes:
    out = bytearray(STATE_RUN)
    avro.write_block(out, len(parts), b"".join(parts))
    return bytes(out)


def decode_chunk(chunk: bytes | None, into: dict[bytes, bytes | None]) -> None:
    """Puts a chunk's entries over older ones. Raises Malformed if the chunk is missing or is not a chunk."""
    if chunk is None or not chunk.startswith(STATE_RUN):
        raise avro.Malformed("a segment of the state is missing or has an unknown schema")
    count, block, _ = avro.read_block(chunk, avro.HEADER_BYTES)
    item_pos = 0
    for _ in range(count):
        key, item_pos = avro.read_bytes(block, item_pos)
        branch, item_pos = avro.read_long(block, item_pos)
        if branch == 0:
            into[key] = None
        else:
            into[key], item_pos = avro.read_bytes(block, item_pos)


def check_of(chunks: list[bytes]) -> int:
    check = 0
    for chunk in chunks:
        check = zlib.crc32(chunk, check)
    return check


def phase_of(group: int) -> int:
    """The offset of a key group in the merge schedule, so that not all key groups merge in the same batch."""
    return zlib.crc32(group.to_bytes(4, "big"))


def tier_due(number: int, phase: int) -> int:
    """The tier of the segment in which batch `number` ends up: how often 8 divides its place in the schedule."""
    place = number + phase
    tier = 0
    while place % FANOUT == 0 and tier < 10:
        place //= FANOUT
        tier += 1
    return tier


def merge_inputs(manifest: Manifest, tier: int) -> tuple[list[Segment], int]:
    """The newest segments to merge with a batch that ends up at `tier`, and the tier of the merged segment.

    These are the segments of lower tiers, and older ones as long as the newer ones are at least twice as large.
    Otherwise old values would pile up if batches change the same entries again and again.
    """
    candidates = manifest.segments
    start = len(candidates)
    size = 0
    while start > 0 and candidates[start - 1].tier < tier:
        start -= 1
        size += candidates[start].size
    while 0 < start < len(candidates) and 2 * candidates[start - 1].size <= size:
        start -= 1
        size += candidates[start].size
        tier = max(tier, candidates[start].tier)
    return candidates[start:], tier


def tier_of_size(size: int) -> int:
    """The tier of a segment that was not made by merging."""
    tier = 0
    while size > TIER_0_BYTES and tier < 10:
        size //= FANOUT
        tier += 1
    return tier


def add_segment(
    manifest: Manifest, tier: int, changes: Mapping[bytes, bytes | None], merged: list[Segment], chunks: list[bytes]
) -> list[Change]:
    """Adds the batch's changes, which include `merged` (the newest segments of the manifest), as the newest segment.

    Returns the changes to the state store. `chunks`: of `changes` alone, for `check`.
    """
    manifest.number += 1
    manifest.check = check_of(chunks)
    first = merged[0].first if merged else manifest.number
    if merged:
        live = {key: value for key, value in changes.items() if value is not None} if first == 1 else changes
        chunks = encode_segment(live)
    segment = Segment(
        manifest.next_segment, tier, first, manifest.number, len(chunks), sum([len(chunk) for chunk in chunks])
    )
    manifest.next_segment += 1
    puts: list[Change] = []
    for old in merged:
        puts.extend([(key, None) for key in old.chunk_keys()])
    manifest.segments = [*manifest.segments[: len(manifest.segments) - len(merged)], segment]
    puts.extend(zip(segment.chunk_keys(), chunks, strict=True))
    puts.append((MANIFEST_KEY, encode_manifest(manifest)))
    return puts


def entries_of(stored: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """All entries of a key group, from its rows in Spark's state store, with or without segments."""
    first = stored.get(MANIFEST_KEY)
    if first is None or not is_manifest(first):
        return dict(stored)
    entries: dict[bytes, bytes | None] = {}
    for segment in decode_manifest(first).segments:
        for key in segment.chunk_keys():
            decode_chunk(stored.get(key), entries)
    return {key: value for key, value in entries.items() if value is not None}

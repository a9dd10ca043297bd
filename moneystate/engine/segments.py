"""A key group's state as a log of segments: a batch reads and writes a few large segments, however many entries it
touches.

In Spark's state store a call costs some 60 µs whatever its size, far more than all else that is done to an entry. So a
batch puts all entries that it changed there as one *segment*, in chunks of up to `CHUNK_BYTES`; what is behind a key is
in the newest segment that has it. Segments are merged as the digits of a counter carry: in every 8th batch the segments
of single batches become one, in every 64th those of eight, and so on, so that there are few, and an entry is rewritten
about once for each tier. Key groups do so in different batches (`phase_of`). A merge that takes in the oldest segment
drops removals.

Chunk key: `r`, the segment's name (8 bytes, big-endian), the chunk's number (4 bytes, big-endian); value `StateRun`.
The manifest, which says what segments there are, is `StateManifest` under the clock's key (`avro/state/`).
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
)  # the clock's: a program that knows no segments is stopped by what it finds there
PREFIX: Final = keys.RUN
CHUNK_BYTES: Final = 256 * 1024
FANOUT: Final = 8
# The tier of a segment that a key group begins with is one where segments that grew by merging are of about its size.
TIER_0_BYTES: Final = 16 * 1024


class Segment:
    """Changes of the batches `first` to `last`. `name`: of its chunks; `size`: of them all, bytes."""

    def __init__(self, name: int, tier: int, first: int, last: int, chunks: int, size: int) -> None:
        self.name = name
        self.tier = tier
        self.first = first
        self.last = last
        self.chunks = chunks
        self.size = size

    def chunk_keys(self) -> list[bytes]:
        return [PREFIX + self.name.to_bytes(8, "big") + n.to_bytes(4, "big") for n in range(self.chunks)]

    def is_whole(self) -> bool:
        """Whether nothing is older than this segment: what it does not have, is not there."""
        return self.first == 1


class Manifest:
    """The segments of a key group, the oldest first, as batch `number` of the key group left them.

    `origin`: another for each time that a key group's segments began, so that numbers of one are not taken for
    another's.
    """

    def __init__(self, origin: int) -> None:
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
        manifest.segments.append(Segment(name, tier, first, last, chunks, size))
    return manifest


def encode_segment(changes: Mapping[bytes, bytes | None]) -> list[bytes]:
    """The chunks of a segment, in the order of the keys: the same changes make the same bytes."""
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
    """Put a chunk's entries over those of older ones. Raises Malformed where it is not there or not a chunk."""
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
    """The tier of the segment that batch `number` is to end up in: how often 8 divides its place."""
    place = number + phase
    tier = 0
    while place % FANOUT == 0 and tier < 10:
        place //= FANOUT
        tier += 1
    return tier


def merge_inputs(manifest: Manifest, tier: int) -> tuple[list[Segment], int]:
    """The newest segments that become one with a batch that is to end up at `tier`, and the tier of what they become.

    Those of lower tiers; and the older ones that they are twice as large as, or larger: where batches change the same
    entries again and again, their old values would pile up.
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
    """The tier of a segment that was not made by merges."""
    tier = 0
    while size > TIER_0_BYTES and tier < 10:
        size //= FANOUT
        tier += 1
    return tier


def add_segment(
    manifest: Manifest, tier: int, changes: Mapping[bytes, bytes | None], merged: list[Segment], chunks: list[bytes]
) -> list[Change]:
    """Let the batch's changes, with `merged` (the newest segments of the manifest) in them, be its newest segment.

    Gives the entries of the state store to put. `chunks`: of `changes` alone, for `check`.
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
    """All entries of a key group, from everything that Spark's state store has of it, with segments or without."""
    first = stored.get(MANIFEST_KEY)
    if first is None or not is_manifest(first):
        return dict(stored)
    entries: dict[bytes, bytes | None] = {}
    for segment in decode_manifest(first).segments:
        for key in segment.chunk_keys():
            decode_chunk(stored.get(key), entries)
    return {key: value for key, value in entries.items() if value is not None}

"""A key group's state as a log of runs: a batch reads and writes few large pieces, however many entries it touches.

In Spark's state store a call costs some 60 µs whatever its size, far more than all else that is done to an entry. So a
batch puts all entries that it changed there as one *run*, in chunks of up to `CHUNK_BYTES`; what is behind a key is in
the newest run that has it. Runs are merged as the digits of a counter carry: in every 8th batch the runs of single
batches become one, in every 64th those of eight, and so on, so that there are few, and an entry is rewritten about once
for each level. Key groups do so in different batches (`phase_of`). A merge that takes in the oldest run drops removals.

Chunk key: `r`, the run's name (8 bytes, big-endian), the chunk's number (4 bytes, big-endian); value `StateRun`. The
manifest, which says what runs there are, is `StateManifest` under the clock's key (`avro/state/`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from moneystate.engine import avro, keys
from moneystate.engine.fingerprints import STATE_MANIFEST, STATE_RUN
from moneystate.engine.processor import Change

MANIFEST_KEY: Final[bytes] = keys.CLOCK  # the clock's: a program that knows no runs is stopped by what it finds there
PREFIX: Final = keys.RUN
CHUNK_BYTES: Final = 256 * 1024
FAN: Final = 8
# The level of a run that a key group begins with is one where runs that grew by merging are of about its size.
LEVEL_0_BYTES: Final = 16 * 1024


class Run:
    """Changes of the batches `first` to `last`. `name`: of its chunks; `size`: of them all, bytes."""

    def __init__(self, name: int, level: int, first: int, last: int, chunks: int, size: int) -> None:
        self.name = name
        self.level = level
        self.first = first
        self.last = last
        self.chunks = chunks
        self.size = size

    def chunk_keys(self) -> list[bytes]:
        return [PREFIX + self.name.to_bytes(8, "big") + n.to_bytes(4, "big") for n in range(self.chunks)]

    def is_whole(self) -> bool:
        """Whether nothing is older than this run: what it does not have, is not there."""
        return self.first == 1


class Manifest:
    """The runs of a key group, the oldest first, as batch `number` of the key group left them.

    `origin`: another for each time that a key group's runs began, so that numbers of one are not taken for another's.
    """

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.number = 0
        self.next_run = 0
        self.check = 0
        self.runs: list[Run] = []

    def after(self, number: int) -> list[Run]:
        """The runs with changes of batches after `number`."""
        return [run for run in self.runs if run.last > number]


def encode_manifest(manifest: Manifest) -> bytes:
    out = bytearray(STATE_MANIFEST)
    avro.write_long(out, manifest.origin)
    avro.write_long(out, manifest.number)
    avro.write_long(out, manifest.next_run)
    avro.write_long(out, manifest.check)
    items = bytearray()
    for run in manifest.runs:
        for value in (run.name, run.level, run.first, run.last, run.chunks, run.size):
            avro.write_long(items, value)
    avro.write_block(out, len(manifest.runs), bytes(items))
    return bytes(out)


def is_manifest(entry: bytes) -> bool:
    return entry.startswith(STATE_MANIFEST)


def decode_manifest(entry: bytes) -> Manifest:
    origin, pos = avro.read_long(entry, avro.HEADER_BYTES)
    manifest = Manifest(origin)
    manifest.number, pos = avro.read_long(entry, pos)
    manifest.next_run, pos = avro.read_long(entry, pos)
    manifest.check, pos = avro.read_long(entry, pos)
    count, block, pos = avro.read_block(entry, pos)
    at = 0
    for _ in range(count):
        name, at = avro.read_long(block, at)
        level, at = avro.read_long(block, at)
        first, at = avro.read_long(block, at)
        last, at = avro.read_long(block, at)
        chunks, at = avro.read_long(block, at)
        size, at = avro.read_long(block, at)
        manifest.runs.append(Run(name, level, first, last, chunks, size))
    return manifest


def encode_run(changes: Mapping[bytes, bytes | None]) -> list[bytes]:
    """The chunks of a run, in the order of the keys: the same changes make the same bytes."""
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
        raise avro.Malformed("a run of the state is missing or has an unknown schema")
    count, block, _ = avro.read_block(chunk, avro.HEADER_BYTES)
    at = 0
    for _ in range(count):
        key, at = avro.read_bytes(block, at)
        branch, at = avro.read_long(block, at)
        if branch == 0:
            into[key] = None
        else:
            into[key], at = avro.read_bytes(block, at)


def check_of(chunks: list[bytes]) -> int:
    check = 0
    for chunk in chunks:
        check = zlib.crc32(chunk, check)
    return check


def phase_of(group: int) -> int:
    """By how much a key group's batches are ahead in the order of merges, so that not all merge in the same batch."""
    return zlib.crc32(group.to_bytes(4, "big"))


def level_due(number: int, phase: int) -> int:
    """The level of the run that batch `number` is to end up in: how often 8 divides its place."""
    place = number + phase
    level = 0
    while place % FAN == 0 and level < 10:
        place //= FAN
        level += 1
    return level


def to_merge(manifest: Manifest, level: int) -> tuple[list[Run], int]:
    """The newest runs that become one with a batch that is to end up at `level`, and the level of what they become.

    Those of lower levels; and the older ones that they are twice as large as, or larger: where batches change the same
    entries again and again, their old values would pile up.
    """
    found = manifest.runs
    at = len(found)
    size = 0
    while at > 0 and found[at - 1].level < level:
        at -= 1
        size += found[at].size
    while 0 < at < len(found) and 2 * found[at - 1].size <= size:
        at -= 1
        size += found[at].size
        level = max(level, found[at].level)
    return found[at:], level


def level_of_size(size: int) -> int:
    """The level of a run that was not made by merges."""
    level = 0
    while size > LEVEL_0_BYTES and level < 10:
        size //= FAN
        level += 1
    return level


def add_run(
    manifest: Manifest, level: int, changes: Mapping[bytes, bytes | None], merged: list[Run], chunks: list[bytes]
) -> list[Change]:
    """Let the batch's changes, with `merged` (the newest runs of the manifest) in them, be its newest run.

    Gives the entries of the state store to put. `chunks`: of `changes` alone, for `check`.
    """
    manifest.number += 1
    manifest.check = check_of(chunks)
    first = merged[0].first if merged else manifest.number
    if merged:
        kept = {key: value for key, value in changes.items() if value is not None} if first == 1 else changes
        chunks = encode_run(kept)
    run = Run(manifest.next_run, level, first, manifest.number, len(chunks), sum([len(chunk) for chunk in chunks]))
    manifest.next_run += 1
    puts: list[Change] = []
    for old in merged:
        puts.extend([(key, None) for key in old.chunk_keys()])
    manifest.runs = [*manifest.runs[: len(manifest.runs) - len(merged)], run]
    puts.extend(zip(run.chunk_keys(), chunks, strict=True))
    puts.append((MANIFEST_KEY, encode_manifest(manifest)))
    return puts


def entries_of(stored: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """All entries of a key group, from all that is in Spark's state store of it, with runs or without."""
    first = stored.get(MANIFEST_KEY)
    if first is None or not is_manifest(first):
        return dict(stored)
    found: dict[bytes, bytes | None] = {}
    for run in decode_manifest(first).runs:
        for key in run.chunk_keys():
            decode_chunk(stored.get(key), found)
    return {key: value for key, value in found.items() if value is not None}

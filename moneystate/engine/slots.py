"""The buffer: events that the watermark has not passed and timers that are not due, in time slots.

A slot holds the items of one interval of time in chunks. Each chunk is an entry, so that a batch rewrites little and no
entry grows without bound. A batch adds one chunk to each slot that gets items. `OPEN_CHUNKS` small chunks are merged
into one. A chunk of `SEALED_BYTES` is not rewritten until the watermark reaches its slot.

The farther a time is from the watermark, the wider is its slot, so that a million timers over a year need about a
thousand slots. A slot is at most 1/`FAR` as wide as its distance from the watermark. When the watermark enters a slot,
its items move to narrower ones.

Entry key: `b`, the slot's start in ms (8 bytes, big-endian, offset by 2^63 so that it sorts), the chunk's number (4
bytes, big-endian). Entry value: `BufferChunk` (avro/state/BufferChunk/v1.avsc), single-object encoded. The start alone
identifies a slot: slots of different widths with the same start are one slot.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine import avro, keys
from moneystate.engine.fingerprints import BUFFER_CHUNK
from moneystate.engine.items import NO_TIME, RANK, TIME, TIMER_RANK, Item
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess

OPEN_CHUNKS: Final = 8
SEALED_BYTES: Final = 16 * 1024
FAR: Final = 32  # a slot is at least this many times its width away from the watermark
WIDER: Final = 8  # factor from one width to the next
PREFIX: Final = keys.BUFFER
SIGN: Final = 1 << 63
MAX_CHUNKS: Final = 1 << 32  # of a slot: a chunk's number has 4 bytes


class Slot:
    """A slot as the key group's clock records it."""

    def __init__(self, chunks: int = 0, open_chunks: int = 0, events: int = 0) -> None:
        self.chunks = chunks  # numbered 0 .. chunks - 1
        self.open_chunks = open_chunks  # how many of the last are not sealed
        self.events = events  # items that are not timers


def chunk_key(start_ms: int, number: int) -> bytes:
    return PREFIX + (start_ms + SIGN).to_bytes(8, "big") + number.to_bytes(4, "big")


def encode_item(out: bytearray, item: Item) -> None:
    time, rank, set_at, topic, partition, offset, event_time, key, value = item
    avro.write_long(out, time)
    avro.write_long(out, rank)
    avro.write_long(out, set_at)
    avro.write_long(out, topic)
    avro.write_long(out, partition)
    avro.write_long(out, offset)
    avro.write_long(out, event_time)
    avro.write_bytes(out, key)
    avro.write_bytes(out, value)


def decode_items(block: bytes, count: int, into: list[Item]) -> None:
    pos = 0
    for _ in range(count):
        time, pos = avro.read_long(block, pos)
        rank, pos = avro.read_long(block, pos)
        set_at, pos = avro.read_long(block, pos)
        topic, pos = avro.read_long(block, pos)
        partition, pos = avro.read_long(block, pos)
        offset, pos = avro.read_long(block, pos)
        event_time, pos = avro.read_long(block, pos)
        key, pos = avro.read_bytes(block, pos)
        value, pos = avro.read_bytes(block, pos)
        into.append((time, rank, set_at, topic, partition, offset, event_time, key, value))


def encode_chunk(count: int, block: bytes) -> bytes:
    out = bytearray(BUFFER_CHUNK)
    avro.write_block(out, count, block)
    return bytes(out)


def open_chunk(entry: bytes | None) -> tuple[int, bytes]:
    """Count and bytes of a chunk's items. Raises Malformed if the entry is missing or is not a chunk."""
    if entry is None or not entry.startswith(BUFFER_CHUNK):
        raise avro.Malformed("a buffer chunk is missing from the state or has an unknown schema")
    count, block, _ = avro.read_block(entry, avro.HEADER_BYTES)
    return count, block


def take_due(
    slots: dict[int, Slot], state: StateAccess, watermark: int, due: list[Item], later: list[Item]
) -> list[Change]:
    """Empties the slots that begin before the watermark. Items go to `due`, or to `later` if the watermark has not
    passed them."""
    keys: list[bytes] = []
    for start in sorted(slots):
        if start >= watermark:
            break
        keys.extend([chunk_key(start, n) for n in range(slots[start].chunks)])
        del slots[start]
    if not keys:
        return []
    items: list[Item] = []
    for entry in state.get_many(keys):
        count, block = open_chunk(entry)
        decode_items(block, count, items)
    for item in items:
        if item[TIME] < watermark:
            due.append(item)
        else:
            later.append(item)
    return [(key, None) for key in keys]


def slot_start(time_ms: int, watermark: int, width_ms: int) -> int:
    """The start of the slot of a time that the watermark has not passed. `width_ms`: of the narrowest slots."""
    if watermark != NO_TIME:
        while time_ms - watermark >= FAR * WIDER * width_ms:
            width_ms *= WIDER
    return time_ms - time_ms % width_ms


def put_later(
    slots: dict[int, Slot], state: StateAccess, width_ms: int, watermark: int, later: list[Item]
) -> list[Change]:
    """Adds items to the slots of their times, as new chunks or merged with the slot's open chunks."""
    changes: list[Change] = []
    by_start: dict[int, list[Item]] = {}
    for item in later:
        start = slot_start(item[TIME], watermark, width_ms)
        if start in by_start:
            by_start[start].append(item)
        else:
            by_start[start] = [item]
    for start, items in by_start.items():
        slot = slots.get(start)
        if slot is None:
            slot = slots[start] = Slot()
        out = bytearray()
        count = 0
        for item in items:
            encode_item(out, item)
            count += 1
            if item[RANK] < TIMER_RANK:
                slot.events += 1
            if len(out) >= SEALED_BYTES:
                changes.extend(_add_chunk(slot, start, count, bytes(out), state))
                out = bytearray()
                count = 0
        if count:
            changes.extend(_add_chunk(slot, start, count, bytes(out), state))
    return changes


def _add_chunk(slot: Slot, start_ms: int, count: int, block: bytes, state: StateAccess) -> list[Change]:
    if slot.open_chunks >= OPEN_CHUNKS:
        return _merge(slot, start_ms, count, block, state)
    key = chunk_key(start_ms, slot.chunks)
    slot.chunks += 1
    _seal_if_full(slot, len(block))
    return [(key, encode_chunk(count, block))]


def _seal_if_full(slot: Slot, added_bytes: int) -> None:
    slot.open_chunks = 0 if added_bytes >= SEALED_BYTES else slot.open_chunks + 1


def _merge(slot: Slot, start_ms: int, count: int, block: bytes, state: StateAccess) -> list[Change]:
    first = slot.chunks - slot.open_chunks
    keys = [chunk_key(start_ms, n) for n in range(first, slot.chunks)]
    parts = [open_chunk(entry) for entry in state.get_many(keys)]
    total = count + sum([n for n, _ in parts])
    merged = b"".join([part for _, part in parts]) + block
    slot.chunks = first + 1
    slot.open_chunks = 0
    _seal_if_full(slot, len(merged))
    changes: list[Change] = [(keys[0], encode_chunk(total, merged))]
    changes.extend([(key, None) for key in keys[1:]])
    return changes

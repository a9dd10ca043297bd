"""A key group's clock: its watermark, its time slots and its counts.

Entry key: `c`. Value: `KeyGroupClock` (avro/state/KeyGroupClock), single-object encoded; version 1 can be read, too.
Counts are totals since the checkpoint began. Counts that processors also decrease (such as waiting money) are the
current number. Ages count the things that are held now, by the time since which they are held (`Effects.hold`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.engine import avro, keys
from moneystate.engine.fingerprints import KEY_GROUP_CLOCK, KEY_GROUP_CLOCK_V1
from moneystate.engine.items import NO_TIME
from moneystate.engine.limits import MAX_TOTAL
from moneystate.engine.order import Partition
from moneystate.engine.plan import STATE_VERSION
from moneystate.engine.slots import MAX_CHUNKS, Slot

KEY: Final = keys.CLOCK


class Clock:
    def __init__(self) -> None:
        self.state_version = STATE_VERSION
        self.watermark = NO_TIME
        self.highs: dict[Partition, int] = {}
        self.slots: dict[int, Slot] = {}
        self.counts: dict[str, int] = {}
        self.ages: dict[int, int] = {}

    def add_ages(self, ages: dict[int, int]) -> None:
        for since, n in ages.items():
            total = self.ages.get(since, 0) + n
            if total > 0:
                self.ages[since] = total
            else:  # an earlier version began to hold it and did not count it
                self.ages.pop(since, None)

    def oldest(self) -> int:
        """The time since which something is held, rounded to ten seconds; NO_TIME: nothing is held."""
        return min(self.ages) if self.ages else NO_TIME

    def add_counts(self, counts: dict[str, int]) -> None:
        for name, n in counts.items():
            self.counts[name] = max(-MAX_TOTAL, min(self.counts.get(name, 0) + n, MAX_TOTAL))

    def buffered(self) -> int:
        """Events whose order time the watermark has not passed."""
        total = 0
        for slot in self.slots.values():
            total += slot.events
        return total


def encode(clock: Clock) -> bytes:
    out = bytearray(KEY_GROUP_CLOCK)
    avro.write_long(out, STATE_VERSION)
    avro.write_long(out, clock.watermark)
    items = bytearray()
    for (topic, partition), high in sorted(clock.highs.items()):
        avro.write_long(items, topic)
        avro.write_long(items, partition)
        avro.write_long(items, high)
    avro.write_block(out, len(clock.highs), bytes(items))
    items = bytearray()
    for start in sorted(clock.slots):
        slot = clock.slots[start]
        avro.write_long(items, start)
        avro.write_long(items, slot.chunks)
        avro.write_long(items, slot.open_chunks)
        avro.write_long(items, slot.events)
    avro.write_block(out, len(clock.slots), bytes(items))
    items = bytearray()
    for name, n in sorted(clock.counts.items()):
        avro.write_bytes(items, name.encode())
        avro.write_long(items, n)
    avro.write_block(out, len(clock.counts), bytes(items))
    items = bytearray()
    for since, n in sorted(clock.ages.items()):
        avro.write_long(items, since)
        avro.write_long(items, n)
    avro.write_block(out, len(clock.ages), bytes(items))
    return bytes(out)


def decode(entry: bytes | None) -> Clock:
    """The clock in `entry`, or a new one if there is no entry. Raises Malformed for an unknown schema."""
    clock = Clock()
    if entry is None:
        return clock
    while (header := entry[: avro.HEADER_BYTES]) in MIGRATIONS:
        entry = MIGRATIONS[header](entry)
    if not entry.startswith(KEY_GROUP_CLOCK):
        raise avro.Malformed("the key group's clock has an unknown schema: a newer program wrote it")
    pos = avro.HEADER_BYTES
    clock.state_version, pos = avro.read_long(entry, pos)
    if clock.state_version > STATE_VERSION:
        raise avro.Malformed(
            f"state of version {clock.state_version}, this program knows {STATE_VERSION}: a newer program wrote it"
        )
    clock.watermark, pos = avro.read_long(entry, pos)
    count, block, pos = avro.read_block(entry, pos)
    item_pos = 0
    for _ in range(count):
        topic, item_pos = avro.read_long(block, item_pos)
        partition, item_pos = avro.read_long(block, item_pos)
        clock.highs[topic, partition], item_pos = avro.read_long(block, item_pos)
    count, block, pos = avro.read_block(entry, pos)
    item_pos = 0
    for _ in range(count):
        start, item_pos = avro.read_long(block, item_pos)
        chunks, item_pos = avro.read_long(block, item_pos)
        open_chunks, item_pos = avro.read_long(block, item_pos)
        events, item_pos = avro.read_long(block, item_pos)
        if not 0 <= open_chunks <= chunks <= MAX_CHUNKS:
            raise avro.Malformed("a time slot whose chunks cannot exist")
        clock.slots[start] = Slot(chunks, open_chunks, events)
    count, block, pos = avro.read_block(entry, pos)
    item_pos = 0
    for _ in range(count):
        name, item_pos = avro.read_bytes(block, item_pos)
        clock.counts[_text(name)], item_pos = avro.read_long(block, item_pos)
    count, block, pos = avro.read_block(entry, pos)
    item_pos = 0
    for _ in range(count):
        since, item_pos = avro.read_long(block, item_pos)
        clock.ages[since], item_pos = avro.read_long(block, item_pos)
    return clock


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise avro.Malformed("the name of a count is not UTF-8") from None


def clock_1_to_2(entry: bytes) -> bytes:
    """Adds the counts by age, which version 2 has."""
    return KEY_GROUP_CLOCK + entry[avro.HEADER_BYTES :] + b"\x00"


# The functions that lead from an earlier schema to the next one.
MIGRATIONS: Final[dict[bytes, Callable[[bytes], bytes]]] = {KEY_GROUP_CLOCK_V1: clock_1_to_2}

"""The clock of a key group as the first version of the state had it."""

from __future__ import annotations

from moneystate.engine import avro
from moneystate.engine.fingerprints import KEY_GROUP_CLOCK_V1


def first_version(entry: bytes) -> bytes:
    """It had no counts by age, which are only shown to people."""
    _, body = avro.read_long(entry, avro.HEADER_BYTES)
    _, pos = avro.read_long(entry, body)
    for _ in range(3):  # highs, slots, counts
        _, _, pos = avro.read_block(entry, pos)
    return KEY_GROUP_CLOCK_V1 + avro.long_bytes(1) + entry[body:pos]

"""The partition of a key, as producers with `murmur2_random` and Kafka's Java clients choose it."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Works like `org.apache.kafka.common.utils.Utils.murmur2`, unsigned."""
    mixed = _SEED ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        part = (part ^ part >> 24) * _MULTIPLIER & _MASK
        mixed = mixed * _MULTIPLIER & _MASK ^ part
    if whole < len(key):
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * _MULTIPLIER & _MASK
    return mixed ^ mixed >> 15

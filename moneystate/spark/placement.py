"""Places key groups evenly on the operator's partitions.

Spark sends a row to partition `pmod(murmur3(key), n)`. With consecutive keys, one of two partitions could get a quarter
more key groups than the other. So a key group's key is the first number of the form `group + key_groups * k` that Spark
places on partition `group mod n`. The group is `key mod key_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence

SEED = 42  # of Spark's HashPartitioning


def _mix(value: int) -> int:
    value = value * 0xCC9E2D51 & 0xFFFFFFFF
    value = (value << 15 | value >> 17) & 0xFFFFFFFF
    return value * 0x1B873593 & 0xFFFFFFFF


def murmur3_int(value: int, seed: int = SEED) -> int:
    """Murmur3 (x86, 32 bits) of a 4-byte integer, signed, as Spark's `hash` computes it."""
    h = seed ^ _mix(value & 0xFFFFFFFF)
    h = (h << 13 | h >> 19) & 0xFFFFFFFF
    h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def placed_keys(key_groups: int, partitions: int) -> list[int]:
    """The key of each key group, by its number."""
    return [_place(group, key_groups, partitions) for group in range(key_groups)]


def _place(group: int, key_groups: int, partitions: int) -> int:
    key = group
    while murmur3_int(key) % partitions != group % partitions:
        key += key_groups
    return key


def first_groups(keys: Sequence[int], partitions: int) -> set[int]:
    """The key group of each partition that Spark hands over first: it sorts a partition's rows by key. `keys`: as from
    `placed_keys`."""
    used = range(min(partitions, len(keys)))
    return {min(range(partition, len(keys), partitions), key=keys.__getitem__) for partition in used}

"""What every `StateAccess` must do, as plain functions over one: they also run inside Spark's Python workers.

Each takes an access whose key group has no entries under the keys that it uses, and removes what it put.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from moneystate.engine.state import StateAccess

Check = Callable[[StateAccess], None]
MANY = 20_000  # their requests and replies are more than what the sockets on the way hold


def check_missing_keys_are_none(access: StateAccess) -> None:
    assert access.get_many([]) == []
    assert access.get_many([b"no", b"such", b""]) == [None, None, None]


def check_entries_come_in_the_order_of_the_keys(access: StateAccess) -> None:
    access.apply([(b"one", b"1"), (b"two", b"2"), (b"three", b"3")])
    assert access.get_many([b"three", b"none", b"one", b"two", b"one"]) == [b"3", None, b"1", b"2", b"1"]
    access.apply([(b"one", None), (b"two", None), (b"three", None)])


def check_put_replaces_and_none_removes(access: StateAccess) -> None:
    access.apply([(b"key", b"old"), (b"other", b"stays")])
    access.apply([(b"key", b"new")])
    assert access.get_many([b"key"]) == [b"new"]
    access.apply([(b"key", None)])
    assert access.get_many([b"key", b"other"]) == [None, b"stays"]
    access.apply([(b"key", b"again"), (b"other", None)])
    assert access.get_many([b"key", b"other"]) == [b"again", None]
    access.apply([(b"key", None)])


def check_removing_what_is_not_there_is_no_error(access: StateAccess) -> None:
    access.apply([])
    access.apply([(b"never", None)])
    assert access.get_many([b"never"]) == [None]


def check_an_empty_value_is_a_value(access: StateAccess) -> None:
    access.apply([(b"empty", b""), (b"", b"empty key")])
    assert access.get_many([b"empty", b""]) == [b"", b"empty key"]
    access.apply([(b"empty", None), (b"", None)])


def check_keys_and_values_are_any_bytes(access: StateAccess) -> None:
    keys = [b"\x00", b"\x00\x00", b"a\x00", b"a\x00b", b"\xff" * 3, "zoë".encode(), bytes(range(256)), b"k" * 300]
    access.apply([(key, key[::-1]) for key in keys])
    assert access.get_many(keys) == [key[::-1] for key in keys]
    access.apply([(key, None) for key in keys])
    assert access.get_many(keys) == [None] * len(keys)


def check_sizes_around_the_lengths_of_lengths(access: StateAccess) -> None:
    sizes = [1, 107, 108, 127, 128, 255, 256, 16_383, 16_384, 65_535, 65_536, 65_537]
    entries = [(b"size %d" % size, os.urandom(size)) for size in sizes]
    access.apply(entries)
    assert access.get_many([key for key, _ in entries]) == [value for _, value in entries]
    access.apply([(key, None) for key, _ in entries])


def check_large_values(access: StateAccess) -> None:
    entries = [(b"large %d" % n, os.urandom(1 << 20)) for n in range(6)]
    access.apply(entries)
    assert access.get_many([key for key, _ in entries]) == [value for _, value in entries]
    access.apply([(key, None) for key, _ in entries])


def check_many_keys_at_once(access: StateAccess, many: int = MANY) -> None:
    """Requests and replies that fill the buffers of both directions: one who only sends, then only reads, hangs."""
    keys = [b"many %d" % n for n in range(many)]
    access.apply([(key, key * 10) for key in keys])
    assert access.get_many(keys) == [key * 10 for key in keys]
    access.apply([(key, None) for key in keys])
    assert access.get_many(keys[::100]) == [None] * (many // 100)


def check_a_scan_gives_every_entry_once(access: StateAccess, many: int = 3_000) -> None:
    before = dict(access.scan())
    entries = {b"scan %d" % n: b"%d" % n * (n % 50) for n in range(many)}
    access.apply(list(entries.items()))
    scanned = list(access.scan())
    assert len(scanned) == len(before) + len(entries)
    assert dict(scanned) == {**before, **entries}
    assert access.get_many([b"scan 7", b"none"]) == [b"7" * 7, None]
    assert dict(access.scan(b"scan 99")) == {key: value for key, value in entries.items() if key[:7] == b"scan 99"}
    assert list(access.scan(b"scan 7 and more")) == []
    access.apply([(key, None) for key in entries])
    assert dict(access.scan()) == before


CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check for name, check in sorted(globals().items()) if name.startswith("check_")
}

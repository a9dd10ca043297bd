"""Scans the versioned index keys (`moneystate.replica.rows`, I and X) in order, as of one revision.

Past rows are sorted by the class of their length and the interval of their end. So a read of a version examines the
rows that the version has, and few others, however much has changed since.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from moneystate.replica import rows
from moneystate.replica.files import Db


def keys(db: Db, revision: int, low: bytes, high: bytes, last: int) -> Iterator[bytes]:
    """Index keys from `low` to before `high`. `last`: the last assigned revision."""
    now = _now(db, revision, low, high)
    if revision >= last:
        return now
    return heapq.merge(now, *_past(db, revision, low, high, last))


def _now(db: Db, revision: int, low: bytes, high: bytes) -> Iterator[bytes]:
    for key, put in db.items(rows.INDEX + low, rows.INDEX + high):
        if rows.read_long(put) <= revision:
            yield key[1:]


def _past(db: Db, revision: int, low: bytes, high: bytes, last: int) -> Iterator[Iterator[bytes]]:
    for bits in range(1, last.bit_length() + 1):
        end = min(revision + (1 << bits), last)
        for stretch in range((revision + 1) >> bits, (end >> bits) + 1):
            yield _in_stretch(db, revision, rows.index_history_start(bits, stretch), low, high)


def _in_stretch(db: Db, revision: int, start: bytes, low: bytes, high: bytes) -> Iterator[bytes]:
    for key, put in db.items(start + low, start + high):
        until = rows.read_long(key, len(key) - rows.LONG_BYTES)
        if rows.read_long(put) <= revision < until:
            yield key[len(start) : -rows.LONG_BYTES]

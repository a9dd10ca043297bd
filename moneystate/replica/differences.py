"""The differences between two versions, listed by entry, because one key may have very many."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

from moneystate.replica import range_scan, rows
from moneystate.replica.listing import COMPARED, mark_of, page_of
from moneystate.replica.model import Difference, Page
from moneystate.replica.snapshot import Snapshot

FEW: Final = 5_000  # up to so many changes between two versions are scanned: about 5 ms

Pair = tuple[bytes, bytes | None, bytes | None]  # an entry with its values at both versions


def differences(before: Snapshot, after: Snapshot, limit: int, mark: bytes | None) -> Page[Difference]:
    """Entries that differ, in the order of their keys. The passing of time is not a difference: neither the expiry of
    an entry, nor the removal of an expired one."""
    before.check()
    after.check()
    first = mark_of(mark, rows.LATEST)[1:]
    pairs = ((rows.LATEST + pair[0], pair) for pair in _in_question(before, after, first))
    return page_of(pairs, lambda pair: _difference(before, after, *pair), limit, COMPARED)


def _in_question(before: Snapshot, after: Snapshot, first: bytes) -> Iterator[Pair]:
    """Entries that may differ."""
    low, high = sorted((before.revision, after.revision))
    span = after.db.keys(rows.CHANGE + rows.long(low + 1), rows.CHANGE + rows.long(high + 1))
    changes = list(islice(span, FEW + 1))
    if len(changes) <= FEW:
        changed = sorted({key[1 + rows.LONG_BYTES :] for key in changes})
        return ((entry, before.read(entry), after.read(entry)) for entry in changed if entry >= first)
    return _all(before, after, first)


def _all(before: Snapshot, after: Snapshot, first: bytes) -> Iterator[Pair]:
    def of(snapshot: Snapshot, number: int) -> Iterator[tuple[bytes, int, bytes | None]]:
        for entry, stored in range_scan.entries(snapshot.db, snapshot.revision, b"", first, True):
            yield entry, number, stored

    for entry, both in groupby(heapq.merge(of(before, 0), of(after, 1), key=_entry_number), key=lambda r: r[0]):
        stored = {number: value for _, number, value in both}
        yield entry, stored.get(0), stored.get(1)


def _entry_number(row: tuple[bytes, int, bytes | None]) -> tuple[bytes, int]:
    return row[:2]


def _difference(
    before: Snapshot, after: Snapshot, entry: bytes, was: bytes | None, now: bytes | None
) -> Difference | None:
    if was == now:
        return None
    old, new = before.item(entry, was), after.item(entry, now)
    if old is None or new is None or old.record == new.record:
        return None
    is_forward = before.revision <= after.revision
    late, at_last = (after, (now, was)) if is_forward else (before, (was, now))
    last = late.item(entry, next((stored for stored in at_last if stored is not None), None))
    has_expired = last is not None and last.record is None
    return None if has_expired else Difference(old, new)

"""Scans a range of entries in order, as of one revision, over current and past rows.

The index of users does not lead here: it has nobody who was forgotten, of whom the proof stays, and money that is still
looked up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby

from moneystate.replica import rows
from moneystate.replica.files import Db

EntryRow = tuple[bytes, bytes | None]  # an entry; its value at the revision, None: it has none there


def entries(db: Db, revision: int, prefix: bytes, first: bytes, past: bool) -> Iterator[EntryRow]:
    """Each entry that begins with `prefix` and that there is or was, from `first` on, once. A step looks at no more
    than four rows.

    `past`: whether there are values that ended after `revision`.
    """
    now = _now(db, revision, prefix, first)
    if not past:
        yield from now
        return
    for entry, entry_rows in groupby(heapq.merge(now, _past(db, revision, prefix, first), key=_entry), key=_entry):
        yield entry, next((value for _, value in entry_rows if value is not None), None)


def _entry(row: EntryRow) -> bytes:
    return row[0]


def _now(db: Db, revision: int, prefix: bytes, first: bytes) -> Iterator[EntryRow]:
    for key, row in db.items(rows.LATEST + first, rows.after(rows.LATEST + prefix)):
        yield key[1:], row[rows.LONG_BYTES :] if rows.read_long(row) <= revision else None


def _past(db: Db, revision: int, prefix: bytes, first: bytes) -> Iterator[EntryRow]:
    """An entry's rows stand newest first, and may be very many: only the first that had begun by then is looked at."""
    cursor = db.cursor(rows.after(rows.PAST + prefix))
    key = cursor.seek(rows.PAST + first)
    while key is not None:
        entry = key[1 : -rows.LONG_BYTES]
        begun = rows.past_key(entry, revision)
        if key < begun:
            key = cursor.seek(begun)
        value = None
        if key is not None and key[: -rows.LONG_BYTES] == rows.PAST + entry:
            until, was = rows.read_past(cursor.value())
            value = was if revision < until else None
        yield entry, value
        key = cursor.seek(rows.past_key(entry, 0) + b"\0")


def owners(db: Db, first: bytes, end: bytes, past: bool) -> Iterator[bytes]:
    """Whose entries there are, or were, in their order. `first`, `end`: escaped; an empty end: all. Each costs two
    leaps, however many entries it has."""
    kinds = (rows.LATEST, rows.PAST) if past else (rows.LATEST,)
    cursors = [(kind, db.cursor(kind + end if end else rows.after(kind))) for kind in kinds]
    here = first
    while True:
        reached = [key for kind, cursor in cursors if (key := cursor.seek(kind + here)) is not None]
        if not reached:
            return
        owner = min(rows.unescape(key, 1)[0] for key in reached)
        yield owner
        here = rows.after(rows.escape(owner))

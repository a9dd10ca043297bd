"""Scans a range of entries in order, as of one revision, over current and past rows."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby

from moneystate.replica import rows
from moneystate.replica.files import Db

EntryRow = tuple[bytes, bytes | None]  # an entry and its value at the revision; None: it did not exist


def entries(db: Db, revision: int, prefix: bytes, first: bytes, past: bool) -> Iterator[EntryRow]:
    """Each present or past entry that begins with `prefix`, once, from `first` on. A step examines at most four rows.

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
    """An entry may have very many rows, sorted newest first. Only the first one from before the revision is read."""
    cursor = db.cursor(rows.after(rows.past_prefix(prefix)))
    key = cursor.seek(rows.past_prefix(first))
    while key is not None:
        entry = rows.past_entry(key)
        begun = rows.past_key(entry, revision)
        if key < begun:
            key = cursor.seek(begun)
        value = None
        if key is not None and key[: -rows.LONG_BYTES] == rows.past_rows(entry):
            until, was = rows.read_past(cursor.value())
            value = was if revision < until else None
        yield entry, value
        key = cursor.seek(rows.past_key(entry, 0) + b"\0")


def owners(db: Db, first: bytes, end: bytes, past: bool) -> Iterator[bytes]:
    """The owners of present or past entries, in order. `first`, `end`: escaped; an empty end: all. Each owner costs two
    seeks, however many entries it has."""
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

"""Reads over the replica's rows.

Calls are synchronous and short: a point read costs some tens of µs, a listing as much per item. All calls come from one
thread, that of an event loop, so the data does not change during a call. `newest` checks for new versions. All calls
except `status` and `newest` raise NotReady before the first full catch-up.

Changes are listed by entry, because one key may have very many.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.replica import rows
from moneystate.replica.files import Db
from moneystate.replica.listing import COMPARED
from moneystate.replica.model import (
    Future,
    Header,
    Item,
    ItemChanges,
    Malformed,
    NotReady,
    Pruned,
    SchemaCount,
    Status,
    Step,
    Version,
)
from moneystate.replica.publishing import version_key, watermark_key
from moneystate.replica.record import BASE, Record, Revision, decode_revision, read_record, read_revision
from moneystate.replica.rows import text
from moneystate.replica.shared_status import SharedStatus, SharedStatusFile
from moneystate.replica.snapshot import Snapshot, entry_of
from moneystate.runtime.cells import RecordKind
from moneystate.runtime.replica_model import ReplicaModel

MAX_WATERMARK_MS: Final = (1 << 63) - 1
VERSIONS_PER_SCAN: Final = 200  # versions that one call examines for changes of an owner: about 3 ms
SIZE_S: Final = 5.0  # how often the files are measured


class ReplicaReader:
    """`db`: without it no version can be read yet. `FollowedReader` opens the files of another process."""

    def __init__(self, model: ReplicaModel, db: Db | None = None) -> None:
        self.model = model
        self.db = db
        self.status_file: SharedStatusFile | None = None
        self.record = Record()
        self.newest_revision: Revision | None = None
        self.measured: tuple[float, int] = (float("-inf"), 0)
        self.refresh()

    def refresh(self) -> None:
        """Takes over the database's current state."""
        self.record = (self.db and read_record(self.db)) or Record()
        newest = self.record.newest
        if self.db is None or not newest:
            self.newest_revision = None
        elif self.newest_revision is None or self.newest_revision.number != newest:
            self.newest_revision = read_revision(self.db, newest)

    def newest(self) -> Version | None:
        self.refresh()
        return None if self.newest_revision is None else self.newest_revision.version

    def latest(self) -> Snapshot:
        return self._snapshot(self._newest())

    def at_version(self, version: Version) -> Snapshot:
        return self._snapshot(self._find(version))

    def _find(self, version: Version) -> Revision:
        newest = self._newest()
        row = self._open().get(version_key(version))
        number = 0 if row is None else rows.read_long(row)
        if self.record.oldest <= number <= newest.number:
            revision = read_revision(self._open(), number)
            if revision is not None and revision.readable:
                return revision
        if self._is_past(version, newest):
            raise self.pruned()
        raise Future(newest.version)

    def _is_past(self, version: Version, newest: Revision) -> bool:
        if version.epoch == newest.version.epoch:
            return version.batch <= newest.version.batch
        return version.epoch in self.record.epochs

    def at_time(self, event_time_ms: int) -> Snapshot:
        self._newest()
        until = max(NO_TIME, min(event_time_ms, END_OF_TIME))
        for epoch in reversed(range(len(self.record.epochs))):
            first, last = watermark_key(epoch, NO_TIME, 0), watermark_key(epoch, until, rows.MAX_LONG)
            key = self._open().last_key(first, last)
            revision = (
                None if key is None else read_revision(self._open(), rows.read_long(key, len(key) - rows.LONG_BYTES))
            )
            if revision is not None:
                if revision.number < self.record.oldest:
                    break
                return self._snapshot(revision)
        raise self.pruned()

    def _whole_from(self, number: int) -> Revision:
        """The first version at or after a revision that can be read."""
        start = rows.REVISION + rows.long(number)
        for key, row in self._open().items(start, rows.after(rows.REVISION)):
            revision = decode_revision(rows.read_long(key, 1), row)
            if revision.readable:
                return revision
        raise AssertionError("unreachable: the newest version is readable")

    # Status

    def status(self) -> Status:
        record, shared = self.record, self._shared_status()
        newest, oldest = self.newest_revision, None
        if self.db is not None and record.oldest:
            oldest_revision = read_revision(self.db, record.oldest)
            oldest = None if oldest_revision is None else oldest_revision.version
        counts = tuple(
            SchemaCount(kind, int(version), n)
            for kind in sorted(record.entries)
            for version, n in sorted(record.entries[kind].items())
            if n
        )
        return Status(
            header=None if newest is None else self._header(newest),
            caught_up=bool(shared.caught_up) and newest is not None,
            oldest=oldest,
            lag_records=shared.lag_records,
            current_as_of_ms=shared.current_as_of_ms or record.alive_ms,
            keys=sum(c.entries for c in counts if c.kind == self.model.owners),
            schema_counts=counts,
            database_bytes=self._size(),
            key_groups=record.groups,
        )

    def _size(self) -> int:
        measured_at, size = self.measured
        if self.db is not None and time.monotonic() - measured_at > SIZE_S:
            size = self.db.size()
            self.measured = (time.monotonic(), size)
        return size

    def pruned(self) -> Pruned:
        newest = self._newest()
        oldest = read_revision(self._open(), self.record.oldest)
        return Pruned((oldest or newest).version, newest.version)

    def close(self) -> None:
        if self.db is not None:
            self.db.close()
        if self.status_file is not None:
            self.status_file.close()
        self.db = self.status_file = None

    def _open(self) -> Db:
        if self.db is None:
            raise NotReady
        return self.db

    def _newest(self) -> Revision:
        if self.newest_revision is None:
            raise NotReady
        return self.newest_revision

    def _snapshot(self, revision: Revision) -> Snapshot:
        return Snapshot(self, self._open(), revision, self._header(revision))

    def _header(self, revision: Revision) -> Header:
        shown: int | None = revision.watermark_ms
        if revision.watermark_ms == NO_TIME:
            shown = None
        elif revision.watermark_ms >= END_OF_TIME:
            shown = MAX_WATERMARK_MS
        as_of = self._shared_status().current_as_of_ms or self.record.alive_ms
        return Header(revision.version, shown, revision.written_at_ms, as_of, self.model.fingerprint)

    def _shared_status(self) -> SharedStatus:
        return SharedStatus() if self.status_file is None else self.status_file.read()

    # Changes

    def changed_since(self, after: Version, most: int) -> set[str] | None:
        """The keys that have changed after a version; None: there are more than `most` changes."""
        start, newest = self._find(after), self._newest()
        span = self._open().keys(rows.CHANGE + rows.long(start.number + 1), rows.CHANGE + rows.long(newest.number + 1))
        changes = list(islice(span, most + 1))
        if len(changes) > most:
            return None
        return {text(rows.unescape(key, 1 + rows.LONG_BYTES)[0]) for key in changes}

    def item_changes(self, after: Version, owner: bytes | None, limit: int, mark: bytes | None) -> ItemChanges:
        """The changes of the first version after `after` that has any, at most `limit` entries. `owner`: only of this
        key. With the `mark` of the previous call: the rest of that version's changes. If nothing changed, `items` is
        empty and the header is that of the newest version, which may be `after` itself. Raises Pruned, Future,
        Malformed."""
        start, newest = self._find(after), self._newest()
        if owner is not None:
            return self._changes_of_key(owner, start, newest, limit, mark)
        first, last = rows.CHANGE + rows.long(start.number + 1), rows.CHANGE + rows.long(newest.number + 1)
        return self._of_first_version(first, last, newest, limit, mark)

    def _of_first_version(
        self, first: bytes, last: bytes, end: Revision, limit: int, mark: bytes | None
    ) -> ItemChanges:
        """`end`: the version to return if nothing changed."""
        if mark is not None and not first <= mark < last:
            raise Malformed("mark: expected the one of the previous call")
        there = next(self._open().keys(mark or first, last), None)
        if there is None:
            return ItemChanges(self._header(end), (), None)
        revision = self._whole_from(rows.read_long(there, 1))
        keys = self._open().keys(there, rows.CHANGE + rows.long(revision.number + 1))
        return self._changed_items(revision, keys, limit)

    def _changed_items(self, revision: Revision, keys: Iterator[bytes], limit: int) -> ItemChanges:
        snapshot = self._snapshot(revision)
        items: dict[bytes, Item] = {}
        for examined, key in enumerate(keys):
            entry = key[1 + rows.LONG_BYTES :]
            if entry in items:
                continue
            if len(items) == limit or examined == COMPARED:  # many may be timers, which are not listed
                return ItemChanges(snapshot.header, tuple(items.values()), key)
            item = snapshot.item(entry, snapshot.read(entry))
            if item is not None:
                items[entry] = item
        return ItemChanges(snapshot.header, tuple(items.values()), None)

    def _changes_of_key(
        self, owner: bytes, start: Revision, newest: Revision, limit: int, mark: bytes | None
    ) -> ItemChanges:
        """The changes of one key: an interval of versions at a time, however many there are."""
        if start.number == newest.number:
            return ItemChanges(self._header(newest), (), None)
        end = self._whole_from(min(start.number + VERSIONS_PER_SCAN, newest.number))
        touched = (n for n in range(start.number + 1, end.number + 1) if self._has_changed(owner, n))
        first = next(touched, None)
        if first is None:
            return ItemChanges(self._header(end), (), None)
        revision = self._whole_from(first)
        keys: list[bytes] = []
        for number in range(first, revision.number + 1):
            prefix = rows.CHANGE + rows.long(number) + rows.escape(owner)
            begin = mark if mark is not None and mark.startswith(prefix) else prefix
            if mark is None or begin == mark or prefix > mark:
                keys += islice(self._open().keys(begin, rows.after(prefix)), limit + 1)
        return self._changed_items(revision, iter(keys), limit)

    def _has_changed(self, owner: bytes, number: int) -> bool:
        start = rows.CHANGE + rows.long(number) + rows.escape(owner)
        return next(self._open().keys(start, rows.after(start)), None) is not None

    # The history of an entry

    def steps(self, owner: bytes, kind: RecordKind, id: bytes, snapshot: Snapshot, limit: int) -> list[Step]:
        """The entry's changes, newest first, from a version back to the oldest one that is kept."""
        snapshot.check()
        entry, number, steps = entry_of(kind, owner, id), snapshot.revision, list[Step]()
        while len(steps) < limit:
            start, stored = self._interval(entry, number)
            record = snapshot.readable(kind, stored)
            if start < self.record.oldest or start <= BASE:
                if stored is not None:
                    steps.append(Step(None, None, record))
                break
            steps.append(Step(self._snapshot(self._whole_from(start)).header, self._watermark_before(start), record))
            number = start - 1
        return steps

    def _interval(self, entry: bytes, number: int) -> tuple[int, bytes | None]:
        """Returns the revision since which the entry has had its value at revision `number`, and the value. 0:
        always."""
        row = self._open().get(rows.LATEST + entry)
        if row is not None and rows.read_long(row) <= number:
            return rows.read_long(row), row[rows.LONG_BYTES :]
        for key, was in self._open().items(rows.past_key(entry, number), rows.past_key(entry, 0)):
            until, value = rows.read_past(was)
            if number < until:
                return rows.MAX_LONG - rows.read_long(key, len(key) - rows.LONG_BYTES), value
            return until, None
        return 0, None

    def _watermark_before(self, number: int) -> int | None:
        """The watermark of the version before this revision."""
        key = self._open().last_key(rows.REVISION, rows.REVISION + rows.long(number))
        revision = None if key is None else read_revision(self._open(), rows.read_long(key, 1))
        return None if revision is None else self._header(revision).watermark_ms

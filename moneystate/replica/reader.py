"""Reads over the replica's rows, in the follower's process or in others.

Calls are synchronous and short: a point read costs some tens of µs, a listing as much per item. All calls come from one
thread, that of an event loop, so the data does not change during a call. `newest` checks for new versions. All calls
except `status` and `newest` raise NotReady before the first full catch-up.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.replica import files, rows
from moneystate.replica.files import Db, Secondary
from moneystate.replica.model import (
    Future,
    Header,
    NotReady,
    Pruned,
    SchemaCount,
    Status,
    Version,
)
from moneystate.replica.publishing import version_key, watermark_key
from moneystate.replica.record import Record, Revision, decode_revision, read_record, read_revision
from moneystate.replica.rows import text
from moneystate.replica.shared_status import SharedStatus, SharedStatusFile
from moneystate.replica.snapshot import Files, Snapshot
from moneystate.runtime.replica_model import ServiceReplica

MAX_WATERMARK_MS: Final = (1 << 63) - 1
# A reader catches up once there are so many rows, even if the version is not complete: 0.2 ms.
CATCH_UP_ROWS: Final = 80
CHANGE_OVER_S: Final = 0.25  # how often to check whether the replica was rebuilt
FEW: Final = 5_000  # up to so many changes between two versions are scanned: about 5 ms
VERSIONS_PER_SCAN: Final = 200  # versions that one call examines for changes of an owner: about 3 ms
CATCH_UP_S: Final = 1.0  # the longest time before rows are caught up with
SIZE_S: Final = 5.0  # how often the files are measured


Snap = TypeVar("Snap", bound=Snapshot, covariant=True)


class MakeSnapshot(Protocol[Snap]):
    def __call__(self, model: ServiceReplica, files: Files, db: Db, revision: Revision, header: Header) -> Snap: ...


class Reader(Generic[Snap]):
    """Reads for one service. Without `db` and `shared` the follower has not started."""

    def __init__(
        self,
        model: ServiceReplica,
        make: MakeSnapshot[Snap],
        db: Db | None = None,
        shared: SharedStatusFile | None = None,
    ) -> None:
        self.model = model
        self.make = make  # creates the service's snapshots
        self.db = db
        self.status_file = shared
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

    def latest(self) -> Snap:
        return self._snapshot(self._newest())

    def at_version(self, version: Version) -> Snap:
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

    def at_time(self, event_time_ms: int) -> Snap:
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

    def _has_changed(self, owner: bytes, number: int) -> bool:
        start = rows.CHANGE + rows.long(number) + rows.escape(owner)
        return next(self._open().keys(start, rows.after(start)), None) is not None

    def changed_since(self, after: Version, most: int) -> set[str] | None:
        start, newest = self._find(after), self._newest()
        owners = self._changed(start.number, newest.number, most)
        return None if owners is None else {text(owner) for owner in owners}

    def _changed(self, low: int, high: int, most: int) -> set[bytes] | None:
        """The owners that changed after revision `low`, up to `high`; None: there are more than `most` changes."""
        span = self._open().keys(rows.CHANGE + rows.long(low + 1), rows.CHANGE + rows.long(high + 1))
        changes = list(islice(span, most + 1))
        if len(changes) > most:
            return None
        return {rows.unescape(key, 1 + rows.LONG_BYTES)[0] for key in changes}

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

    def _snapshot(self, revision: Revision) -> Snap:
        return self.make(self.model, self, self._open(), revision, self._header(revision))

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


class FollowedReader(Reader[Snap]):
    """Reads the files of a follower in another process. That process may start, end and rebuild its database at any
    time."""

    def __init__(self, model: ServiceReplica, make: MakeSnapshot[Snap], data: str) -> None:
        self.data = data
        self.generation: str | None = None
        self.status_seen = SharedStatus()
        self.caught_up_at = self.change_over_at = 0.0
        super().__init__(model, make)
        self._change_over()

    def newest(self) -> Version | None:
        now = time.monotonic()
        if now >= self.change_over_at:
            self.change_over_at = now + CHANGE_OVER_S
            if files.generation(self.data) != self.generation:
                self._change_over()
        if isinstance(self.db, Secondary):
            shared = self._shared_status()
            # not the last seen: a catch-up during a flush of the follower may miss the rows that the flush moves
            if shared.newest > self.record.newest or self._is_due(shared):
                self.status_seen, self.caught_up_at = shared, time.monotonic()
                self._catch_up(self.db)
        return None if self.newest_revision is None else self.newest_revision.version

    def _catch_up(self, db: Secondary) -> None:
        try:
            db.catch_up()
        except Exception:  # rocksdict has none of its own
            if files.generation(self.data) == self.generation:
                raise
            self.change_over_at = 0.0  # rebuilt meanwhile: the next check finds the new one
            return
        self.refresh()

    def _is_due(self, shared: SharedStatus) -> bool:
        """Whether to catch up although there is no new version: with rows of the next one, or of the retention
        sweep."""
        rows_behind = shared.written - self.status_seen.written
        waited = time.monotonic() - self.caught_up_at > CATCH_UP_S
        return not 0 <= rows_behind < CATCH_UP_ROWS or (rows_behind > 0 and waited)

    def _change_over(self) -> None:
        """Switches to the current generation, once its follower has opened it."""
        name = files.generation(self.data)
        if name is None or not files.is_open(self.data, name):
            return
        try:
            status_file = SharedStatusFile(files.folder(self.data, name))
            shared = status_file.read()  # read before the database, which is then never behind it
            db = Secondary(self.data, name)
        except Exception:  # rocksdict has none of its own
            if files.generation(self.data) == name:
                raise
            return  # rebuilt meanwhile: the next check finds the new one
        self.close()
        self.status_file, self.db, self.generation = status_file, db, name
        self.status_seen = shared
        self.newest_revision = None
        self.refresh()

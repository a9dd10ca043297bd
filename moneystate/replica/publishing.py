"""Publishes versions of the state: numbers them, and makes each readable once every key group has reached it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from rocksdict import WriteBatch

from moneystate.engine.marker import BEFORE_FIRST_BATCH
from moneystate.replica import rows
from moneystate.replica.files import Db
from moneystate.replica.model import Version
from moneystate.replica.record import Record, Revision, decode_revision, read_revision
from moneystate.replica.transaction_assembler import End


class Publisher:
    """Numbers and publishes versions. It adds rows to the caller's write batch, which the caller writes with the
    record."""

    def __init__(self, db: Db, record: Record) -> None:
        self.db = db
        self.record = record
        self.in_flight: dict[Version, Revision] = {}  # after `record.newest`
        self.last_batch: dict[str, int] = {}  # of each epoch
        self.readable_revisions: deque[tuple[int, int]] = deque()  # number, and when it was written in ms
        for key, row in db.items(rows.REVISION, rows.after(rows.REVISION)):
            self._note(decode_revision(rows.read_long(key, 1), row))

    def _note(self, revision: Revision) -> None:
        record, version = self.record, revision.version
        self.last_batch[version.epoch] = version.batch
        if revision.number > max(
            record.newest, min(record.done, default=0)
        ):  # versions that all have reached are readable or skipped
            self.in_flight[version] = revision
        elif revision.readable and revision.number >= record.oldest:
            self.readable_revisions.append((revision.number, revision.written_at_ms))

    def number_of(self, batch: WriteBatch, end: End) -> int:
        """The revision of the version of an end-of-batch record. A new version gets the next number."""
        version = end.version
        known = self.in_flight.get(version)
        if known is not None:
            if end.written_at_ms > known.written_at_ms:
                self.in_flight[version] = replace(known, written_at_ms=end.written_at_ms)
            return known.number
        if version.batch <= self.last_batch.get(version.epoch, BEFORE_FIRST_BATCH - 1):
            row = self.db.get(version_key(version))
            return rows.read_long(row) if row is not None else self._hidden(version)
        record = self.record
        record.last += 1
        revision = Revision(record.last, version, end.watermark_ms, end.written_at_ms, False, end.rules)
        batch.put(rows.REVISION + rows.long(revision.number), revision.encode())
        batch.put(version_key(version), rows.long(revision.number))
        self._note(revision)
        if version.epoch not in record.epochs:
            record.epochs.append(version.epoch)
        return revision.number

    def _hidden(self, version: Version) -> int:
        """Returns the revision of a version whose ends compaction has taken from another partition: it counts with the
        next one."""
        later = [
            r.number
            for r in self.in_flight.values()
            if r.version.epoch == version.epoch and r.version.batch > version.batch
        ]
        return min(later, default=self.record.newest)

    def skip(self, number: int) -> None:
        if number not in self.record.skipped:
            self.record.skipped.append(number)

    def reach(self, group: int, number: int) -> None:
        """Records that the key group has reached a version. Versions that it skipped are not complete here."""
        done = self.record.done
        for missed in range(max(done[group], self.record.newest) + 1, number):
            self.skip(missed)
        done[group] = number

    def advance(self, batch: WriteBatch) -> None:
        """Makes versions readable that all key groups have reached."""
        record = self.record
        reached = min(record.done, default=0)
        for revision in sorted(self.in_flight.values(), key=lambda r: r.number):
            if revision.number > reached:
                break
            del self.in_flight[revision.version]
            if revision.number not in record.skipped:
                self._publish(batch, revision)
            else:  # `publish_quiescent` may need it, with the time of its last end
                batch.put(rows.REVISION + rows.long(revision.number), revision.encode())
        record.skipped = [n for n in record.skipped if n > reached]

    def quiescent(self) -> Revision | None:
        """The version that all key groups have reached, if it is not readable because records may have been missing."""
        done = self.record.done
        if done and not self.record.half and self.record.newest < max(done) == min(done):
            return read_revision(self.db, max(done))
        return None

    def publish_quiescent(self, batch: WriteBatch, revision: Revision) -> None:
        """Publishes a version once the whole log is applied and no batch is in progress: then the rows are that
        version."""
        self.in_flight.pop(revision.version, None)
        self._publish(batch, revision)
        self.record.skipped = []

    def _publish(self, batch: WriteBatch, revision: Revision) -> None:
        record = self.record
        batch.put(rows.REVISION + rows.long(revision.number), replace(revision, readable=True).encode())
        batch.put(
            watermark_key(record.epochs.index(revision.version.epoch), revision.watermark_ms, revision.number), b""
        )
        record.newest = revision.number
        if not record.oldest:
            record.oldest = record.floor = revision.number
        self.readable_revisions.append((revision.number, revision.written_at_ms))


def version_key(version: Version) -> bytes:
    return rows.VERSION + rows.escape(version.epoch.encode()) + rows.signed(version.batch)


def watermark_key(epoch: int, watermark_ms: int, number: int) -> bytes:
    return rows.WATERMARK + epoch.to_bytes(4, "big") + rows.signed(watermark_ms) + rows.long(number)

"""The replica's rows, written: versions of entries, the index, history.

The only writer. A slice of a version goes in part by part, the last with the position to resume from: readers take over
a part at a time, and answer nothing meanwhile. After a kill in between the slice is read and put again, which changes
nothing of what is in; no reader sees a version before all of it is in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from rocksdict import WriteBatch

from moneystate.engine.keygroup import key_group_of
from moneystate.engine.marker import BEFORE_FIRST_BATCH
from moneystate.ports.replica import ReplicaModel
from moneystate.replica import rows
from moneystate.replica.erasing import Erasure
from moneystate.replica.files import Db, Misplaced, Rebuild
from moneystate.replica.model import Version
from moneystate.replica.record import ROW, Record, Revision, decode_revision, read_record, read_revision
from moneystate.replica.transaction_assembler import BatchSlice, Change, End

BASE: Final = 1  # the revision of all that was there before the first version
INDEX_ROWS: Final = 10_000
AT_ONCE: Final = 16  # changes in one write: four to seven rows each; readers take over a write or two at a time


class Store:
    """`readable_revisions`: readable revisions, and when they were written in ms; `at_once`: changes in one write."""

    def __init__(self, db: Db, model: ReplicaModel[Any], at_once: int = AT_ONCE) -> None:
        self.db = db
        self.model = model
        self.at_once = at_once
        self.wrote: Callable[[], None] = lambda: None  # called after each write: readers are told at once
        self.more_to_come: Callable[[], None] = lambda: None  # called between writes of one slice
        self.record = read_record(db) or Record()
        self.committed = 0  # rows
        self.in_flight: dict[Version, Revision] = {}  # after `newest`
        self.last_batch: dict[str, int] = {}  # of each epoch
        self.readable_revisions: deque[tuple[int, int]] = deque()
        self.erasure = Erasure(db, model)
        for key, row in db.items(rows.REVISION, rows.after(rows.REVISION)):
            self._note(decode_revision(rows.read_long(key, 1), row))
        self.erasure.run()

    @property
    def written(self) -> int:
        """Rows that readers have to take over, from the store's opening on."""
        return self.committed + self.erasure.written

    def close(self) -> None:
        self.erasure.wait()
        self.db.close()

    def _note(self, revision: Revision) -> None:
        record, version = self.record, revision.version
        self.last_batch[version.epoch] = version.batch
        if revision.number > max(
            record.newest, min(record.done, default=0)
        ):  # what all have reached is read or skipped
            self.in_flight[version] = revision
        elif revision.readable and revision.number >= record.oldest:
            self.readable_revisions.append((revision.number, revision.written_at_ms))

    # The first load: the entries as they are at the log's end, without history.

    def load(self, partition: int, records: list[tuple[int, Change]]) -> None:
        """Offsets and changes. The log is read from its beginning again if this is ended before `loaded`."""
        batch = WriteBatch(raw_mode=True)
        prefix = rows.LOADED + partition.to_bytes(4, "big")
        for offset, change in records:
            batch.put(prefix + change.entry, rows.long(offset) + (change.value or b""))
        self.db.write(batch)

    def loaded(self, ends: dict[int, tuple[int, End]], total: int, partitions: int, positions: dict[int, int]) -> None:
        """`ends`: the last one of each key group, with its offset; `total`: key groups, 0 before any batch;
        `partitions`: of the changelog, as the job chooses among them. Raises Misplaced."""
        record = self.record
        record.last = BASE
        record.groups, record.done, record.ended = total, [0] * total, [-1] * total
        record.partitions = partitions
        for group, (offset, _) in ends.items():
            if group < total:
                record.ended[group] = offset
        if total:
            self._take_loaded(partitions)
        batch = WriteBatch(raw_mode=True)
        for group, end in _in_order({group: end for group, (_, end) in ends.items() if group < total}):
            record.done[group] = self._revision(batch, end)
        highest = max(record.done, default=0)
        record.skipped = list(range(BASE, highest + 1 if record.half or record.holes else highest))
        record.loading = False
        self._advance(batch)
        batch.delete_range(rows.LOADED, rows.after(rows.LOADED))
        self.commit(batch, positions)
        self.erasure.clean(rows.LOADED)

    def _take_loaded(self, partitions: int) -> None:
        """What stands in the partition of its key group. Elsewhere there may be tombstones: who writes to a changelog
        of another number of partitions or key groups first removes what stood there (`moneystate.kafka.publish`)."""
        batch = WriteBatch(raw_mode=True)
        half: set[int] = set()
        for key, row in self.db.items(rows.LOADED, rows.after(rows.LOADED)):
            partition, entry = int.from_bytes(key[1:5], "big"), key[5:]
            user, kind, rest = rows.split_entry(entry)
            group = key_group_of(user, self.record.groups)
            if group % partitions != partition:
                if len(row) > rows.LONG_BYTES:
                    raise Misplaced(
                        f"key group {group} of {self.record.groups} has an entry in partition {partition}, though with "
                        f"{partitions} partitions it belongs to {group % partitions}: partitions were added"
                    )
                continue
            if rows.read_long(row) > self.record.ended[group]:
                half.add(group)
            if len(row) > rows.LONG_BYTES:
                self._take(batch, user, kind, rest, entry, row[rows.LONG_BYTES :])
            if batch.len() >= INDEX_ROWS:
                self.db.write(batch)
                batch = WriteBatch(raw_mode=True)
        self.db.write(batch)
        self.record.half = sorted(half)

    def _take(self, batch: WriteBatch, user: bytes, kind: bytes, rest: bytes, entry: bytes, value: bytes) -> None:
        put = rows.long(BASE)
        batch.put(rows.LATEST + entry, put + value)
        for hint in self.model.index_keys(user, kind, rest, value):
            batch.put(rows.INDEX + hint, put)
        if kind == self.model.held:
            batch.put(rows.PENDING + rows.waits_at(self.model.order_time(value), user, rest), put)
        self._count(value, 1)

    def has_quiescent_version(self) -> bool:
        """All key groups are at one version, which cannot be read as something may have been missing on the way."""
        done = self.record.done
        return bool(done) and not self.record.half and self.record.newest < max(done) == min(done)

    def publish_quiescent(self) -> None:
        """All that is in the log is in, and no batch is under way: what is there is that version."""
        record = self.record
        revision = read_revision(self.db, max(record.done))
        assert revision is not None
        batch = WriteBatch(raw_mode=True)
        self.in_flight.pop(revision.version, None)
        self._publish(batch, revision)
        record.skipped = []
        self.commit(batch, {})

    # Following.

    def apply(self, batch_slice: BatchSlice, exact: bool) -> None:
        """Of as many key groups as were loaded. `exact`: no record of the batch is missing. Raises Rebuild."""
        end, record = batch_slice.end, self.record
        batch = WriteBatch(raw_mode=True)
        if any(record.ended[group] < batch_slice.offset for group in end.groups):  # else it is in already
            batch = self._apply(batch, batch_slice, self._revision(batch, end), exact)
        self.commit(batch, {batch_slice.partition: batch_slice.position})
        self.erasure.run()

    def _apply(self, batch: WriteBatch, batch_slice: BatchSlice, number: int, exact: bool) -> WriteBatch:
        """What is still to be written."""
        record, groups = self.record, batch_slice.end.groups
        if any(record.done[group] > number for group in groups):
            # an epoch that ended within a batch, met after the next one's in another partition: a load sorts them
            raise Rebuild(f"version {batch_slice.end.version} is not in the order of the log")
        for part in self._parts(batch_slice.changes):
            if not batch.is_empty():
                self.commit(batch, {})
                self.more_to_come()
                batch = WriteBatch(raw_mode=True)
            self._put(batch, part, number)
        if not exact:
            self._skip(number)
        for group in groups:
            record.ended[group] = batch_slice.offset
        if batch_slice.end.version in self.in_flight:
            for group in groups:
                self._reach(group, number)
            record.half = [group for group in record.half if group not in groups]
        self._advance(batch)
        return batch

    def _parts(self, changes: list[Change]) -> list[list[Change]]:
        """Later changes of one entry replace earlier ones. A user is forgotten as a whole."""
        last = list({change.entry: change for change in changes}.values())
        if any(change.kind == self.model.proof for change in last):
            return [last]
        return [last[start : start + self.at_once] for start in range(0, len(last), self.at_once)]

    def forgotten_at(self, user: bytes) -> int | None:
        """Order time in ms of the last request to forget the user that was honoured."""
        if not self.model.proof:
            return None
        row = self.db.get(rows.LATEST + rows.escape(user) + self.model.proof)
        return None if row is None else self.model.forgotten_at(row[rows.LONG_BYTES :])

    def commit(self, batch: WriteBatch, positions: dict[int, int]) -> None:
        self.record.positions.update((str(partition), offset) for partition, offset in positions.items())
        batch.put(ROW, self.record.encode())
        count = batch.len()
        self.db.write(batch)
        self.committed += count
        self.wrote()

    def _revision(self, batch: WriteBatch, end: End) -> int:
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
        """Where compaction has taken the version's ends from another partition: it counts with the next one."""
        later = [
            r.number
            for r in self.in_flight.values()
            if r.version.epoch == version.epoch and r.version.batch > version.batch
        ]
        return min(later, default=self.record.newest)

    def _skip(self, number: int) -> None:
        if number not in self.record.skipped:
            self.record.skipped.append(number)

    def _reach(self, group: int, number: int) -> None:
        """What the key group has not passed is no whole version here."""
        done = self.record.done
        for missed in range(max(done[group], self.record.newest) + 1, number):
            self._skip(missed)
        done[group] = number

    def _advance(self, batch: WriteBatch) -> None:
        """What all key groups have reached can be read."""
        record = self.record
        reached = min(record.done, default=0)
        for revision in sorted(self.in_flight.values(), key=lambda r: r.number):
            if revision.number > reached:
                break
            del self.in_flight[revision.version]
            if revision.number not in record.skipped:
                self._publish(batch, revision)
        record.skipped = [n for n in record.skipped if n > reached]

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

    def _put(self, batch: WriteBatch, changes: list[Change], number: int) -> None:
        before = self.db.get_many([rows.LATEST + change.entry for change in changes])
        forgotten = {c.user for c, row in zip(changes, before, strict=True) if self._is_forgotten_by(c, row)}
        for user in forgotten:
            self.erasure.erase(batch, user, changes)
        for change, row in zip(changes, before, strict=True):
            if row is not None or change.value is not None:
                keep_past = change.user not in forgotten and not self._outlasts(batch, change, row)
                self._put_one(batch, change, row, number, keep_past)

    def _outlasts(self, batch: WriteBatch, change: Change, row: bytes | None) -> bool:
        """Money that was at a lookup when its user was forgotten, and goes out now: it leaves nothing behind."""
        if change.kind != self.model.held or change.value is not None or row is None:
            return False
        proof, old = self.forgotten_at(change.user), row[rows.LONG_BYTES :]
        if proof is None or self.model.order_time(old) > proof:
            return False
        self.erasure.drop(batch, change.user, self.model.index_keys(change.user, change.kind, change.rest, old))
        return True

    def _put_one(self, batch: WriteBatch, change: Change, row: bytes | None, number: int, keep_past: bool) -> None:
        """`keep_past`: with the entry's past."""
        user, kind, entry, value = change
        start = 0 if row is None else rows.read_long(row)
        old = None if row is None else row[rows.LONG_BYTES :]
        had = set() if old is None else self.model.index_keys(user, kind, change.rest, old)
        has = set() if value is None else self.model.index_keys(user, kind, change.rest, value)
        if value is None:
            batch.delete(rows.LATEST + entry)
        else:
            batch.put(rows.LATEST + entry, rows.long(number) + value)
        for key in has - had:
            batch.put(rows.INDEX + key, rows.long(number))
        hints = []
        for key in sorted(had - has):
            if rows.is_ordered(key):
                self._end_ordered(batch, key, number, keep_past)
            else:
                hints.append(key)
        keep_past = keep_past and start < number
        if keep_past and old is not None:
            batch.put(rows.past_key(entry, start), rows.past_value(number, hints, old))
        if start < number:
            batch.put(rows.CHANGE + rows.long(number) + entry, rows.long(start if keep_past else 0))
        if kind == self.model.held:
            self._put_waiting(batch, change, old, number, keep_past)
        self._count(old, -1)
        self._count(value, 1)

    def _end_ordered(self, batch: WriteBatch, key: bytes, number: int, keep_past: bool) -> None:
        put = self.db.get(rows.INDEX + key)
        batch.delete(rows.INDEX + key)
        if put is not None and keep_past and rows.read_long(put) < number:
            batch.put(rows.index_history_key(rows.read_long(put), number, key), put)

    def _put_waiting(self, batch: WriteBatch, change: Change, old: bytes | None, number: int, keep_past: bool) -> None:
        if old is None and change.value is not None:
            tail = rows.waits_at(self.model.order_time(change.value), change.user, change.rest)
            batch.put(rows.PENDING + tail, rows.long(number))
        elif old is not None and change.value is None:
            tail = rows.waits_at(self.model.order_time(old), change.user, change.rest)
            start = self.db.get(rows.PENDING + tail)
            batch.delete(rows.PENDING + tail)
            if keep_past and start is not None:
                batch.put(rows.pending_history_key(rows.read_long(start), number, tail), start)

    def _count(self, value: bytes | None, by: int) -> None:
        if value is not None:
            kind, version = self.model.schema(value)
            counts = self.record.entries.setdefault(kind, {})
            counts[str(version)] = counts.get(str(version), 0) + by

    def _is_forgotten_by(self, change: Change, row: bytes | None) -> bool:
        """By another request than is known: a new epoch begins with all that were ever honoured."""
        if change.kind != self.model.proof or change.value is None:
            return False
        return row is None or row[rows.LONG_BYTES :] != change.value


def _in_order(ends: dict[int, End]) -> list[tuple[int, End]]:
    """Key groups' last ends in the order of their versions: an epoch ends before the next one begins."""
    last: dict[str, int] = {}
    for end in ends.values():
        last[end.version.epoch] = max(last.get(end.version.epoch, 0), end.written_at_ms)
    return sorted(
        ends.items(), key=lambda item: (last[item[1].version.epoch], item[1].version.epoch, item[1].version.batch)
    )


def version_key(version: Version) -> bytes:
    return rows.VERSION + rows.escape(version.epoch.encode()) + rows.signed(version.batch)


def watermark_key(epoch: int, watermark_ms: int, number: int) -> bytes:
    return rows.WATERMARK + epoch.to_bytes(4, "big") + rows.signed(watermark_ms) + rows.long(number)

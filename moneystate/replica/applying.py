"""Applies the changes after the first load to the rows: an entry's newest value, its past, the index.

A slice of a version is written in parts. The last part has the position to resume from. Readers catch up with one part
at a time and do not answer meanwhile. After a kill, the slice is read and written again, which is idempotent. No reader
sees a version before it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocksdict import WriteBatch

from moneystate.replica import rows
from moneystate.replica.files import Rebuild
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, Change

AT_ONCE: Final = 16  # changes in one write, four to seven rows each; readers catch up with one or two writes at a time


class Applier:
    """Applies batch slices to the database."""

    def __init__(self, store: Store, at_once: int = AT_ONCE) -> None:
        self.store = store
        self.db = store.db
        self.model = store.model
        self.publisher = store.publisher
        self.erasure = store.erasure
        self.at_once = at_once  # changes in one write
        self.more_to_come: Callable[[], None] = lambda: None  # called between writes of one slice

    def apply(self, batch_slice: BatchSlice, exact: bool) -> None:
        """Applies a slice with the same number of key groups as the load. `exact`: no record of the batch is missing.
        Raises Rebuild."""
        end, record = batch_slice.end, self.store.record
        self.store.check_rules(end.rules)
        batch = WriteBatch(raw_mode=True)
        if any(record.ended[group] < batch_slice.offset for group in end.groups):  # otherwise it is already applied
            batch = self._apply(batch, batch_slice, self.publisher.number_of(batch, end), exact)
        self.store.commit(batch, {batch_slice.partition: batch_slice.position})
        self.erasure.run()

    def _apply(self, batch: WriteBatch, batch_slice: BatchSlice, number: int, exact: bool) -> WriteBatch:
        """Returns the write batch with the rows that are not yet written."""
        record, groups = self.store.record, batch_slice.end.groups
        if any(record.done[group] > number for group in groups):
            # an epoch ended within a batch, and another partition already has the next epoch: only a load can order
            # them
            raise Rebuild(f"version {batch_slice.end.version} is not in the order of the log")
        for part in self._parts(batch_slice.changes):
            if not batch.is_empty():
                self.store.commit(batch, {})
                self.more_to_come()
                batch = WriteBatch(raw_mode=True)
            self._put(batch, part, number)
        if not exact:
            self.publisher.skip(number)
        for group in groups:
            record.ended[group] = batch_slice.offset
        if batch_slice.end.version in self.publisher.in_flight:
            for group in groups:
                self.publisher.reach(group, number)
            record.half = [group for group in record.half if group not in groups]
        self.publisher.advance(batch)
        return batch

    def _parts(self, changes: list[Change]) -> list[list[Change]]:
        """The changes in parts. Later changes of an entry replace earlier ones. A user is forgotten in one part."""
        last = list({change.entry: change for change in changes}.values())
        if any(change.kind == self.model.proof for change in last):
            return [last]
        return [last[start : start + self.at_once] for start in range(0, len(last), self.at_once)]

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
        """Whether the change puts out money whose lookup was open when its user was forgotten. It must leave nothing
        behind."""
        if change.kind != self.model.held or change.value is not None or row is None:
            return False
        proof, old = self.store.forgotten_at(change.user), row[rows.LONG_BYTES :]
        if proof is None or self.store.order_time(old) > proof:
            return False
        self.erasure.drop(batch, change.user, self.store.index_keys(change.user, change.kind, change.rest, old))
        return True

    def _put_one(self, batch: WriteBatch, change: Change, row: bytes | None, number: int, keep_past: bool) -> None:
        """`keep_past`: also keep the entry's past value."""
        user, kind, entry, value = change
        start = 0 if row is None else rows.read_long(row)
        old = None if row is None else row[rows.LONG_BYTES :]
        had = set() if old is None else self.store.index_keys(user, kind, change.rest, old)
        has = set() if value is None else self.store.index_keys(user, kind, change.rest, value, is_new=True)
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
        self.store.count(old, -1)
        self.store.count(value, 1)

    def _end_ordered(self, batch: WriteBatch, key: bytes, number: int, keep_past: bool) -> None:
        put = self.db.get(rows.INDEX + key)
        batch.delete(rows.INDEX + key)
        if put is not None and keep_past and rows.read_long(put) < number:
            batch.put(rows.index_history_key(rows.read_long(put), number, key), put)

    def _put_waiting(self, batch: WriteBatch, change: Change, old: bytes | None, number: int, keep_past: bool) -> None:
        if old is None and change.value is not None:
            tail = rows.waits_at(self.store.order_time(change.value), change.user, change.rest)
            batch.put(rows.PENDING + tail, rows.long(number))
        elif old is not None and change.value is None:
            tail = rows.waits_at(self.store.order_time(old), change.user, change.rest)
            start = self.db.get(rows.PENDING + tail)
            batch.delete(rows.PENDING + tail)
            if keep_past and start is not None:
                batch.put(rows.pending_history_key(rows.read_long(start), number, tail), start)

    def _is_forgotten_by(self, change: Change, row: bytes | None) -> bool:
        """Whether another request than the known one forgets the user. A new epoch repeats all requests of the past."""
        if change.kind != self.model.proof or change.value is None:
            return False
        return row is None or row[rows.LONG_BYTES :] != change.value

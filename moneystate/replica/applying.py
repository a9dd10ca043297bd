"""Applies the changes after the first load to the rows: an entry's newest value, its past, the index.

A slice of a version is written in parts. The last part has the position to resume from. Readers catch up with one part
at a time and do not answer meanwhile. After a kill, the slice is read and written again, which is idempotent. No reader
sees a version before it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocksdict import WriteBatch

from moneystate.engine.avro import Malformed
from moneystate.replica import rows
from moneystate.replica.files import Rebuild
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, EntryChange

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

    def _parts(self, changes: list[EntryChange]) -> list[list[EntryChange]]:
        """The changes in parts. Later changes of an entry replace earlier ones. An owner is forgotten in one part."""
        last = list({change.entry: change for change in changes}.values())
        if any(self._is_proof(change) for change in last):
            return [last]
        return [last[start : start + self.at_once] for start in range(0, len(last), self.at_once)]

    def _put(self, batch: WriteBatch, changes: list[EntryChange], number: int) -> None:
        before = self.db.get_many([rows.LATEST + change.entry for change in changes])
        forgotten = {c.owner for c, row in zip(changes, before, strict=True) if self._is_forgotten_by(c, row)}
        for owner in forgotten:
            self.erasure.erase(batch, owner, changes)
        for change, row in zip(changes, before, strict=True):
            if row is not None or change.value is not None:
                keep_past = change.owner not in forgotten and not self._outlasts(batch, change, row)
                self._put_one(batch, change, row, number, keep_past)

    def _outlasts(self, batch: WriteBatch, change: EntryChange, row: bytes | None) -> bool:
        """Whether the entry is of a lookup that was open when its owner was forgotten. It must leave nothing behind,
        whether it ends or is written in another schema."""
        if row is None or not self.model.is_of_lookup(change.kind, change.rest):
            return False
        proof, old = self.store.proof_of(change.owner), row[rows.LONG_BYTES :]
        if proof is None or not self._was_open(change, old, proof):
            return False
        gone = self.store.index_keys(change.owner, change.kind, change.rest, old)
        if change.value is not None:
            gone -= self.store.index_keys(change.owner, change.kind, change.rest, change.value)
        self.erasure.drop(batch, change.owner, gone)
        return True

    def _was_open(self, change: EntryChange, value: bytes, proof: bytes) -> bool:
        try:
            return self.model.outlasts(change.owner, change.kind, change.rest, value, proof)
        except Malformed:
            return True  # nobody can say when it was asked

    def _put_one(self, batch: WriteBatch, change: EntryChange, row: bytes | None, number: int, keep_past: bool) -> None:
        """`keep_past`: also keep the entry's past value."""
        owner, kind, entry, value = change
        start = 0 if row is None else rows.read_long(row)
        old = None if row is None else row[rows.LONG_BYTES :]
        had = set() if old is None else self.store.index_keys(owner, kind, change.rest, old)
        has = set() if value is None else self.store.index_keys(owner, kind, change.rest, value, is_new=True)
        if value is None:
            batch.delete(rows.LATEST + entry)
        else:
            batch.put(rows.LATEST + entry, rows.long(number) + value)
        for key in has - had:
            batch.put(rows.INDEX + key, rows.long(number))
        for key in had - has:
            self._end_index_key(batch, key, number, keep_past)
        keep_past = keep_past and start < number
        if keep_past and old is not None:
            batch.put(rows.past_key(entry, start), rows.past_value(number, old))
        if start < number:
            batch.put(rows.CHANGE + rows.long(number) + entry, rows.long(start if keep_past else 0))
        self.store.count(old, -1)
        self.store.count(value, 1)

    def _end_index_key(self, batch: WriteBatch, key: bytes, number: int, keep_past: bool) -> None:
        put = self.db.get(rows.INDEX + key)
        batch.delete(rows.INDEX + key)
        if put is not None and keep_past and rows.read_long(put) < number:
            batch.put(rows.index_history_key(rows.read_long(put), number, key), put)

    def _is_forgotten_by(self, change: EntryChange, row: bytes | None) -> bool:
        """Whether the change is a request that is not known yet. A new epoch repeats all requests of the past."""
        if not self._is_proof(change) or change.value is None:
            return False
        return row is None or row[rows.LONG_BYTES :] != change.value

    def _is_proof(self, change: EntryChange) -> bool:
        return bool(self.model.proof) and change.kind + change.rest == self.model.proof

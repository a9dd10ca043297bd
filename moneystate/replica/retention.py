"""Deletes versions past their retention, and their rows.

A version first stops being available, and its rows are deleted a minute later, so that running reads can end. Once R is
the oldest version, the change in revision R is no longer needed. Then the value that it replaced is deleted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rocksdict import WriteBatch

from moneystate.replica import rows
from moneystate.replica.publishing import version_key, watermark_key
from moneystate.replica.record import decode_revision
from moneystate.replica.store import Store

GRACE_MS: Final = 60_000
STEP: Final = 1_000  # rows that one call deletes: about 10 ms


@dataclass(frozen=True)
class RetentionPolicy:
    """Describes how long versions are kept. None: no limit. The newest version is always kept."""

    history_ms: int | None = None
    versions: int | None = None
    grace_ms: int = GRACE_MS


class RetentionSweep:
    """Deletes old versions in small steps. It is called repeatedly with the wall-clock time."""

    def __init__(self, store: Store, keep: RetentionPolicy) -> None:
        self.store = store
        self.keep = keep
        self.leaving: deque[tuple[int, int]] = deque()  # when a revision became the oldest, and which
        self.swept = rows.CHANGE  # changes before this key are deleted

    def step(self, now_ms: int) -> bool:
        """Does a bounded amount of work. False: nothing is left to do now."""
        record = self.store.record
        oldest, floor = record.oldest, record.floor
        self._retire(now_ms)
        while self.leaving and self.leaving[0][0] + self.keep.grace_ms <= now_ms:
            floor = self.leaving.popleft()[1]
        batch = WriteBatch(raw_mode=True)
        if floor > record.floor:
            record.floor = floor
            self._drop_versions(batch, floor)
        more = self._drop_changes(batch, floor)
        if not batch.is_empty() or record.oldest > oldest:
            self.store.commit(batch, {})
        return more

    def _retire(self, now_ms: int) -> None:
        readable, record = self.store.publisher.readable_revisions, self.store.record
        while len(readable) > 1 and self._is_over(readable[0][1], len(readable), now_ms):
            readable.popleft()
        if readable and readable[0][0] > record.oldest:
            record.oldest = readable[0][0]
            self.leaving.append((now_ms, record.oldest))

    def _is_over(self, written_at_ms: int, count: int, now_ms: int) -> bool:
        keep = self.keep
        too_old = keep.history_ms is not None and written_at_ms < now_ms - keep.history_ms
        return too_old or (keep.versions is not None and count > keep.versions)

    def _drop_versions(self, batch: WriteBatch, floor: int) -> None:
        epochs = self.store.record.epochs
        for key, row in self.store.db.items(rows.REVISION, rows.REVISION + rows.long(floor)):
            revision = decode_revision(rows.read_long(key, 1), row)
            batch.delete(key)
            batch.delete(version_key(revision.version))
            batch.delete(watermark_key(epochs.index(revision.version.epoch), revision.watermark_ms, revision.number))
        for bits in range(floor.bit_length() + 1):
            ended = (floor + 1) >> bits  # earlier intervals end at or before the floor
            batch.delete_range(rows.index_history_start(bits, 0), rows.index_history_start(bits, ended))

    def _drop_changes(self, batch: WriteBatch, floor: int) -> bool:
        db = self.store.db
        end = rows.CHANGE + rows.long(floor + 1)
        if self.swept >= end:
            return False
        changes = list(islice(db.items(self.swept, end), STEP))
        past: list[bytes] = []
        for key, replaced in changes:
            batch.delete(key)
            if any(replaced):
                past.append(rows.past_key(key[1 + rows.LONG_BYTES :], rows.read_long(replaced)))
        for key in past:
            if self.store.model.proof:
                self._drop_index_history(batch, key)
            batch.delete(key)
        self.swept = end if len(changes) < STEP else changes[-1][0]
        return len(changes) == STEP

    def _drop_index_history(self, batch: WriteBatch, past_key: bytes) -> None:
        """Deletes the index keys that ended with a past value. Without the value, erasure could not find them, and they
        would stay until their interval ends."""
        row = self.store.db.get(past_key)
        if row is not None:
            self.store.erasure.drop_index_history(batch, past_key, row)

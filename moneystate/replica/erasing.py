"""Erases forgotten users: from history, index and lineage, and from the files.

Deleted rows leave their bytes in RocksDB's log and files until these are rewritten. So the log is flushed and the
ranges that held the rows are compacted. That takes milliseconds to seconds, so it runs in a separate thread while the
follower goes on. RocksDB writes ranges to its own log, so ranges of the index are cut to a few bytes. After a kill in
between, the next start compacts the whole index.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Final

from rocksdict import WriteBatch

from moneystate.errors import SetupError
from moneystate.ports.replica import ReplicaModel
from moneystate.replica import rows
from moneystate.replica.files import Db
from moneystate.replica.transaction_assembler import Change

ROW: Final = rows.META + b"erasing"
CUT: Final = 4  # bytes of an index key with which a compacted range begins: two of the id


class Erasure:
    """Deletes the rows of forgotten users, and cleans the files."""

    def __init__(
        self,
        db: Db,
        model: ReplicaModel[Any],
        index_keys: Callable[[bytes, bytes, bytes, bytes], set[bytes]],
        order_time: Callable[[bytes], int],
    ) -> None:
        """`index_keys`, `order_time`: those of the store, which take damaged entries, too."""
        self.db = db
        self.index_keys = index_keys
        self.order_time = order_time
        self.model = model
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        row = db.get(ROW)
        # users whose files must be cleaned
        self.users: set[bytes] = {bytes.fromhex(user) for user in json.loads(row)} if row else set()
        self.cleaning: set[bytes] = set()  # users whose files are being cleaned
        self.failed: SetupError | None = None
        self.written = 0  # rows written by the thread; readers that catch up with them close the old files
        # index ranges with their rows
        self.prefixes: set[bytes] = {rows.INDEX, rows.LINEAGE} if row else set()

    def erase(self, batch: WriteBatch, user: bytes, changes: list[Change]) -> None:
        """Adds the deletion of a user's past rows to `changes`, which forget the user. They follow in the same
        batch."""
        gone = self._past(batch, user)
        entries = self._entries(user)
        for key in entries:
            gone |= self._keys_of(user, key, entries[key])
        for change in changes:
            if change.user == user:
                entries.pop(change.entry, None)
                if change.value is not None:
                    entries[change.entry] = change.value
        for key, value in entries.items():
            gone -= self._keys_of(user, key, value)
        self.forget_lineage(batch, user)
        self.drop(batch, user, gone)

    def drop(self, batch: WriteBatch, user: bytes, gone: set[bytes]) -> None:
        """Deletes an index key of a forgotten user. The files of everything that the user had are cleaned later."""
        for key in gone:
            batch.delete(rows.INDEX + key)
        with self.lock:
            self.prefixes.update((rows.INDEX + key)[:CUT] for key in gone if key[:1] != rows.BY_USER)
            self.users.add(user)
            self._put(batch)

    def clean(self, prefix: bytes) -> None:
        """Schedules cleaning: the bytes of deleted rows that start with this prefix must leave the files, too."""
        with self.lock:
            self.prefixes.add(prefix)
        self.run()

    def _past(self, batch: WriteBatch, user: bytes) -> set[bytes]:
        """Index keys that only past versions had."""
        gone: set[bytes] = set()
        prefix = rows.PAST + rows.escape(user)
        for key, row in self.db.items(prefix, rows.after(prefix)):
            batch.delete(key)
            gone.update(rows.read_dropped(row))
            _, kind, rest = rows.split_entry(rows.past_entry(key))
            if kind == self.model.held:
                until, value = rows.read_past(row)
                tail = rows.waits_at(self.order_time(value), user, rest)
                for start in {0} | {until - (1 << bits) for bits in range(until.bit_length())}:
                    batch.delete(rows.pending_history_key(start, until, tail))
        return gone

    def _entries(self, user: bytes) -> dict[bytes, bytes]:
        prefix = rows.LATEST + rows.escape(user)
        past_rows = self.db.items(prefix, rows.after(prefix))
        return {key[1:]: value[rows.LONG_BYTES :] for key, value in past_rows}

    def forget_lineage(self, batch: WriteBatch, user: bytes) -> None:
        prefix = rows.LINEAGE_USER + rows.escape(user)
        for key in self.db.keys(prefix, rows.after(prefix)):
            time, money_id = key[len(prefix) : len(prefix) + rows.LONG_BYTES], key[len(prefix) + rows.LONG_BYTES :]
            row_key = rows.lineage_key(money_id, user)
            batch.delete(row_key)
            batch.delete(rows.LINEAGE_AGE + time + row_key[1:])
            batch.delete(key)
            with self.lock:
                self.prefixes.add(row_key[:CUT])

    def run(self) -> None:
        """Starts to clean the files of everything that is erased and committed by now. Raises the error that ended
        the previous cleaning."""
        if self.failed is not None:
            raise self.failed
        if (self.users or self.prefixes) and (self.thread is None or not self.thread.is_alive()):
            with self.lock:
                self.cleaning, self.users = self.users, set()
                prefixes, self.prefixes = self.prefixes, set()
            self.thread = threading.Thread(target=self._try_clean, args=(prefixes,), name="erasing")
            self.thread.start()

    def wait(self) -> None:
        """Waits until the files are clean."""
        while self.thread is not None:
            self.thread.join()
            self.thread = None
            self.run()

    def _try_clean(self, prefixes: set[bytes]) -> None:
        try:
            self._clean(prefixes)
        except Exception as e:  # rocksdict has no exception of its own
            self.failed = SetupError(
                f"the replica's files: expected to erase forgotten users, but {str(e).splitlines()[0]}.",
                "check the disk; the next start continues the erasure.",
            )

    def _clean(self, prefixes: set[bytes]) -> None:
        ranges = set(prefixes)
        for user in self.cleaning:
            ranges |= {kind + rows.escape(user) for kind in (rows.LATEST, rows.PAST, rows.LINEAGE_USER)}
        self.db.rewrite([(prefix, rows.after(prefix)) for prefix in sorted(ranges)])
        with self.lock:
            self.cleaning = set()
            done = WriteBatch(raw_mode=True)
            self._put(done)
            count = done.len()
            self.db.write(done)
            self.written += count  # only now: whoever is told of a row must find it

    def _put(self, batch: WriteBatch) -> None:
        unclean = self.users | self.cleaning
        if unclean:
            batch.put(ROW, json.dumps(sorted(user.hex() for user in unclean)).encode())
        else:
            batch.delete(ROW)

    def _keys_of(self, user: bytes, entry: bytes, value: bytes) -> set[bytes]:
        _, kind, rest = rows.split_entry(entry)
        return self.index_keys(user, kind, rest, value)

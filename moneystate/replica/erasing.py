"""Erases forgotten keys: from history and indices, and from the files.

Deleted rows leave their bytes in RocksDB's log and files until these are rewritten. So the log is flushed and the
ranges that held the rows are compacted. That takes milliseconds to seconds, so it runs in a separate thread while the
follower goes on. The whole index is compacted: nobody knows any more which rows of it an owner had before the oldest
version. After a kill in between, the next start compacts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Final

from rocksdict import WriteBatch

from moneystate.errors import SetupError
from moneystate.replica import rows
from moneystate.replica.files import Db
from moneystate.replica.transaction_assembler import EntryChange

ROW: Final = rows.META + b"erasing"
OF_INDICES: Final = frozenset({rows.INDEX, rows.INDEX_HISTORY})


class Erasure:
    """Deletes the rows of forgotten owners, and cleans the files."""

    def __init__(
        self,
        db: Db,
        index_keys: Callable[[bytes, bytes, bytes, bytes], set[bytes]],
    ) -> None:
        """`index_keys`: that of the store, which takes damaged entries, too."""
        self.db = db
        self.index_keys = index_keys
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        row = db.get(ROW)
        # owners whose files must be cleaned
        self.owners: set[bytes] = {bytes.fromhex(owner) for owner in json.loads(row)} if row else set()
        self.cleaning: set[bytes] = set()  # owners whose files are being cleaned
        self.failed: SetupError | None = None
        self.written = 0  # rows written by the thread; readers that catch up with them close the old files
        # beginnings of other keys whose deleted rows must leave the files
        self.prefixes: set[bytes] = set(OF_INDICES) if row else set()

    def erase(self, batch: WriteBatch, owner: bytes, changes: list[EntryChange]) -> None:
        """Adds the deletion of an owner's past rows to `changes`, which forget the owner. They follow in the same
        batch, and end the index keys of its present entries."""
        prefix = rows.PAST + rows.escape(owner)
        for key, row in self.db.items(prefix, rows.after(prefix)):
            batch.delete(key)
            self.drop_index_history(batch, key, row)
        present = self._entries(owner)
        gone = {key for entry, value in present.items() for key in self._keys_of(entry, value)}
        after = {**present, **{change.entry: change.value for change in changes if change.owner == owner}}
        for entry, left in after.items():
            gone -= set() if left is None else self._keys_of(entry, left)
        self.drop(batch, owner, gone)

    def drop_index_history(self, batch: WriteBatch, past_key: bytes, past_row: bytes) -> None:
        """Deletes the rows of the index keys that ended with a past value, whenever they were put."""
        until, value = rows.read_past(past_row)
        for index_key in self._keys_of(rows.past_entry(past_key), value):
            for bits in range(1, until.bit_length() + 1):
                key = rows.index_history_start(bits, until >> bits) + index_key + rows.long(until)
                if self.db.get(key) is not None:
                    batch.delete(key)

    def drop(self, batch: WriteBatch, owner: bytes, gone: set[bytes]) -> None:
        """Deletes index keys of a forgotten owner. The files of everything that the owner had are cleaned later."""
        for key in gone:
            batch.delete(rows.INDEX + key)
        with self.lock:
            self.prefixes |= OF_INDICES
            self.owners.add(owner)
            self._put(batch)

    def clean(self, prefix: bytes) -> None:
        """Schedules cleaning: the bytes of deleted rows that start with this prefix must leave the files, too."""
        with self.lock:
            self.prefixes.add(prefix)
        self.run()

    def _entries(self, owner: bytes) -> dict[bytes, bytes]:
        prefix = rows.LATEST + rows.escape(owner)
        there = self.db.items(prefix, rows.after(prefix))
        return {key[1:]: row[rows.LONG_BYTES :] for key, row in there}

    def run(self) -> None:
        """Starts to clean the files of everything that is erased and committed by now. Raises the error that ended
        the previous cleaning."""
        if self.failed is not None:
            raise self.failed
        if (self.owners or self.prefixes) and (self.thread is None or not self.thread.is_alive()):
            with self.lock:
                self.cleaning, self.owners = self.owners, set()
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
                f"the replica's files: expected to erase forgotten owners, but {str(e).splitlines()[0]}.",
                "check the disk; the next start continues the erasure.",
            )

    def _clean(self, prefixes: set[bytes]) -> None:
        ranges = set(prefixes)
        for owner in self.cleaning:
            ranges |= {kind + rows.escape(owner) for kind in (rows.LATEST, rows.PAST)}
        self.db.rewrite([(prefix, rows.after(prefix)) for prefix in sorted(ranges)])
        with self.lock:
            self.cleaning = set()
            done = WriteBatch(raw_mode=True)
            self._put(done)
            count = done.len()
            self.db.write(done)
            self.written += count  # only now: whoever is told of a row must find it

    def _put(self, batch: WriteBatch) -> None:
        unclean = self.owners | self.cleaning
        if unclean:
            batch.put(ROW, json.dumps(sorted(owner.hex() for owner in unclean)).encode())
        else:
            batch.delete(ROW)

    def _keys_of(self, entry: bytes, value: bytes) -> set[bytes]:
        owner, kind, rest = rows.split_entry(entry)
        return self.index_keys(owner, kind, rest, value)

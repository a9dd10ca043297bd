"""What stands in `delivery-pending` of a worker's partitions, on disk, so that memory holds only what is to be sent.

It is built from the topic whenever the worker gets a partition, and then follows the worker's own transactions. Nothing
in it is needed after the worker has ended. Keys: the partition, four bytes, big-endian, and the key of the record.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from moneystate.deliver import pending
from moneystate.deliver.history import NotARecord
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import DeliveryReader
from moneystate.deliver.requests import Message
from moneystate.errors import SetupError

BUFFER_BYTES: Final = 16 * 1024 * 1024
READ_TOGETHER: Final = 10_000  # records of the topic in a write


class PendingStore:
    """The thread of Kafka writes, and the event loop reads."""

    def __init__(self, folder: Path, reader: DeliveryReader) -> None:
        """Raises SetupError if the folder cannot be used."""
        self._reader = reader
        self._options = WriteOptions()
        self._options.disable_wal = True  # type: ignore[method-assign, assignment]  # the stubs take it for a method
        self._db = _open(folder)
        self._partitions: set[int] = set()

    def apply(self, partition: int, records: Mapping[str, bytes | None]) -> None:
        """The records of a transaction that is committed."""
        self._write(partition, ((key.encode(), value) for key, value in records.items()))

    def rebuild(self, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """All records of the topic's partition, in their order."""
        self.drop(partition)
        self._partitions.add(partition)
        every = iter(records)
        while part := list(itertools.islice(every, READ_TOGETHER)):
            self._write(partition, part)

    def keep_only(self, partitions: Collection[int]) -> None:
        for partition in self._partitions - set(partitions):
            self.drop(partition)

    def drop(self, partition: int) -> None:
        self._partitions.discard(partition)
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(_prefix(partition), _prefix(partition + 1))
        self._db.write(batch, self._options)

    def left(self, partition: int, damaged: Callable[[str], None]) -> Iterator[Queued]:
        """All messages of a partition, by their ids. `damaged` is called for a record that cannot be read."""
        prefix = _prefix(partition)
        for key in cast(Iterator[bytes], self._db.keys(from_key=prefix)):
            if not key.startswith(prefix):
                return
            name = key[len(prefix) :].decode(errors="replace")
            if not pending.is_first(name):
                continue
            try:
                yield self._queued(partition, name)
            except NotARecord as e:
                damaged(f"{name}: {e}")

    def load(self, partition: int, webhook_id: str) -> Message:
        return self._queued(partition, webhook_id).loaded

    def close(self) -> None:
        self._db.close()

    def _queued(self, partition: int, webhook_id: str) -> Queued:
        prefix = _prefix(partition)
        return pending.from_records(webhook_id, lambda key: self._db.get(prefix + key.encode()), self._reader)

    def _write(self, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        prefix, batch = _prefix(partition), WriteBatch(raw_mode=True)
        for key, value in records:
            if value is None:
                batch.delete(prefix + key)
            else:
                batch.put(prefix + key, value)
        self._db.write(batch, self._options)


def _prefix(partition: int) -> bytes:
    return partition.to_bytes(4, "big")


def _open(folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(BUFFER_BYTES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        Rdict.destroy(str(folder))  # what an earlier worker has left
        return Rdict(str(folder), options)
    except Exception as e:  # rocksdict has no exception class
        raise SetupError(
            f"--index {folder}: expected a folder for the index, but {e}.", "use a separate folder for each worker."
        ) from None

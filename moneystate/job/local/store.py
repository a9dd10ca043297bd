"""The state of a job that runs in one process: its entries in RocksDB, as they are after a batch.

A row's key is the key group (4 bytes, big-endian) and the entry's key. The row under `BATCH_KEY`, which no key group
has, is the number of that batch (8 bytes, big-endian). All changes of a batch and its number are one synced write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rocksdict import AccessType, Options, Rdict, WriteBatch, WriteOptions

from moneystate.engine.processor import Change
from moneystate.errors import CheckpointError

FOLDER: Final = "local"  # in the checkpoint
GROUP_BYTES: Final = 4
BATCH_KEY: Final = b"\xff" * GROUP_BYTES


def store_of(checkpoint: str) -> Path | None:
    """The folder of a local run's state in its checkpoint, by the checkpoint's address; None: it has none."""
    folder = Path(checkpoint.removeprefix("file://")) / FOLDER
    return folder if folder.is_dir() else None


class LocalStore:
    """`begin` a batch's key groups one by one, then `commit` them together."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        """Raises CheckpointError if another process has it."""
        access = AccessType.read_only() if read_only else AccessType.read_write()
        try:
            self._db = Rdict(str(folder), Options(raw_mode=True), access_type=access)
        except Exception as e:  # rocksdict has none of its own
            raise CheckpointError(
                f"{folder}: expected the state of a local run, but {e}.",
                "check that no other run uses the checkpoint; restore it from a copy if it is damaged.",
            ) from None
        synced = WriteOptions()
        synced.sync = True
        self._db.set_write_options(synced)
        self._changes: dict[bytes, bytes | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def batch(self) -> int:
        """The last batch whose changes are in it; -1: none."""
        number: Any = self._db.get(BATCH_KEY)
        return -1 if number is None else int.from_bytes(number, "big")

    def group(self, group: int) -> GroupEntries:
        """The entries of a key group for the next batch. Its changes count once they are committed."""
        return GroupEntries(self._db, group.to_bytes(GROUP_BYTES, "big"), self._changes)

    def forget(self) -> None:
        """Drops the changes that are not committed."""
        self._changes.clear()

    def commit(self, batch: int) -> None:
        written = WriteBatch(raw_mode=True)
        for key, value in self._changes.items():
            if value is None:
                written.delete(key)
            else:
                written.put(key, value)
        written.put(BATCH_KEY, batch.to_bytes(8, "big"))
        self._db.write(written)
        self._changes.clear()

    def entries(self) -> Iterator[tuple[int, bytes, bytes]]:
        """All committed entries: key group, key and value, in the order of the key groups and keys."""
        iterator = self._db.iter()
        iterator.seek_to_first()
        while iterator.valid():
            key: Any = iterator.key()
            if key != BATCH_KEY:
                value: Any = iterator.value()
                yield int.from_bytes(key[:GROUP_BYTES], "big"), key[GROUP_BYTES:], value
            iterator.next()

    def close(self) -> None:
        self._db.close()


class GroupEntries:
    """`StateAccess` for one key group. `changes`: of all key groups, by row."""

    def __init__(self, db: Rdict, prefix: bytes, changes: dict[bytes, bytes | None]) -> None:
        self._db = db
        self._prefix = prefix
        self._changes = changes

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        rows: Any = [self._prefix + key for key in keys]
        stored: Any = self._db.get(rows)
        if not self._changes:
            return list(stored)
        return [self._changes.get(row, value) for row, value in zip(rows, stored, strict=True)]

    def apply(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            self._changes[self._prefix + key] = value

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        start = self._prefix + prefix
        changed = {row: value for row, value in self._changes.items() if row.startswith(start)}
        iterator = self._db.iter()
        iterator.seek(start)
        while iterator.valid():
            row: Any = iterator.key()
            if not row.startswith(start):
                break
            if row not in changed:
                stored: Any = iterator.value()
                yield row[GROUP_BYTES:], stored
            iterator.next()
        for row, value in changed.items():
            if value is not None:
                yield row[GROUP_BYTES:], value

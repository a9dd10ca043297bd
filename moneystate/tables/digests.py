"""What a table's topic holds, as digests in RocksDB: enough to know which rows of a source are new.

    r key                          -> place and digest of the key's last record; a deletion has no digest
    p topic id / partition         -> offset up to which the partition was read, and the highest timestamp so far

A place is the timestamp (8 bytes) and the partition (4 bytes), big-endian. It decides between records of one key in
several partitions, which a topic has that got more partitions: the greater place holds, as everywhere on the platform.
Deletions are kept for that reason, too. All of it can be built from the topic at any time.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from rocksdict import Options, Rdict, WriteBatch

from moneystate.errors import InstanceError, SetupError
from moneystate.tables.records import digest_of

ROW, POSITION = b"r", b"p"
_PLACE: Final = struct.Struct(">QI")
_POSITION: Final = struct.Struct(">QQ")
BUFFER_BYTES: Final = 16 * 1024 * 1024


class Position(NamedTuple):
    offset: int  # of the next record
    high_ms: int  # the highest timestamp so far; one that goes back counts as this one


class Seen(NamedTuple):
    """A record of the topic."""

    key: bytes
    value: bytes | None
    high_ms: int
    partition: int


class Digests:
    """Only one process uses a folder."""

    def __init__(self, folder: Path) -> None:
        """Raises InstanceError if another process uses the folder, and SetupError if it cannot be used."""
        self.folder = folder
        self._db = _open(folder)

    def positions(self, topic_id: str) -> dict[int, Position]:
        """Returns the positions by partition. Empty for a topic that was made again."""
        prefix = _prefix(topic_id)
        following = cast(Iterator[tuple[bytes, bytes]], self._db.items(from_key=prefix))
        return {
            int(name[len(prefix) :]): Position(*_POSITION.unpack(value))
            for name, value in takewhile(lambda item: item[0].startswith(prefix), following)
        }

    def take(self, topic_id: str, records: Sequence[Seen], positions: Mapping[int, Position]) -> None:
        """Records in the order of each partition, and where the partitions are after them."""
        last: dict[bytes, bytes] = {}
        for key, value, high_ms, partition in records:
            place = _PLACE.pack(high_ms, partition)
            if place >= last.get(key, b"")[: _PLACE.size]:
                last[key] = place if value is None else place + digest_of(value)
        batch: Any = WriteBatch(raw_mode=True)
        for key, before in zip(last, self._entries(list(last)), strict=True):
            if before is None or last[key][: _PLACE.size] >= before[: _PLACE.size]:
                batch.put(ROW + key, last[key])
        for partition, position in positions.items():
            batch.put(_prefix(topic_id) + b"%d" % partition, _POSITION.pack(*position))
        self._db.write(batch)

    def of(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The digests of the rows; None: the topic has no such row."""
        return [(entry or b"")[_PLACE.size :] or None for entry in self._entries(keys)]

    def keys(self) -> Iterator[bytes]:
        """The keys of all rows, sorted."""
        for name, entry in cast(Iterator[tuple[bytes, bytes]], self._db.items(from_key=ROW)):
            if len(entry) > _PLACE.size:
                yield name[len(ROW) :]

    def clear(self) -> None:
        self._db.close()
        shutil.rmtree(self.folder)
        self._db = _open(self.folder)

    def close(self) -> None:
        self._db.close()

    def _entries(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return cast(list[bytes | None], self._db.get([ROW + key for key in keys])) if keys else []


def _prefix(topic_id: str) -> bytes:
    return POSITION + topic_id.encode() + b"/"


def _open(folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(BUFFER_BYTES)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it has keys
        return Rdict(str(folder), options)
    except Exception as e:  # rocksdict has no exception class
        if "lock" in str(e).lower():
            raise InstanceError(
                f"{folder}: expected to be the only loader of this table on this machine, another one runs.",
                "let one of them run.",
            ) from None
        raise SetupError(
            f"{folder}: expected a folder for digests, but {e}.",
            "remove it, as it can be built again, or give --digests another one.",
        ) from None

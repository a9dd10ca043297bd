"""The rows of a load between its two passes, on disk: so a source is read once, and no more of it is in memory than a
chunk. They are sorted by key, and are gone after the load.

    key -> state (1 byte), line or number of the row (8 bytes), value if the row has changed
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

SAME, CHANGED, LEFT, DELETED = b"s", b"c", b"x", b"d"  # LEFT: the row cannot be loaded; the topic's row stays
_VALUE_AT: Final = 9
BUFFER_BYTES: Final = 32 * 1024 * 1024


class Entry(NamedTuple):
    state: bytes
    number: int
    value: bytes = b""


class Pending:
    def __init__(self, db: Rdict) -> None:
        self._db = db

    def of(self, keys: Sequence[bytes]) -> list[Entry | None]:
        contents = cast(list[bytes | None], self._db.get(list(keys))) if keys else []
        return [None if content is None else _entry(content) for content in contents]

    def put(self, entries: Mapping[bytes, Entry]) -> None:
        batch: Any = WriteBatch(raw_mode=True)
        for key, entry in entries.items():
            batch.put(key, entry.state + entry.number.to_bytes(8, "big") + entry.value)
        self._db.write(batch)

    def entries(self) -> Iterator[tuple[bytes, Entry]]:
        """Sorted by key, as they are now."""
        for key, content in cast(Iterator[tuple[bytes, bytes]], self._db.items()):
            yield key, _entry(content)


@contextmanager
def pending(folder: Path) -> Iterator[Pending]:
    """`folder`: may have the rows of a load that was killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)  # it has rows
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(BUFFER_BYTES)
    db = Rdict(str(folder), options)
    unlogged = WriteOptions()
    unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # the stubs take it for a method
    db.set_write_options(unlogged)
    try:
        yield Pending(db)
    finally:
        db.close()
        shutil.rmtree(folder, ignore_errors=True)


def _entry(content: bytes) -> Entry:
    return Entry(content[:1], int.from_bytes(content[1:_VALUE_AT], "big"), content[_VALUE_AT:])

"""The entry cache: copies of key groups' entries on a Python worker's local disk, in RocksDB.

They belong to this process. They are lost with the worker, and the next one reads the segments in Spark's state store
(`moneystate.engine.log_structured`). So there is no write-ahead log and no sync. A row's key is the key group (4 bytes,
big-endian) and the entry's key.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from moneystate.engine.log_structured import Pending
from moneystate.job.scratch import scratch_folder
from moneystate.job.segment_files import SegmentFiles

PREFIX: Final = "moneystate-entries-"
SEGMENTS_PREFIX: Final = "moneystate-runs-"
BLOCK_CACHE_BYTES: Final = 64 << 20
WRITE_BUFFER_BYTES: Final = 64 << 20
# Files are compacted late: bloom filters avoid most reads of them, and each level rewrites a file
FILES_UNMERGED: Final = 16
GROUP_BYTES: Final = 4


class RocksEntryCache:
    """`moneystate.engine.log_structured.EntryCache` in a folder."""

    def __init__(self, folder: Path, files: SegmentFiles) -> None:
        self.files = files  # the segments that workers on this machine have
        self.db = Rdict(str(folder), _options())
        unlogged = WriteOptions()
        unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # the stubs take it for a method
        self.db.set_write_options(unlogged)
        self.places: dict[int, tuple[int, int]] = {}
        self.expected: dict[int, Pending] = {}
        self.scanner: RdictIter | None = None  # over what was there when a key group first looked for a prefix

    def position(self, group: int) -> tuple[int, int]:
        return self.places.get(group, (0, 0))

    def pending(self, group: int) -> Pending | None:
        return self.expected.get(group)

    def expect(self, group: int, pending: Pending) -> None:
        self.scanner = None  # it keeps old files and memory
        self.expected[group] = pending

    def get_many(self, group: int, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        prefix = group.to_bytes(GROUP_BYTES, "big")
        values: Any = self.db.get([prefix + key for key in keys])
        return list(values)

    def put(self, group: int, changes: Mapping[bytes, bytes | None], origin: int, number: int) -> None:
        self.scanner = None
        prefix = group.to_bytes(GROUP_BYTES, "big")
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(prefix + key)
            else:
                batch.put(prefix + key, value)
        if changes:
            self.db.write(batch)
        self.places[group] = (origin, number)
        self.expected.pop(group, None)

    def clear(self, group: int) -> None:
        self.scanner = None
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(group.to_bytes(GROUP_BYTES, "big"), (group + 1).to_bytes(GROUP_BYTES, "big"))
        self.db.write(batch)
        self.places.pop(group, None)
        self.expected.pop(group, None)

    def items(self, group: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(self._found(group, prefix)) if prefix else self._all(group)

    def _found(self, group: int, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Steps look for many prefixes. An iterator for each would take longer than the search."""
        if self.scanner is None:
            self.scanner = self.db.iter()
        rows, first = self.scanner, group.to_bytes(GROUP_BYTES, "big") + prefix
        entries: list[tuple[bytes, bytes]] = []
        rows.seek(first)
        while rows.valid():
            key = rows.key()
            if not key.startswith(first):
                return entries
            entries.append((key[GROUP_BYTES:], rows.value()))
            rows.next()
        rows.status()  # raises the error that has ended it, if any
        return entries

    def _all(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        bounds = ReadOptions()  # kept in a variable, because the iterator only has a pointer to it
        bounds.set_iterate_upper_bound((group + 1).to_bytes(GROUP_BYTES, "big"))
        rows: Any = self.db.items(from_key=group.to_bytes(GROUP_BYTES, "big"), read_opt=bounds)
        for key, value in rows:
            yield key[GROUP_BYTES:], value


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_zero_file_num_compaction_trigger(FILES_UNMERGED)
    options.set_level_zero_slowdown_writes_trigger(2 * FILES_UNMERGED)
    options.set_level_zero_stop_writes_trigger(3 * FILES_UNMERGED)
    options.set_keep_log_file_num(1)
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)  # many reads are for users that do not exist yet
    blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(blocks)
    return options


_caches: dict[str, RocksEntryCache] = {}


def entry_cache(run: str) -> RocksEntryCache:
    """This process's cache for a run of a job."""
    if run not in _caches:
        _caches[run] = RocksEntryCache(_folder(), SegmentFiles(scratch_folder() / f"{SEGMENTS_PREFIX}{run}"))
    return _caches[run]


def _folder() -> Path:
    """A new folder, which Spark removes at its end. Folders of dead workers are removed now."""
    local = scratch_folder()
    for left in local.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(left.name.removeprefix(PREFIX).partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=local))

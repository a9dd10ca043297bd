"""The replica's files on disk: one folder for each generation, and a pointer to the current one.

    DATA/generation         the name of the current one, replaced atomically
    DATA/<generation>/db    RocksDB (moneystate.replica.rows); written by the follower alone
    DATA/<generation>/head  the shared status, which readers poll (moneystate.replica.shared_status)

A rebuild begins a new generation, so that rows never vanish while readers use them. Readers switch over when they see
the name change.

Readers open the database as RocksDB secondaries, which replay the follower's write-ahead log. Each catch-up has a fixed
cost per column family, with the GIL held, so there is only one column family (docs/adr/0005-replica.md).
Files that the follower deletes stay with the readers until they catch up (moneystate.replica.deferred_close).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Env,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from moneystate.errors import SetupError

IN_USE: Final = "generation"
NAME_DIGITS: Final = 12
FORMAT: Final = 5  # of the rows; every change of a key or value needs a new number
CACHE_BYTES: Final = 64 << 20
WRITE_BUFFER_BYTES: Final = 32 << 20
SUFFIXES: Final = (".sst", ".log")  # of files with rows
FILE_BYTES: Final = 8 << 20  # small, because erasing an owner rewrites the files that had it


class Rebuild(Exception):
    """The replica must be rebuilt. `args[0]` says why."""


class Misplaced(Rebuild):
    """The replica cannot be built from the log as it is now: entries are in the wrong partitions, so some would be
    missing."""


def options() -> Options:
    opts = Options(raw_mode=True)
    opts.create_if_missing(True)
    # a secondary still reads files that the follower has deleted, so it must have all files open
    opts.set_max_open_files(-1)
    # RocksDB starts this many threads for each catch-up, even if there is no file to open: 16 took 1.3 ms
    opts.set_max_file_opening_threads(1)
    opts.set_write_buffer_size(WRITE_BUFFER_BYTES)
    opts.set_target_file_size_base(FILE_BYTES)
    opts.set_max_background_jobs(2)
    opts.set_compression_type(DBCompressionType.lz4())
    opts.set_keep_log_file_num(2)
    opts.set_recycle_log_file_num(0)  # a recycled log would keep bytes of forgotten owners
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(Cache(CACHE_BYTES))
    opts.set_block_based_table_factory(blocks)
    return opts


def generation(data: str) -> str | None:
    """The current generation; None: the follower has not started yet."""
    try:
        return (Path(data) / IN_USE).read_text().strip()
    except FileNotFoundError:
        return None


def begin_generation(data: str) -> str:
    """Creates a new, empty generation. Raises SetupError if the folder cannot be written."""
    name = f"g{secrets.token_hex(NAME_DIGITS // 2)}"
    try:
        (Path(data) / name).mkdir(parents=True)
        scratch = Path(data) / f"{IN_USE}.new"
        scratch.write_text(name + "\n")
        os.replace(scratch, Path(data) / IN_USE)
    except OSError as e:
        raise SetupError(
            f"--data {data}: expected a folder to write to, but {e.strerror}.", "check the path and its permissions."
        ) from None
    for before in set(Path(data).glob(f"g{'?' * NAME_DIGITS}/")) - {Path(data) / name}:  # including leftovers of a kill
        shutil.rmtree(before, ignore_errors=True)
    return name


def folder(data: str, name: str) -> Path:
    return Path(data) / name


def is_open(data: str, name: str) -> bool:
    """Whether the generation's follower has created everything that readers need."""
    return (folder(data, name) / "head").exists() and (folder(data, name) / "db" / "CURRENT").exists()


class Cursor:
    """Seeks from row to row. Rows in between cost nothing."""

    def __init__(self, raw: Rdict, end: bytes) -> None:
        self.bounds = _before(end)  # kept here: the iterator has no more than a pointer into it
        self.rows = raw.iter(self.bounds)

    def seek(self, key: bytes) -> bytes | None:
        """The first key from this one on; None: there is none before the end."""
        self.rows.seek(key)
        found_key: bytes | None = self.rows.key() if self.rows.valid() else None
        return found_key

    def value(self) -> bytes:
        """The value of the current key."""
        value: bytes = self.rows.value()
        return value


class Db:
    """The database, with types. Ranges go from `start` to before `end`."""

    def __init__(self, raw: Rdict) -> None:
        self.raw = raw

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self.raw.get(key)
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = self.raw.get(keys) if keys else []  # type: ignore[arg-type, assignment]
        return values

    def items(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        bounds = _before(end)  # kept here: the iterator has no more than a pointer into it
        yield from self.raw.items(from_key=start, read_opt=bounds)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        bounds = _before(end)
        yield from self.raw.keys(from_key=start, read_opt=bounds)

    def cursor(self, end: bytes) -> Cursor:
        return Cursor(self.raw, end)

    def last_key(self, start: bytes, end: bytes) -> bytes | None:
        bounds = _before(end)
        iterator = self.raw.iter(bounds)
        iterator.seek_to_last()
        key: bytes | None = iterator.key() if iterator.valid() else None
        return key if key is not None and key >= start else None

    def write(self, batch: WriteBatch) -> None:
        self.raw.write(batch)

    def rewrite(self, ranges: list[tuple[bytes, bytes]]) -> None:
        """Rewrites the files of a range, and the log, so that nothing deleted remains in them."""
        self.raw.flush(True)
        forced = CompactOptions()
        forced.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        for start, end in ranges:
            self.raw.compact_range(start, end, forced)

    @property
    def folder(self) -> Path:
        return Path(self.raw.path())

    def size(self) -> int:
        """The size of the files in bytes."""
        total = 0
        with contextlib.suppress(FileNotFoundError):  # the follower may delete files meanwhile
            for file in self.folder.iterdir():
                if file.suffix in SUFFIXES:
                    total += file.stat().st_size
        return total

    def close(self) -> None:
        self.raw.close()


def _before(end: bytes) -> ReadOptions:
    """The upper bound of an iterator. (rocksdict 0.3.29 takes a lower bound for an upper one.)"""
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(end)
    return bounds


def check_unused(data: str) -> None:
    """Raises SetupError if another process has the database of the folder open. RocksDB locks a file of it."""
    name = generation(data)
    lock = None if name is None else folder(data, name) / "db" / "LOCK"
    if lock is None or not lock.exists():
        return
    with lock.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError(
                f"--data {data}: expected a folder that no other server uses, found one in use.",
                "stop the other server, or give another folder.",
            ) from None


def open_primary(data: str, name: str) -> Db:
    """Opens the database for the follower. Raises SetupError if another process has it open."""
    path, opts, env = folder(data, name) / "db", options(), Env()
    env.lower_thread_pool_cpu_priority()  # threads that compact files: reads and writes have priority
    opts.set_env(env)
    try:
        return Db(Rdict(str(path), opts, access_type=AccessType.read_write()))
    except Exception as e:
        raise SetupError(
            f"{path}: expected to open the replica's files, but {str(e).splitlines()[0]}.",
            "stop the other server on this folder, or give another with --data.",
        ) from None


class Secondary(Db):
    """The database for a reader outside the follower's process."""

    def __init__(self, data: str, name: str) -> None:
        # only for this process's own info log of RocksDB
        self.scratch = tempfile.TemporaryDirectory(prefix="moneystate-reader-")
        access = AccessType.secondary(self.scratch.name)
        super().__init__(Rdict(str(folder(data, name) / "db"), options(), access_type=access))

    def catch_up(self) -> None:
        self.raw.try_catch_up_with_primary()

    def close(self) -> None:
        super().close()
        self.scratch.cleanup()

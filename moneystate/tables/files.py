"""A file as a source: CSV, JSON Lines or Parquet.

A file is read from one open descriptor. A file that takes its place by a rename therefore changes nothing. A file that
is written in place is noticed: it must be at rest before it is read, and have the same size and time of change
afterwards.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa

from moneystate.errors import ConfigError, SourceError
from moneystate.records import iso_time
from moneystate.tables.columns import Declared, Names, check_typed, key_of
from moneystate.tables.delimited import read_delimited
from moneystate.tables.json_lines import read_json_lines
from moneystate.tables.parquet import read_parquet
from moneystate.tables.rows import LINE, ROW, Read

REST_S: Final = 2.0  # for how long a file must be at rest
POLL_S: Final = 0.05
BUFFER_BYTES: Final = 1 << 20
COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


class FileFormat(StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


ENDINGS: Final = {
    ".csv": FileFormat.csv, ".jsonl": FileFormat.jsonl, ".ndjson": FileFormat.jsonl, ".parquet": FileFormat.parquet,
}  # fmt: skip


class Stamp(NamedTuple):
    """Holds what tells two contents of a file apart."""

    inode: int
    size: int
    changed_ns: int


def stamp_of(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


class FileSource:
    """`wait`: sleeps for so many seconds, and raises to end the load."""

    unit: str

    def __init__(
        self, path: Path, format: FileFormat | None, declared: Declared, delimiter: str = ",",
        wait: Callable[[float], object] = time.sleep, rest_s: float = REST_S,
    ) -> None:  # fmt: skip
        """Raises ConfigError for a file whose format cannot be told, and for types of one that has its own."""
        self.path = path
        self.where = path.name
        self._format = format or format_of(path)
        if self._format is not FileFormat.csv:
            check_typed(declared, self.where)
        is_json = self._format is FileFormat.jsonl
        self._declared = replace(declared, names=Names.keep) if is_json else declared  # members keep their names
        self._delimiter = delimiter
        self._wait = wait
        self._rest_s = rest_s
        self.unit = ROW if self._format is FileFormat.parquet else LINE

    @contextmanager
    def open(self) -> Iterator[OpenedFile]:
        try:
            with self.path.open("rb") as file:
                yield OpenedFile(file, self._at_rest(file), self)
        except OSError as e:
            raise SourceError(
                f"{self.path}: expected a file that can be read, but {e.strerror}.", "check it."
            ) from None

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self._declared)

    def stamp(self) -> Stamp | None:
        """Returns the stamp of the file that has the name now. None: there is none."""
        try:
            return stamp_of(os.stat(self.path))
        except OSError:
            return None

    def read(self, file: BinaryIO) -> Iterator[Read]:
        compression = COMPRESSIONS.get(self.path.suffix)
        if compression is not None:
            own = os.fdopen(os.dup(file.fileno()), "rb")  # Arrow closes it
            file = io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(own, "r"), compression), BUFFER_BYTES)
        if self._format is FileFormat.csv:
            return read_delimited(file, self._declared, self._delimiter, self.where)
        if self._format is FileFormat.jsonl:
            return read_json_lines(file)
        return read_parquet(file, self._declared, self.where)

    def _at_rest(self, file: BinaryIO) -> Stamp:
        """Waits until nobody has written the file for a while. Its time of change may be that of another clock, so it
        is watched, unless it is old."""
        stamp = stamp_of(os.fstat(file.fileno()))
        if abs(time.time_ns() - stamp.changed_ns) > 2 * self._rest_s * 1e9:
            return stamp
        at_rest_s = 0.0
        while at_rest_s < self._rest_s:
            self._wait(POLL_S)
            at_rest_s += POLL_S
            now = stamp_of(os.fstat(file.fileno()))
            if now != stamp:
                stamp, at_rest_s = now, 0.0
        return stamp


class OpenedFile:
    def __init__(self, file: BinaryIO, stamp: Stamp, source: FileSource) -> None:
        self.stamp = stamp
        self._file = file
        self._source = source

    @property
    def identity(self) -> str:
        changed = iso_time.from_ms(self.stamp.changed_ns // 1_000_000)
        return f"{self._source.path.name}, {self.stamp.size} bytes, {changed}"

    def rows(self) -> Iterator[Read]:
        try:
            yield from self._source.read(self._file)
        except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as e:
            is_told = isinstance(e, pa.ArrowException | OSError)  # what others say may have a value
            why = next(iter(str(e).splitlines()), "").rstrip(".") if is_told else type(e).__name__
            raise SourceError(
                f"{self._source.where}: expected a whole file of its format, but {why}.", "check it and --file-format."
            ) from None

    def check_unchanged(self) -> None:
        if stamp_of(os.fstat(self._file.fileno())) != self.stamp:
            raise SourceError(
                f"{self._source.where}: expected a file that nobody writes, but it changed while it was read.",
                "write to another name and rename the file, then load again.",
            )


def format_of(path: Path) -> FileFormat:
    """Tells the format by the name. Raises ConfigError."""
    plain = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    format = ENDINGS.get(plain.suffix.lower())
    if format is None:
        raise ConfigError(
            f"{path}: expected a name that ends in {', '.join(ENDINGS)}, perhaps with {', '.join(COMPRESSIONS)}.",
            "give --file-format.",
        )
    return format

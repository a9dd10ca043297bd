"""Reads and writes the files of a savepoint.

    DIR/manifest.json             moneystate.savepoint.manifest
    DIR/state/group-NNNNN.avro    every entry of the key group's state: {key: bytes, value: bytes}, sorted by key
    DIR/output/group-NNNNN.avro   the key group's outputs, in order: {stream, key, value, headers}; optional

The files are Avro object containers, so that other tools can read them. A savepoint is written into the folder
`partial` beside its own, and renamed once it is complete. So a folder with a manifest is complete.

Writing, from any number of processes: `begin(out)`; for each key group `write_state(partial(out), group, entries)`, and
`write_output` if output is kept; then `finish(out, manifest)` with the returned `FileInfo`s.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import fastavro

from moneystate.engine.items import Output
from moneystate.errors import SavepointError
from moneystate.savepoint.manifest import NAME, FileInfo, Manifest, read_manifest

Pair = tuple[bytes, bytes]  # an entry's key and value

ENTRY_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "moneystate.savepoint.Entry",
        "fields": [{"name": "key", "type": "bytes"}, {"name": "value", "type": "bytes"}],
    }
)
HEADER_TYPE = {
    "type": "record",
    "name": "moneystate.savepoint.Header",
    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
}
OUTPUT_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "moneystate.savepoint.Output",
        "fields": [
            {"name": "stream", "type": "int"},
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "value", "type": ["null", "bytes"]},
            {"name": "headers", "type": {"type": "array", "items": HEADER_TYPE}},
        ],
    }
)
SYNC_BYTES = 256 * 1024  # of a block, which a reader has in memory as a whole


# Writing


def partial(out: Path) -> Path:
    """The folder where a savepoint is written until it is complete, on the same file system as `out`."""
    return out.absolute().with_name(f".{out.name}.partial")


def check_free(out: Path) -> None:
    """Raises SavepointError if `out` cannot become a new savepoint. Writes nothing."""
    if out.exists():
        raise SavepointError(f"{out}: expected a path that does not exist, found one that does.", "give another --out.")
    parent = out.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise SavepointError(
            f"{parent}: expected a folder that can be written to, found none.", "make it, or give another --out."
        )


def begin(out: Path) -> Path:
    """Returns the empty folder to write into. Removes what an earlier attempt left there. Raises SavepointError."""
    check_free(out)
    folder = partial(out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def write_state(folder: Path, group: int, entries: Iterable[Pair]) -> FileInfo:
    """Writes a key group's entries, which must be sorted by key. Raises ValueError if they are not."""
    return _write(folder, _name("state", group), ENTRY_SCHEMA, _in_order(entries))


def write_output(folder: Path, group: int, outputs: Iterable[Output]) -> FileInfo:
    """Writes the outputs of a key group, in order."""
    records = (
        {
            "stream": stream,
            "key": key,
            "value": value,
            "headers": [{"name": name, "value": content} for name, content in headers],
        }
        for stream, key, value, headers in outputs
    )
    return _write(folder, _name("output", group), OUTPUT_SCHEMA, records)


def finish(out: Path, manifest: Manifest) -> None:
    """Turns the partial folder, whose files are all written, into the savepoint `out`."""
    folder = partial(out)
    with (folder / NAME).open("w") as f:
        f.write(manifest.encode())
        f.flush()
        os.fsync(f.fileno())
    folder.rename(out.absolute())


def _name(kind: str, group: int) -> str:
    return f"{kind}/group-{group:05d}.avro"


def _in_order(entries: Iterable[Pair]) -> Iterator[dict[str, bytes]]:
    before = b""
    for key, value in entries:
        if key <= before:
            raise ValueError(f"entries of a key group: expected them sorted by key, found {key!r} after {before!r}")
        before = key
        yield {"key": key, "value": value}


def _write(folder: Path, name: str, schema: Any, records: Iterable[dict[str, Any]]) -> FileInfo:
    """Writes a file completely or not at all: a file without the suffix `.tmp` is complete."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    counter = _Counted(records)
    with temporary.open("wb") as f:
        fastavro.writer(f, schema, counter, sync_interval=SYNC_BYTES)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
    return FileInfo(name, counter.n, path.stat().st_size, _sha256(path))


class _Counted:
    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.records = records
        self.n = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self.records:
            self.n += 1
            yield record


def _sha256(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


# Reading


class Savepoint:
    """A complete savepoint. Opening it checks the manifest and the sizes of its files. Each file is checked against
    its SHA-256 before its first record is returned. All methods raise SavepointError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        for info in [*self.manifest.state, *self.manifest.output]:
            self._check_size(info)

    def entries(self, group: int) -> Iterator[Pair]:
        """A key group's entries, sorted by key."""
        for record in self._records(self.manifest.state[group]):
            yield record["key"], record["value"]

    def outputs(self, group: int) -> Iterator[Output]:
        """The outputs of the key group before the savepoint's position; empty if the savepoint has no outputs."""
        if not self.manifest.output:
            return
        for record in self._records(self.manifest.output[group]):
            headers = [(header["name"], header["value"]) for header in record["headers"]]
            yield record["stream"], record["key"], record["value"], headers

    def _records(self, info: FileInfo) -> Iterator[dict[str, Any]]:
        path = self.folder / info.name
        if _sha256(path) != info.sha256:
            raise SavepointError(
                f"{path}: expected the content that was written, found another SHA-256.", "restore the file."
            )
        with path.open("rb") as f:
            for record in fastavro.reader(f):
                assert isinstance(record, dict)
                yield record

    def _check_size(self, info: FileInfo) -> None:
        path = self.folder / info.name
        if not path.is_file() or path.stat().st_size != info.bytes:
            actual = f"{path.stat().st_size} bytes" if path.is_file() else "none"
            raise SavepointError(
                f"{path}: expected a file of {info.bytes} bytes, found {actual}.", "restore the savepoint."
            )

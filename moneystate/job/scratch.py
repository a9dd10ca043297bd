"""Scratch files of the Python workers, in Spark's local folders, which Spark removes at its end.

A file is a sequence of frames. Before each is its length (8 bytes, big-endian). Files do not outlive the run.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

LENGTH = struct.Struct(">Q")


def scratch_folder() -> Path:
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])


class FrameWriter:
    """Writes a new file in `folder` or the scratch folder, readable by this user only. Leaves nothing behind if its
    block fails."""

    def __init__(self, prefix: str, folder: Path | None = None) -> None:
        handle, name = tempfile.mkstemp(prefix=prefix, dir=folder or scratch_folder())
        self.path = Path(name)
        self._file = open(handle, "wb")  # noqa: SIM115 -- closed at the end of the block

    def add(self, frame: bytes) -> None:
        self._file.write(LENGTH.pack(len(frame)))
        self._file.write(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._file.close()
        finally:
            if kind is not None:
                self.path.unlink()


def write_frames(prefix: str, frames: Iterable[bytes], folder: Path | None = None) -> Path:
    """Writes such a file."""
    with FrameWriter(prefix, folder) as writer:
        for frame in frames:
            writer.add(frame)
    return writer.path


def read_frames(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(LENGTH.size):
        yield file.read(LENGTH.unpack(head)[0])

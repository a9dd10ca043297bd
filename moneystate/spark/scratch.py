"""Scratch files of the Python workers, in Spark's local folders, which Spark removes at its end.

A file is a sequence of frames. Before each is its length (8 bytes, big-endian). Files do not outlive the run.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

LENGTH = struct.Struct(">Q")


def scratch_folder() -> Path:
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])


def write_frames(prefix: str, frames: Iterable[bytes], folder: Path | None = None) -> Path:
    """Writes a new file in `folder` or the scratch folder, readable by this user only. Leaves nothing behind if that
    fails."""
    handle, name = tempfile.mkstemp(prefix=prefix, dir=folder or scratch_folder())
    path = Path(name)
    try:
        with open(handle, "wb") as file:
            for frame in frames:
                file.write(LENGTH.pack(len(frame)))
                file.write(frame)
    except BaseException:
        path.unlink()
        raise
    return path


def read_frames(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(LENGTH.size):
        yield file.read(LENGTH.unpack(head)[0])

"""Progress numbers that the follower shares with its readers through memory.

    written (8) | newest (8) | current as of (8) | lag (8) | caught up (8) | CRC-32 of these (4), big-endian

Readers poll these numbers to learn whether the database has news, which is far cheaper than asking the database. A
reader that finds a half-written status (its checksum is wrong) reads again. The numbers never decide what can be read.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FIELDS: Final = struct.Struct(">QQQQQ")
BYTES: Final = _FIELDS.size + 4


@dataclass(frozen=True, slots=True)
class SharedStatus:
    """The follower's numbers for its readers."""

    written: int = 0  # rows since the follower's start
    newest: int = 0  # newest readable revision; 0: none
    current_as_of_ms: int = 0
    lag_records: int = 0
    caught_up: int = 0  # 0 or 1


class SharedStatusFile:
    def __init__(self, folder: Path, write: bool = False) -> None:
        path = folder / "head"
        if write and (not path.exists() or path.stat().st_size != BYTES):
            scratch = path.with_suffix(".new")  # a reader finds the whole file or none
            scratch.write_bytes(_pack(SharedStatus()))
            scratch.replace(path)
        self.file = path.open("r+b" if write else "rb")
        self.map = mmap.mmap(self.file.fileno(), BYTES, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)
        self.last = SharedStatus()

    def write(self, shared: SharedStatus) -> None:
        if shared != self.last:
            self.map[:] = _pack(shared)
            self.last = shared

    def read(self) -> SharedStatus:
        raw = self.map[:]
        if int.from_bytes(raw[_FIELDS.size :], "big") == zlib.crc32(raw[: _FIELDS.size]):
            self.last = SharedStatus(*_FIELDS.unpack_from(raw))
        return self.last

    def close(self) -> None:
        self.map.close()
        self.file.close()


def _pack(shared: SharedStatus) -> bytes:
    fields = _FIELDS.pack(shared.written, shared.newest, shared.current_as_of_ms, shared.lag_records, shared.caught_up)
    return fields + zlib.crc32(fields).to_bytes(4, "big")

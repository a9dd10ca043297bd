"""Shuffle files between the two phases: one for each chunk and source task, with a block for each key group.

    number of key groups (4 bytes, big-endian), length of each block (8 bytes each), the blocks

Blocks are those of `moneystate.engine.block`. Only the program version that wrote them can read them
(`moneystate.bootstrap.work`).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from moneystate.errors import JobError

COUNT = struct.Struct(">I")


def shuffle_path(work: Path, chunk: int, task: int) -> Path:
    return work / "segments" / f"chunk-{chunk:06d}-task-{task:04d}"


def write_shuffle_file(path: Path, blocks: list[bytes]) -> None:
    """Writes the file completely or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as f:
        f.write(COUNT.pack(len(blocks)))
        f.write(struct.pack(f">{len(blocks)}Q", *[len(block) for block in blocks]))
        f.writelines(blocks)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)


def read_shuffle_file(path: Path, group: int) -> bytes:
    """Reads the block of one key group. Raises JobError if the file is incomplete."""
    with path.open("rb") as f:
        (groups,) = COUNT.unpack(f.read(COUNT.size))
        lengths = struct.unpack(f">{groups}Q", f.read(8 * groups))
        f.seek(sum(lengths[:group]), os.SEEK_CUR)
        block = f.read(lengths[group])
    if len(block) != lengths[group]:
        raise JobError(
            f"{path}: expected a complete file, found one that is cut off.", "remove the work folder and start again."
        )
    return block

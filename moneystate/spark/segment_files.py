"""Shares segments of key groups' state between the workers of a machine, as files.

Spark gives a key group to another worker from batch to batch, and a merge reads what several of them wrote. Spark's
state store has it all, but a value of 256 KB takes its server and the socket some 5 ms. So who has a segment keeps it
here. Nothing depends on a file: what is not here is read from the store. A name says all that tells segments apart
within one run of the job, in which a batch that is done again writes the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from moneystate.engine.segments import Segment
from moneystate.spark.scratch import read_frames, write_frames


class SegmentFiles:
    """Segment files in the folder of one run of a job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def chunks(self, group: int, origin: int, segment: Segment) -> list[bytes] | None:
        """The chunks of a segment; None: it is not on this machine."""
        try:
            with self._path(group, origin, segment).open("rb") as file:
                frames = list(read_frames(file))
        except OSError:
            return None
        return frames if sum(map(len, frames)) == segment.size else None

    def keep(self, group: int, origin: int, segment: Segment, chunks: Sequence[bytes]) -> None:
        self.forget(group, origin, segment)  # of an attempt that failed
        with contextlib.suppress(OSError):  # a full disk: then without
            write_frames(".", chunks, self.folder).replace(self._path(group, origin, segment))

    def forget(self, group: int, origin: int, segment: Segment) -> None:
        with contextlib.suppress(OSError):
            self._path(group, origin, segment).unlink(missing_ok=True)

    def _path(self, group: int, origin: int, segment: Segment) -> Path:
        return self.folder / f"{group}-{origin}-{segment.name}"

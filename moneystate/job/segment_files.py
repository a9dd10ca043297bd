"""Shares segments of key groups' state between the workers of a machine, as files.

Spark moves key groups between workers from batch to batch, and a merge reads segments that several workers wrote. They
are all in Spark's state store, but there a value of 256 KB takes about 5 ms. So workers also keep segments in files.
Nothing depends on a file: a missing one is read from the store. The name identifies a segment within one run of the
job. A batch that runs again writes the same segment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from moneystate.engine.segments import Segment
from moneystate.job.scratch import read_frames, write_frames


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
        self.forget(group, origin, segment)  # it may be from a failed attempt
        with contextlib.suppress(OSError):  # the disk is full: the segment stays in the store
            write_frames(".", chunks, self.folder).replace(self._path(group, origin, segment))

    def forget(self, group: int, origin: int, segment: Segment) -> None:
        with contextlib.suppress(OSError):
            self._path(group, origin, segment).unlink(missing_ok=True)

    def _path(self, group: int, origin: int, segment: Segment) -> Path:
        return self.folder / f"{group}-{origin}-{segment.name}"

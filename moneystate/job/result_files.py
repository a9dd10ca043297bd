"""Result files: the operator's results on their way to the sink, beside the Python workers.

Operator and sink run in one task, on one machine. Rows between them pass through the JVM, which copies them several
times for nothing. So a row only names a file with the packed results of some key groups. The process that writes them
to Kafka removes the file once the batch is written, or has failed: until then it may have to write the batch again.
Files of a task that ends in between are removed with Spark's local folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from moneystate.errors import JobError
from moneystate.job.scratch import FrameWriter, read_frames

PREFIX = "moneystate-results-"


class ResultWriter(FrameWriter):
    """Writes a result file."""

    def __init__(self) -> None:
        super().__init__(PREFIX)

    @property
    def row(self) -> bytes:
        """Names the file."""
        return os.fsencode(self.path)


def read_results(row: bytes) -> Iterator[bytes]:
    """Reads a result file. Raises JobError if it does not exist here: it is on another machine, or was removed."""
    path = _path(row)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise JobError(
            f"{path}: expected results of the stateful operator, but the file does not exist.",
            "leave Spark's local folders alone while the job runs, and start it again.",
        ) from None
    with file:
        yield from read_frames(file)


def remove_results(rows: Iterable[bytes]) -> None:
    """Removes result files. A file that cannot be removed stays until the end of the run."""
    for row in rows:
        with suppress(OSError, ValueError):
            _path(row).unlink()


def _path(row: bytes) -> Path:
    return Path(os.fsdecode(row))

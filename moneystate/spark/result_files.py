"""Result files: the operator's results on their way to the sink, beside the Python workers.

Operator and sink are one task, on one machine; rows between them go through the JVM, which copies them half a dozen
times for nothing. So a row names a file with the results of some key groups, as the operator packs them, and whoever
writes them to Kafka reads it, once: the name is gone when it is open. What a task leaves that ends in between goes with
Spark's local folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from moneystate.errors import JobError
from moneystate.spark.scratch import read_frames, write_frames

PREFIX = "moneystate-results-"


def write_results(packed: Iterable[bytes]) -> bytes:
    """Writes a result file and returns its name for the row."""
    return os.fsencode(write_frames(PREFIX, packed))


def read_results(row: bytes) -> Iterator[bytes]:
    """Reads a result file. Raises JobError if it does not exist here: it is on another machine, or was read before."""
    path = Path(os.fsdecode(row))
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise JobError(
            f"{path}: expected results of the stateful operator, found no such file.",
            "Spark's local folders have to stay as they are while the job runs; start it again.",
        ) from None
    with file:
        path.unlink()
        yield from read_frames(file)

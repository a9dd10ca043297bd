"""The operator's results on their way to the sink, in files beside the Python workers.

Operator and sink are one task, on one machine; rows between them go through the JVM, which copies them half a dozen
times for nothing. So a row names a file with the results of some key groups, and whoever writes them to Kafka reads it,
once: the name is gone when it is open. What a task leaves that ends in between goes with Spark's local folders.

A file is a sequence of results as the operator packs them, each behind its length (8 bytes, big-endian).
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.errors import JobError
from services.spark.scratch import scratch_folder

PREFIX = "moneystate-results-"
LENGTH = struct.Struct(">Q")


def write_results(packed: Iterable[bytes]) -> bytes:
    """Gives the file, as it goes into a row."""
    handle, name = tempfile.mkstemp(prefix=PREFIX, dir=scratch_folder())
    with open(handle, "wb") as file:
        for result in packed:
            file.write(LENGTH.pack(len(result)))
            file.write(result)
    return os.fsencode(name)


def read_results(row: bytes) -> Iterator[bytes]:
    """Raises JobError where the file is not there: of another machine, or read before."""
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
        while head := file.read(LENGTH.size):
            yield file.read(LENGTH.unpack(head)[0])

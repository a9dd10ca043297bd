"""How much batches put out for each record that they read, so that a plan can cut a batch by it.

The batch loop adds each batch and writes a file. The planner, in a process of its own, reads it between batches. What
it decides goes into the plan, as everything that is not in the logs does. No result depends on it.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 512 * 1024 * 1024  # that a batch puts out, about
LEAST_RECORDS: Final = 10  # of a batch, whatever they put out
BATCHES: Final = 8  # the last ones that count


class PutOut:
    """Holds what the last batches have put out."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.batches: deque[tuple[int, int]] = deque(maxlen=BATCHES)

    def add(self, records: int, put_out_bytes: int) -> None:
        if not records:  # of timers: the next batch would be no smaller for it
            return
        self.batches.append((records, put_out_bytes))
        written = self.file.with_suffix(".tmp-out")
        written.write_text(f"{sum(n for n, _ in self.batches)} {sum(size for _, size in self.batches)}")
        written.rename(self.file)


def most_records(file: Path) -> int | None:
    """Returns how many records are expected to put out `MOST_BYTES`. None: no batch of this run has put anything
    out."""
    try:
        records, put_out_bytes = map(int, file.read_text().split())
    except FileNotFoundError:
        return None
    return max(LEAST_RECORDS, MOST_BYTES * records // put_out_bytes) if put_out_bytes else None

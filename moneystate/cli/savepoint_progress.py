"""Shows the progress of Spark's tasks while they write a savepoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moneystate.cli.work_progress import WorkProgress
from moneystate.savepoint.format import partial

POLL_S = 0.3
PHASE = "key groups"


@contextmanager
def counting(out: Path, total: int, quiet: bool) -> Iterator[None]:
    """Shows how many key groups are written. It counts their files, because Spark's tasks write them."""
    over = threading.Event()
    with WorkProgress(quiet) as progress:

        def count() -> None:
            while not over.wait(POLL_S):
                progress.show(PHASE, len(list((partial(out) / "state").glob("*.avro"))), total)

        counter = threading.Thread(target=count, daemon=True)
        counter.start()
        try:
            yield
            progress.show(PHASE, total, total)
        finally:
            over.set()
            counter.join()

"""Tunes Python's garbage collector in Spark's workers.

A batch makes hundreds of thousands of tuples and hardly any cycles: what looks at them all finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = 32  # tasks


@contextmanager
def no_collection() -> Iterator[None]:
    """Disables collection for code that creates no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class RareCollector:
    """Stands for the module `gc` in PySpark's daemon, which has a worker collect after each task: each time it would
    look through the records that are read ahead for the next batch, a tenth of what a source's worker does."""

    def __init__(self) -> None:
        self.tasks = 0

    def collect(self) -> None:
        self.tasks += 1
        if self.tasks % COLLECT_EVERY == 0:
            gc.collect()

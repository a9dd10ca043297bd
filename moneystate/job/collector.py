"""Tunes Python's garbage collector in Spark's workers.

A batch creates hundreds of thousands of tuples and hardly any cycles, so a collection costs much and finds nothing.
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
    """Replaces the module `gc` in PySpark's daemon, which makes a worker collect after each task. Each collection would
    traverse the records that are read ahead for the next batch. That is a tenth of the work of a source's worker."""

    def __init__(self) -> None:
        self.tasks = 0

    def collect(self) -> None:
        self.tasks += 1
        if self.tasks % COLLECT_EVERY == 0:
            gc.collect()

"""Garbage collection in servers."""

from __future__ import annotations

import gc


def spare_garbage_collection() -> None:
    """Makes collections rare: calls create many objects and hardly any cycles, and traversing everything that is
    imported takes about 50 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)

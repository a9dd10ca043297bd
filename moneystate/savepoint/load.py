"""Loads a savepoint into the state of a job that starts from it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from moneystate.engine import clock as clocks
from moneystate.engine.state import StateAccess
from moneystate.savepoint.format import Savepoint

SLICE_BYTES = 4 * 1024 * 1024  # put in one call; the memory that loading a key group takes


def load(folder: str, group: int, state: StateAccess) -> None:
    """Writes all entries of a key group into its state, unless it already has a clock. Raises SavepointError.

    Every batch leaves each key group with a clock. So only the first batch finds none, even if it runs again.
    """
    if state.get_many([clocks.KEY])[0] is not None:
        return
    entries: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in _opened(folder).entries(group):
        entries.append((key, value))
        size += len(key) + len(value)
        if size >= SLICE_BYTES:
            state.apply(entries)
            entries, size = [], 0
    state.apply(entries)


@lru_cache(maxsize=1)
def _opened(folder: str) -> Savepoint:
    return Savepoint(Path(folder))

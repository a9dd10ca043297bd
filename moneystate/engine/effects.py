"""The effects that a step requests, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.engine.items import OFFSET, PARTITION, TIME, TOPIC, Header, Item, Output

SPILL_BYTES: Final = 32 * 1024 * 1024
AGE_STEP_MS: Final = 10_000  # things that are held are counted per ten seconds, so that a clock stays small


class Spill:
    """Takes outputs of a key group while its batch runs, so that memory does not have to hold all of them."""

    def __init__(self, write: Callable[[list[Output]], object], most_bytes: int = SPILL_BYTES) -> None:
        self.write = write  # gets the outputs in order, and must not keep the list
        self.most_bytes = most_bytes


class Effects:
    """Collects records to write, timers to set and counts, in the order of the steps."""

    def __init__(self, spill: Spill | None = None) -> None:
        self.spill = spill  # None: `outputs` has all of the batch's
        self.bytes = 0  # of the values of `outputs`, about
        self.outputs: list[Output] = []
        self.timers: list[Item] = []
        self.counts: dict[str, int] = {}
        self.ages: dict[int, int] = {}
        self.has_changed = True  # whether the last step of a timer that set timers has changed any state

    def emit(self, stream: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
        self.outputs.append((stream, key, value, headers))
        if value is not None:
            self.bytes += len(value)

    def end_step(self) -> None:
        """Hands outputs over if there are many."""
        if self.spill is not None and self.bytes >= self.spill.most_bytes:
            self.spill.write(self.outputs)
            self.outputs.clear()
            self.bytes = 0

    def set_timer(self, due_ms: int, rank: int, by: Item, key: bytes, value: bytes) -> None:
        """A timer of `rank` at `due_ms`, set by `by`. It runs once the watermark has passed it."""
        self.timers.append((due_ms, rank, by[TIME], by[TOPIC], by[PARTITION], by[OFFSET], 0, key, value))

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

    def hold(self, since_ms: int) -> None:
        """Counts something as held since `since_ms`, until it is released. From this a job shows its oldest wait."""
        start = age_start(since_ms)
        self.ages[start] = self.ages.get(start, 0) + 1

    def let_go(self, since_ms: int) -> None:
        start = age_start(since_ms)
        self.ages[start] = self.ages.get(start, 0) - 1


def age_start(since_ms: int) -> int:
    return since_ms - since_ms % AGE_STEP_MS

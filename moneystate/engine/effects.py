"""The effects that a step requests, as plain values."""

from __future__ import annotations

from typing import Final

from moneystate.engine.items import OFFSET, PARTITION, TIME, TOPIC, Header, Item, Output

AGE_STEP_MS: Final = 10_000  # things that are held are counted per ten seconds, so that a clock stays small


class Effects:
    """Collects records to write, timers to set and counts, in the order of the steps."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.timers: list[Item] = []
        self.counts: dict[str, int] = {}
        self.ages: dict[int, int] = {}
        self.has_changed = True  # whether the last step of a timer that set timers has changed any state

    def emit(self, stream: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
        self.outputs.append((stream, key, value, headers))

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

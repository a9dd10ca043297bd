"""What a step asks for, as plain values."""

from __future__ import annotations

from services.engine.items import Header, Item, Output


class Effects:
    """Collects records to write, timers to set and counts, in the order of the steps."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.timers: list[Item] = []
        self.counts: dict[str, int] = {}

    def emit(self, stream: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
        self.outputs.append((stream, key, value, headers))

    def set_timer(self, due_ms: int, rank: int, by: Item, key: bytes, value: bytes) -> None:
        """A timer of `rank` at `due_ms`, set by `by`. It runs once the watermark has passed it."""
        self.timers.append((due_ms, rank, by[0], by[3], by[4], by[5], 0, key, value))

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

"""An independent model of tables: all rows that were ever written, and what held when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

BEGINNING_MS = -62_135_596_800_000


class Wrote(NamedTuple):
    """A record of a table. Those of one key are in the order of their offsets."""

    key: Any
    row: Any  # None: a tombstone
    written_ms: int  # BEGINNING_MS: in the first load
    valid_from_ms: int | None


class TableModel:
    def __init__(self, wrote: Iterable[Wrote]) -> None:
        self.wrote = list(wrote)

    def at(self, key: Any, now_ms: int) -> Any:
        """The row that holds: of those that have begun to hold, the one that did so last, then the one written last."""
        begun = [
            (max(w.written_ms, w.written_ms if w.valid_from_ms is None else w.valid_from_ms), number, w.row)
            for number, w in enumerate(self.wrote)
            if w.key == key
        ]
        held = [one for one in begun if one[0] <= now_ms]
        return max(held, key=lambda one: one[:2])[2] if held else None

    def known_of(self, key: Any, now_ms: int, at_ms: int) -> Any:
        """Returns, of the rows that are written by now, the one with the greatest valid_from up to a time."""
        known = [
            (w.written_ms if w.valid_from_ms is None else w.valid_from_ms, w.written_ms, number, w.row)
            for number, w in enumerate(self.wrote)
            if w.key == key and w.written_ms <= now_ms
        ]
        fit = [one for one in known if one[0] <= at_ms]
        return max(fit, key=lambda one: one[:3])[3] if fit else None

    def changes(self, key: Any) -> list[tuple[int, Any]]:
        """When another row, or none, began to hold, with the row."""
        times = sorted({max(w.written_ms, w.valid_from_ms or w.written_ms) for w in self.wrote if w.key == key})
        changes: list[tuple[int, Any]] = []
        before = None
        for time_ms in times:
            row = self.at(key, time_ms)
            if row != before:
                changes.append((time_ms, row))
            before = row
        return changes

"""Which numbers of a stream are missing. The sets cost the same however much is held."""

from __future__ import annotations

from collections.abc import Iterator

import moneystate as ms
from services.sequencing.records import Stream


class Missing:
    """`held`, `void`: numbers from `next` on; one that is in both is held. `passed_by`: those before `next` that were
    skipped or void."""

    def __init__(self, stream: Stream, numbers: ms.PackedEntries) -> None:
        self.stream = stream
        self.held = ms.NumberSet("h", numbers)
        self.void = ms.RangeSet("v", numbers)
        self.passed_by = ms.RangeSet("p", numbers)

    def held_from(self, number: int) -> ms.Range | None:
        return self.held.at_or_after(number, self.stream.known) if self.stream.held else None

    def void_from(self, number: int) -> ms.Range | None:
        return self.void.at_or_after(number, self.stream.void_to) if number <= self.stream.void_to else None

    def gaps(self, from_: int, to: int) -> Iterator[ms.Range]:
        """Runs of missing numbers among these, in order (rule 4)."""
        s = self.stream
        return ms.uncovered(max(from_, s.next, s.skip_to + 1), to, self.held_from, self.void_from)

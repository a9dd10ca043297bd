"""What can be asked."""

from __future__ import annotations

from itertools import islice
from typing import Any

import moneystate as ms
from services.sequencing import records as r
from services.sequencing.missing import Missing


def declare_queries(
    service: ms.Service[Any], streams: ms.Value[r.Stream], held: ms.Map[r.Held], clocks: ms.Map[r.Clock],
    numbers: ms.Map[ms.Packed],
) -> None:  # fmt: skip
    oldest = service.index("oldest", clocks, lambda clock: (clock.since, clock.from_))
    stalls = service.index("stalled", streams, lambda s: 1 if s.next <= s.stalled_to and not s.parked else None)
    parks = service.index("parked", streams, lambda s: s.parked or None)

    def missing_of(view: ms.View, stream: str) -> Missing:
        return Missing(view.get(streams, stream), ms.ViewedEntries(view, numbers, stream))

    @service.query
    def gaps(view: ms.View, limit: int = 100) -> list[r.Gap]:
        """Of all streams, oldest first; those of parked streams, whose clocks do not run, among them."""
        open_ones = (
            r.Gap(stream, from_, to, clock.since)
            for stream, _, clock in view.range(oldest)
            for from_, to in missing_of(view, stream).gaps(clock.from_, clock.to)
        )
        return list(islice(open_ones, limit))

    @service.query
    def stalled(view: ms.View, limit: int = 100) -> list[r.StreamStalled]:
        """With the gap as it is now."""
        first_gaps = ((key, missing_of(view, key).gaps(s.next, s.known)) for key, s in view.range(stalls))
        return [r.StreamStalled(key, *next(gaps)) for key, gaps in islice(first_gaps, limit)]

    @service.query
    def parked(view: ms.View, limit: int = 100) -> list[r.StreamParked]:
        return [r.StreamParked(key, s.parked or "gap") for key, s in islice(view.range(parks), limit)]

    @service.query
    def held_events(view: ms.View, stream: str, limit: int = 100) -> list[r.StreamEvent]:
        """In the order of their numbers."""
        numbers_held = missing_of(view, stream).held.between(1, view.get(streams, stream).known)
        entries = [view.entry(held, stream, str(seq)) for seq in islice(numbers_held, limit)]
        return [entry.event for entry in entries if entry is not None]

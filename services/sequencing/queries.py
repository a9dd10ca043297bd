"""The queries of sequencing."""

from __future__ import annotations

import moneystate as ms
from services.sequencing import records as r
from services.sequencing.config import Config


def declare_queries(
    service: ms.Service[Config], streams: ms.Value[r.Stream], held: ms.Map[r.Held], runs: ms.Map[r.Run]
) -> None:
    queries = Queries(service, streams, held, runs)
    service.query(queries.gaps)
    service.query(queries.stalled)
    service.query(queries.parked)
    service.query(queries.held_events)


class Queries:
    def __init__(
        self, service: ms.Service[Config], streams: ms.Value[r.Stream], held: ms.Map[r.Held], runs: ms.Map[r.Run]
    ) -> None:
        self.streams, self.held = streams, held
        self.oldest = service.index(
            "oldest", runs, lambda run: (run.since, run.first) if run.kind == "missing" else None
        )
        self.stalls = service.index("stalled", runs, lambda run: 1 if run.stalled else None)
        self.parks = service.index("parked", streams, lambda s: s.parked or None)

    def gaps(self, view: ms.View, limit: int = 100) -> list[r.Gap]:
        """Lists the gaps of all streams, oldest first, including parked streams, whose clocks do not run."""
        return [r.Gap(key, run.first, run.last, run.since) for key, _, run in ms.first(view.range(self.oldest), limit)]

    def stalled(self, view: ms.View, limit: int = 100) -> list[r.StreamStalled]:
        """Lists the stalled streams with the gap as it is now. A later part of a gap that was reported does not stall
        its stream."""
        reported = ((key, run, view.get(self.streams, key)) for key, _, run in view.range(self.stalls))
        stalling = ((key, run) for key, run, s in reported if run.first == s.next and not s.parked)
        return [r.StreamStalled(key, run.first, run.last) for key, run in ms.first(stalling, limit)]

    def parked(self, view: ms.View, limit: int = 100) -> list[r.StreamParked]:
        return [r.StreamParked(key, s.parked or "gap") for key, s in ms.first(view.range(self.parks), limit)]

    def held_events(self, view: ms.View, stream: str, limit: int = 100) -> list[r.StreamEvent]:
        """Lists the held events in the order of their numbers."""
        return [entry.event for _, entry in ms.first(view.entries(self.held, stream), limit)]

"""Events of a stream that several producers write, put into sequence. docs/sequencing.md has the rules."""

from __future__ import annotations

from typing import Any, Final

import moneystate as ms
from services.sequencing import records as r
from services.sequencing.config import Config, check
from services.sequencing.sequencer import STEPS, Sequencer

OUTPUTS: Final[dict[str, list[type]]] = {
    "sequenced-output": [r.Sequenced, r.GapSkipped, r.GapVoid, r.StreamEnded, r.SequenceRestarted],
    "sequenced-requests": [r.EventsRequested],
    "sequenced-findings": [
        r.SequenceConflict, r.LateAfterSkip, r.AfterRetention, r.AfterClose, r.StreamStalled, r.StreamParked,
        r.HeldLimit,
    ],
}  # fmt: skip
FALLBACKS: Final[dict[type, Any]] = {r.Poisoned: ms.salvage(r.Poisoned, of="StreamEvent", right=lambda e: e.seq >= 1)}


def sequencing(config: Config) -> ms.Service[Config]:
    service = ms.Service("sequencing", rules=config)
    check(service, config)
    outputs: dict[type, ms.Output[Any]] = {
        record: service.output(topic, record, key="stream", format=config.format)
        for topic, records in OUTPUTS.items()
        for record in records
    }
    streams = service.value("stream", r.Stream)
    held = service.map("held", r.Held)
    runs = service.map("runs", r.Run)
    numbers = service.map("numbers", ms.Packed)
    passed = service.map("passed", ms.Packed, ttl_ms=config.digest_retention_ms + 1)  # with its last millisecond
    timer = service.timer("timer")

    def step(ctx: ms.Context[Config], e: Any, *states: Any) -> None:
        Sequencer(ctx, outputs, timer, *states).record(e)

    def tick(ctx: ms.Context[Config], *states: Any) -> None:
        Sequencer(ctx, outputs, timer, *states).tick()

    for record in STEPS:
        source: ms.Input[Any] = service.input(
            "sequenced-input", record, key="stream", time="time", format=config.format, fallback=FALLBACKS.get(record)
        )
        service.on(source, streams, held, numbers, runs, passed)(step)
    service.on(timer, streams, held, numbers, runs, passed)(tick)

    oldest = service.index("oldest", runs, lambda run: (run.since, run.first) if run.kind == "missing" else None)
    stalls = service.index("stalled", runs, lambda run: 1 if run.stalled else None)
    parks = service.index("parked", streams, lambda s: s.parked or None)

    @service.query
    def gaps(view: ms.View, limit: int = 100) -> list[r.Gap]:
        """Lists the gaps of all streams, oldest first, including parked streams, whose clocks do not run."""
        return [r.Gap(key, run.first, run.last, run.since) for key, _, run in ms.first(view.range(oldest), limit)]

    @service.query
    def stalled(view: ms.View, limit: int = 100) -> list[r.StreamStalled]:
        """Lists the stalled streams with the gap as it is now. A later part of a gap that was reported does not stall
        its stream."""
        reported = ((key, run, view.get(streams, key)) for key, _, run in view.range(stalls))
        stalling = ((key, run) for key, run, s in reported if run.first == s.next and not s.parked)
        return [r.StreamStalled(key, run.first, run.last) for key, run in ms.first(stalling, limit)]

    @service.query
    def parked(view: ms.View, limit: int = 100) -> list[r.StreamParked]:
        return [r.StreamParked(key, s.parked or "gap") for key, s in ms.first(view.range(parks), limit)]

    @service.query
    def held_events(view: ms.View, stream: str, limit: int = 100) -> list[r.StreamEvent]:
        """Lists the held events in the order of their numbers."""
        return [entry.event for _, entry in ms.first(view.entries(held, stream), limit)]

    return service

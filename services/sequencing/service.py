"""Events of a stream that several producers write, put into sequence. docs/sequencing.md has the rules."""

from __future__ import annotations

from typing import Any, Final

import moneystate as ms
from services.sequencing import records as r
from services.sequencing.config import Config, check
from services.sequencing.queries import declare_queries
from services.sequencing.sequencer import STEPS, Steps

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

    steps = Steps(outputs, timer)
    for record in STEPS:
        source: ms.Input[Any] = service.input(
            "sequenced-input", record, key="stream", time="time", format=config.format, fallback=FALLBACKS.get(record)
        )
        service.on(source, streams, held, numbers, runs, passed)(steps.step)
    service.on(timer, streams, held, numbers, runs, passed)(steps.tick)
    declare_queries(service, streams, held, runs)
    return service

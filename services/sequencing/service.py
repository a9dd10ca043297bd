"""Events of a stream that several producers write, put into sequence: what is early is held, what is missing is said.

The rules are those of docs/sequencing.md, under the same numbers.
"""

from __future__ import annotations

from typing import Any, Final

import moneystate as ms
from services.sequencing import digests
from services.sequencing import records as r
from services.sequencing.config import Config, check
from services.sequencing.queries import declare_queries
from services.sequencing.sequencer import STEPS, Sequencer

OUTPUTS: Final[dict[str, list[type]]] = {
    "sequenced-output": [r.Sequenced, r.GapSkipped, r.GapVoid, r.StreamEnded],
    "sequenced-requests": [r.EventsRequested],
    "sequenced-findings": [
        r.SequenceConflict, r.LateAfterSkip, r.AfterClose, r.StreamStalled, r.StreamParked, r.HeldLimit,
    ],
}  # fmt: skip
# rule 6, in JSON alone: JSON in a topic of Avro is nothing that was read wrongly
FALLBACKS: Final[dict[type, Any]] = {r.Poisoned: ms.salvage(r.Poisoned, of="StreamEvent", right=lambda e: e.seq >= 1)}


def held_ids(e: Any) -> list[str]:
    return [str(e.seq)] if isinstance(e, r.StreamEvent) else []


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
    clocks = service.map("clocks", r.Clock)
    numbers = service.map("numbers", ms.Packed)
    # rule 2: a record exactly digest_retention later still finds the digest
    passed = service.map("passed", ms.Packed, ttl_ms=config.digest_retention_ms + 1)
    timer = service.timer("timer")

    def step(ctx: ms.Context[Config], e: Any, *states: Any) -> None:
        Sequencer(ctx, outputs, timer, *states).record(e)

    def tick(ctx: ms.Context[Config], *states: Any) -> None:
        Sequencer(ctx, outputs, timer, *states).tick()

    for record in [record for record in STEPS if config.format == "json" or record not in FALLBACKS]:
        source: ms.Input[Any] = service.input(
            "sequenced-input", record, key="stream", time="time", format=config.format, fallback=FALLBACKS.get(record)
        )
        service.on(source, streams, held.at(held_ids), clocks, numbers, passed.at(digests.entries_of))(step)
    service.on(timer, streams, held, clocks, numbers, passed)(tick)
    declare_queries(service, streams, held, clocks, numbers)
    return service

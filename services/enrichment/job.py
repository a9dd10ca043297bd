"""The enrichment as a job for the engine."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from services.enrichment import events, topics
from services.enrichment.emit import asked_again
from services.enrichment.rules import LOGIC_VERSION, Rules
from services.enrichment.step import Enrichment
from services.spark.job import JobSpec


class EventDecoder:
    """`services.engine.processor.Decoder` for the enrichment's topics."""

    def decode(self, topic: int, value: bytes) -> tuple[int, bytes | None]:
        return events.decode(topic, value)


DECODER = EventDecoder()


def known_schemas() -> list[str]:
    """Fingerprints of all event schemas that this program reads: one of the rules."""
    return sorted(header[2:].hex() for header in [*events.TYPES, *events.NO_INPUT])


def enrichment_job(rules: Rules) -> JobSpec:
    inputs = [t for t in topics.INPUTS if t.ordered or rules.lookup]
    return JobSpec(
        name="moneystate-enrich",
        inputs=inputs,
        decoder="services.enrichment.job:DECODER",
        make=partial(Enrichment, rules),
        streams=topics.STREAMS,
        dead_letter_stream=topics.DEAD_LETTERS,
        changelog=topics.CHANGELOG,
        commits=topics.COMMITS,
        rules={**asdict(rules), "known_schemas": known_schemas(), "logic": LOGIC_VERSION},
        bound_ms=rules.bound_ms,
        max_future_ms=rules.max_future_ms,
        asked_again=asked_again,
    )

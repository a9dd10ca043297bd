"""The enrichment as a job for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from services.enrichment import events, topics
from services.enrichment.emit import asked_again
from services.enrichment.rules import LOGIC_VERSION, Rules
from services.enrichment.state import owner_of
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


def rules_of(kept: Mapping[str, Any]) -> Rules | None:
    """The rules that a checkpoint or savepoint has kept; None where another version of the program runs by them."""
    rules = Rules(**{f.name: kept[f.name] for f in fields(Rules)})
    ours = enrichment_job(rules).rules
    return rules if all(kept[name] == ours[name] for name in ("logic", "known_schemas")) else None


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
        owner=owner_of,
    )

"""How delivery is configured: the table `[delivery]` of a configuration file. All of it decides results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import moneystate as ms
from moneystate.errors import ServiceError

HOUR_MS: Final = 3_600_000
MAX_RETENTION_MS: Final = 30 * 24 * HOUR_MS
HEADER: Final = "header:"
_FIELD: Final = re.compile(r"[^.\s]+(\.[^.\s]+)*")


@dataclass(frozen=True)
class Events:
    """Events of other than CloudEvents headers. `topic`: a name or a pattern; the others say where an event has its
    attribute: `header:NAME`, or the path of a field of the body, such as `order.id`. Empty: the CloudEvents header."""

    topic: str = ""
    id: str = ""
    source: str = ""
    type: str = ""
    tenant: str = ""
    department: str = ""


@dataclass(frozen=True)
class Config:
    """`cloud_events`: topics of events with CloudEvents headers, names or patterns; `events`: others;
    `delivery_partitions`: of `deliveries`, for good; `why_retention_ms`: how long `why` knows an event, 0: it knows
    none; `allow_http`: whether endpoints may have URLs without TLS."""

    cloud_events: tuple[str, ...] = ()
    events: tuple[Events, ...] = ()
    delivery_partitions: int = 12
    duplicate_retention_ms: int = HOUR_MS
    why_retention_ms: int = HOUR_MS
    allow_http: bool = False

    def inputs(self) -> list[Events]:
        """The inputs in the order in which they have been declared, which is part of sequences."""
        return [*(Events(topic) for topic in self.cloud_events), *self.events]


def check(service: ms.Service[Config], config: Config) -> None:
    """Raises ServiceError, with one line for each mistake."""
    if config == Config():
        service.refuse_start(
            "expected topics, found no configuration.", "give --config FILE with [delivery] and cloud_events."
        )
        return
    wrong = [(f"service {service.name!r}: {problem}.", f"{do}.") for problem, do in mistakes(config)]
    if wrong:
        *before, (problem, do) = wrong
        raise ServiceError("\n".join([*(f"{p} Do: {d}" for p, d in before), problem]), do)


def mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Yields what is wrong, and what to do."""
    inputs = config.inputs()
    if not inputs:
        yield "expected topics of events, found none", "give cloud_events or events"
    names = [events.topic for events in inputs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"topic {name!r} is given twice", "give it once, in cloud_events or in events"
    for events in inputs:
        for attribute in fields(events)[1:]:
            place = getattr(events, attribute.name)
            if place and not _FIELD.fullmatch(place.removeprefix(HEADER)):
                yield (
                    f"topic {events.topic!r}: {attribute.name} is {place!r}",
                    "give header:NAME, or the path of a field",
                )
    if config.delivery_partitions < 1:
        yield f"delivery_partitions is {config.delivery_partitions}", "give 1 or more"
    if not 0 < config.duplicate_retention_ms <= MAX_RETENTION_MS:
        yield f"duplicate_retention is {config.duplicate_retention_ms} ms", "give a duration above 0, at most 30d"
    if not 0 <= config.why_retention_ms <= MAX_RETENTION_MS:
        yield f"why_retention is {config.why_retention_ms} ms", "give 0, or a duration of at most 30d"

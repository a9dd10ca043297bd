"""What a job's metrics say, from two pages of its endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from moneystate.console.alert_forms import Labels

OWN: Final = "moneystate_"
JOB: Final = OWN + "job_"
PHASES: Final = ("plan", "source", "operator", "sink", "commit", "checkpoint")


@dataclass(frozen=True)
class Place:
    topic: str
    partition: int


@dataclass(frozen=True)
class Figures:
    """The figures of one job. None: not known yet. Rates and durations are those between two looks, times are
    seconds."""

    service: str
    endpoint: str
    is_ready: bool
    watermark_lag_s: float | None
    standing_s: float
    held_by: Place | None
    idle: Sequence[Place]
    partitions: int
    input_lags_s: Mapping[str, float]
    records_a_second: float | None
    outputs_a_second: float | None
    batch_s: float | None
    phases_s: Mapping[str, float]
    buffered: int
    oldest_wait_s: float
    state_bytes: int


@dataclass(frozen=True)
class Page:
    """A page of metrics, as of `taken_s` of a clock that only goes forward."""

    taken_s: float
    samples: Mapping[tuple[str, Labels], float] = field(default_factory=dict)

    def services(self) -> list[str]:
        """Returns the services whose job it is about."""
        given = (dict(labels) for name, labels in self.samples if name.startswith(JOB))
        return sorted({its["service"] for its in given if "service" in its})

    def of_service(self, name: str, service: str) -> Iterable[tuple[dict[str, str], float]]:
        for (one, labels), value in self.samples.items():
            if one == JOB + name and dict(labels).get("service") == service:
                yield dict(labels), value

    def value(self, name: str, service: str, **more: str) -> float | None:
        values = [its for labels, its in self.of_service(name, service) if more.items() <= labels.items()]
        return sum(values) if values else None


def page_of(text: str, taken_s: float) -> Page:
    """Raises ValueError for a text that is no page of metrics."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(OWN):
                samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return Page(taken_s, samples)


def figures_of(endpoint: str, before: Page | None, now: Page) -> list[Figures]:
    return [_figures(endpoint, service, before, now) for service in now.services()]


def _figures(endpoint: str, service: str, before: Page | None, now: Page) -> Figures:
    held = [Place(its["topic"], int(its["partition"])) for its, _ in now.of_service("watermark_held_by", service)]
    partitions = [
        (Place(its["topic"], int(its["partition"])), quiet) for its, quiet in now.of_service("partition_idle", service)
    ]
    return Figures(
        service=service,
        endpoint=endpoint,
        is_ready=now.value("ready", service) == 1,
        watermark_lag_s=now.value("watermark_lag_seconds", service),
        standing_s=now.value("watermark_standing_seconds", service) or 0.0,
        held_by=held[0] if held else None,
        idle=sorted((place for place, quiet in partitions if quiet), key=lambda one: (one.topic, one.partition)),
        partitions=len(partitions),
        input_lags_s={its["topic"]: lag for its, lag in now.of_service("input_watermark_lag_seconds", service)},
        records_a_second=_rate("records_total", service, before, now),
        outputs_a_second=_rate("outputs_total", service, before, now),
        batch_s=_mean("batch_seconds", service, before, now),
        phases_s=_phases(service, before, now),
        buffered=int(now.value("buffered", service) or 0),
        oldest_wait_s=now.value("oldest_wait_seconds", service) or 0.0,
        state_bytes=int(now.value("state_bytes", service) or 0),
    )


def _grown(name: str, service: str, before: Page | None, now: Page, **more: str) -> float | None:
    """Returns how much a counter has grown. None: not known, or the job has begun again."""
    earlier = None if before is None else before.value(name, service, **more)
    later = now.value(name, service, **more)
    if earlier is None or later is None or later < earlier:
        return None
    return later - earlier


def _rate(name: str, service: str, before: Page | None, now: Page) -> float | None:
    grown = _grown(name, service, before, now)
    return None if grown is None or before is None else grown / max(now.taken_s - before.taken_s, 0.001)


def _mean(name: str, service: str, before: Page | None, now: Page, **more: str) -> float | None:
    """Returns the mean of the observations between two pages; without any, of those since the job began."""
    count, total = (_grown(f"{name}_{part}", service, before, now, **more) for part in ("count", "sum"))
    if not count:
        count, total = (now.value(f"{name}_{part}", service, **more) for part in ("count", "sum"))
    return total / count if count and total is not None else None


def _phases(service: str, before: Page | None, now: Page) -> dict[str, float]:
    means = {phase: _mean("phase_seconds", service, before, now, phase=phase) for phase in PHASES}
    return {phase: seconds for phase, seconds in means.items() if seconds is not None}


def why_held(its: Figures, unread: Mapping[tuple[str, int], int]) -> str:
    """Returns why the watermark is not further, in one sentence. `unread`: records that the job has not read, by topic
    and partition. Empty: nothing holds it back."""
    if its.held_by is None:
        if its.partitions and len(its.idle) == its.partitions:
            return "All partitions are idle: without records or heartbeats the watermark stands."
        return ""
    place = f"{its.held_by.topic}/{its.held_by.partition}"
    waiting = unread.get((its.held_by.topic, its.held_by.partition), 0)
    if waiting:
        return f"{place} holds it back: {waiting:,} of its records are not read yet."
    if its.standing_s > 0:
        return f"{place} holds it back: it has no later record and no heartbeat, while others have."
    own = its.input_lags_s.get(its.held_by.topic)
    others = [lag for topic, lag in its.input_lags_s.items() if topic != its.held_by.topic]
    if own is not None and others and own > max(others) + 1.0:
        return f"{place} holds it back: the topic is {own - max(others):,.0f} s behind the others."
    return f"{place} has the earliest newest event."

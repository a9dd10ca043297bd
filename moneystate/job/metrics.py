"""A job's Prometheus metrics, made of the figures that each batch reports to the driver."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moneystate.engine.deadletter import COUNT_PREFIX, REASONS
from moneystate.engine.inputs import parse_place
from moneystate.job.health import JobHealth
from moneystate.job.observer import Trigger
from moneystate.job.progress import BatchProgress
from moneystate.ports.service import JobSpec

PREFIX = "moneystate_job_"
LATE, DUPLICATES = "late", "duplicates"
# a batch takes at least 0.2 s; one of a transaction's timeout ends the job
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
# Spark's durations of a batch, by the phase that they are a part of
SPARKS = {"latestOffset": "plan", "walCommit": "checkpoint", "commitOffsets": "checkpoint"}


class JobMetrics(Collector):
    """`batch` is called after each batch, `trigger` with Spark's durations of it.

    Counters are of this run, but for those that the checkpoint keeps.
    """

    def __init__(self, spec: JobSpec, health: JobHealth, clock: Callable[[], float] = time.time) -> None:
        self.spec = spec
        self.health = health
        self.clock = clock  # seconds since the epoch
        self.last: BatchProgress | None = None
        self.registry = r = CollectorRegistry()
        self.batches = Counter(f"{PREFIX}batches", "Finished batches.", registry=r)
        self.records = Counter(f"{PREFIX}records", "Records read.", ["topic"], registry=r)
        self.outputs = Counter(f"{PREFIX}outputs", "Records written to output topics.", registry=r)
        self.changes = Counter(f"{PREFIX}state_changes", "Entries of state written to the changelog.", registry=r)
        self.producers = Counter(
            f"{PREFIX}producers_restarted", "Transactional producers started after the first batch.", registry=r
        )
        self.seconds = Histogram(f"{PREFIX}batch_seconds", "Time of a whole batch.", buckets=SECONDS, registry=r)
        self.phases = Histogram(
            f"{PREFIX}phase_seconds", "Time of a batch's phase in its slowest task.", ["phase"], buckets=SECONDS,
            registry=r,
        )  # fmt: skip
        self.lineage_events = Counter(f"{PREFIX}lineage_events", "Events of OpenLineage.", ["result"], registry=r)
        self.spans = Counter(f"{PREFIX}spans", "Spans of OpenTelemetry.", ["result"], registry=r)
        for topic in spec.inputs:
            self.records.labels(topic.name)

    def batch(self, p: BatchProgress) -> None:
        f, is_first = p.figures, self.last is None
        self.last = p
        self.batches.inc()
        for i in p.inputs:
            self.records.labels(i.topic).inc(i.records)
        self.outputs.inc(p.outputs)
        self.changes.inc(p.changes)
        self.producers.inc(0 if is_first else f.producers)
        for phase, seconds in (
            ("source", f.source_s), ("operator", f.operator_s), ("sink", f.sink_s), ("commit", f.commit_s),
        ):  # fmt: skip
            self.phases.labels(phase).observe(seconds)

    def trigger(self, trigger: Trigger) -> None:
        durations_ms = trigger.durations_ms
        phases: defaultdict[str, float] = defaultdict(float)
        for name, phase in SPARKS.items():
            phases[phase] += durations_ms.get(name, 0) / 1000
        for phase, seconds in phases.items():
            self.phases.labels(phase).observe(seconds)
        self.seconds.observe(durations_ms["triggerExecution"] / 1000)

    def collect(self) -> Iterable[Metric]:
        yield from self.registry.collect()
        yield _gauge("ready", "1: as /readyz says.", self.health.ready().is_good)
        yield _gauge("batch_running_seconds", "How long the current batch has run.", self.health.batch_running_s())
        standing = "For how long records have arrived without moving the watermark."
        yield _gauge("watermark_standing_seconds", standing, self.health.standing_s())
        p = self.last
        if p is None:
            return
        yield from self._watermarks(p)
        yield from self._counts(p)
        yield from self._sizes(p)

    def _watermarks(self, p: BatchProgress) -> Iterable[Metric]:
        yield _gauge("batch", "Number of the last finished batch.", p.batch)
        yield from self._time("watermark", "Event time that the watermark has reached.", [], {(): p.watermark_ms})
        inputs: dict[tuple[str, ...], int | None] = {(i.topic,): i.watermark_ms for i in p.inputs}
        yield from self._time("input_watermark", "The same of one input alone.", ["topic"], inputs)
        held = _family("watermark_held_by", "1 for the partition that holds the watermark back.", "topic", "partition")
        if p.held_by is not None:
            topic, number = parse_place(p.held_by)
            held.add_metric([topic, str(number)], 1)
        yield held
        idle = _family("partition_idle", "1: does not hold the watermark back.", "topic", "partition")
        for i in p.inputs:
            for (topic, number), quiet in i.partitions.items():
                idle.add_metric([topic, str(number)], quiet)
        yield idle

    def _time(
        self, name: str, help: str, labels: list[str], by_labels: Mapping[tuple[str, ...], int | None]
    ) -> Iterable[Metric]:
        reached = _family(f"{name}_seconds", help, *labels)
        lag = _family(f"{name}_lag_seconds", "How far it is behind the wall clock.", *labels)
        now = self.clock()
        for values, ms in by_labels.items():
            if ms is not None:
                reached.add_metric(values, ms / 1000)
                lag.add_metric(values, now - ms / 1000)
        yield from (reached, lag)

    def _counts(self, p: BatchProgress) -> Iterable[Metric]:
        yield CounterMetricFamily(f"{PREFIX}late", "Late records since the checkpoint began.", p.count(LATE))
        yield CounterMetricFamily(f"{PREFIX}duplicates", "Duplicates since then.", p.count(DUPLICATES))
        letters = CounterMetricFamily(f"{PREFIX}dead_letters", "Dead letters since then.", labels=["reason"])
        for reason, n in {**dict.fromkeys(REASONS, 0), **p.dead_letters()}.items():
            letters.add_metric([reason], n)
        yield letters
        counts = _family("counter", "The service's own counters, levels such as `waiting` among them.", "name")
        for name, n in {**dict.fromkeys(self.spec.counters, 0), **p.counts}.items():
            if name not in (LATE, DUPLICATES) and not name.startswith(COUNT_PREFIX):
                counts.add_metric([name], n)
        yield counts

    def _sizes(self, p: BatchProgress) -> Iterable[Metric]:
        yield _gauge("buffered", "Events that the watermark has not passed.", p.buffered)
        pending = _family("pending", "Records that wait for a reply.")
        if self.spec.pending_counter is not None:
            pending.add_metric([], p.count(self.spec.pending_counter))
        yield pending
        yield _gauge(
            "oldest_wait_seconds", "How long the oldest waiting event waits, in event time.",
            (p.oldest_wait_ms or 0) / 1000,
        )  # fmt: skip
        yield _gauge("state_bytes", "Size of the state in Spark's state store.", p.figures.state_bytes)
        memory = _family("worker_memory_bytes", "Resident memory of Spark's Python processes.", "host")
        by_host: defaultdict[str, int] = defaultdict(int)
        for daemon, n in p.figures.memory_bytes.items():
            by_host[daemon.partition(" ")[0]] += n
        for host, n in by_host.items():
            memory.add_metric([host], n)
        yield memory


def _family(name: str, help: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, help, labels=labels)


def _gauge(name: str, help: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, help, value)

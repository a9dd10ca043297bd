"""A world that has metrics, minute by minute, and what goes wrong in it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from moneystate.engine.deadletter import COUNT_PREFIX
from moneystate.job.health import JobHealth
from moneystate.job.metrics import JobMetrics
from moneystate.job.observer import Trigger
from moneystate.job.progress import BatchProgress, InputProgress
from moneystate.lookup.breaker import State
from moneystate.lookup.metrics import Metrics as LookupMetrics
from moneystate.lookup.wire import Outcome
from moneystate.monitoring import Labelled
from moneystate.replica.model import Status
from moneystate.serving import metrics as serving
from moneystate.serving.status_service import gauge
from tests.enrichment.jobs import Rules, enrichment_job
from tests.ops import edges, rules

MINUTES = 31  # more than the longest range of a rule
TOPIC = "wallet-events"
A_MINUTE = 100  # records, replies and queries


@dataclass
class World:
    """A job, a lookup worker, a query server and what brings records, minute by minute.

    The fields are what happens in each minute.
    """

    up: int = 1
    started: bool = True
    watermark_moves: bool = True
    lag_s: float = 5.0
    batch_ends: bool = True
    batch_s: float = 1.0
    dead_letters: int = 0
    late: int = 0
    producers: int = 0
    breaker: State = State.CLOSED
    oldest_s: float = 1.0
    failed: int = 0
    aborted: int = 0
    undecodable: int = 0
    caught_up: bool = True
    behind_s: float = 0.0
    refused: int = 0  # queries that end as UNAVAILABLE
    query_s: float = 0.002
    load_fails: bool = False
    reaches_kafka: bool = True
    not_taken: int = 0  # requests to the ingest server that end as QUEUE_FULL
    ingest_s: float = 0.004
    deliveries_behind_s: float = 0.5
    connections_scarce: bool = False
    dead: int = 0
    deliveries_aborted: int = 0

    minute: int = 0
    now_s: float = 1_000_000.0
    series: dict[str, list[float | None]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        spec = enrichment_job(Rules())
        self.health = JobHealth(spec.name, lambda: self.now_s)
        self.job = JobMetrics(spec, self.health, lambda: self.now_s)
        self.lookup, self.replica = LookupMetrics(), serving.Metrics()
        self.lookup.watch(lambda: 1, lambda: self.oldest_s)
        self.table, self.ingest = edges.Table(lambda: self.now_s, rules.STEP_S), edges.Ingest()
        self.deliver = edges.Deliver()
        self.counts: defaultdict[str, int] = defaultdict(int)

    def live(self, minutes: int) -> rules.Series:
        """The series, longer by these minutes."""
        for _ in range(minutes):
            self.now_s += rules.STEP_S
            if self.started:
                self.health.started()
                self._batch()
            self._lookups()
            self._queries()
            self.table.fails, self.ingest.reaches_kafka = self.load_fails, self.reaches_kafka
            self.table.minute()
            self.ingest.minute(A_MINUTE, self.not_taken, self.ingest_s)
            self.deliver.behind_s, self.deliver.is_scarce = self.deliveries_behind_s, self.connections_scarce
            self.deliver.minute(A_MINUTE, self.dead, self.deliveries_aborted)
            self._scrape()
            self.minute += 1
        return self.series

    def heal(self, fault: Iterable[str]) -> None:
        """These fields are as in a healthy world again."""
        for name in fault:
            setattr(self, name, getattr(World, name))

    def _batch(self) -> None:
        if self.health.running is None:
            self.health.begin(self.minute)
        if self.minute and not self.batch_ends:
            return
        seconds = max(self.batch_s, self.health.batch_running_s())
        self.counts["late"] += self.late
        self.counts[f"{COUNT_PREFIX}malformed"] += self.dead_letters
        moved_s = self.now_s if self.watermark_moves else 1_000_000.0
        progress = BatchProgress(
            self.minute, A_MINUTE, 1.0, A_MINUTE, int((moved_s - self.lag_s) * 1000), False, 0, dict(self.counts),
            held_by=f"{TOPIC}/0", inputs=[InputProgress(TOPIC, A_MINUTE, {(TOPIC, 0): False})],
        )  # fmt: skip
        progress.figures.producers = self.producers
        self.health.end(progress)
        self.job.batch(progress)
        self.job.trigger(Trigger(self.minute, 0, {"addBatch": 1, "triggerExecution": int(seconds * 1000)}))

    def _lookups(self) -> None:
        self.lookup.set_breaker(self.breaker)
        for outcome, n in ((Outcome.FOUND, A_MINUTE - self.failed), (Outcome.FAILED, self.failed)):
            for _ in range(n):
                self.lookup.replied(outcome)
        self.lookup.transactions.labels("committed").inc()
        self.lookup.transactions.labels("aborted").inc(self.aborted)
        self.lookup.undecodable.inc(self.undecodable)

    def _queries(self) -> None:
        as_of_ms = int((time.time() - self.behind_s) * 1000)
        gauge(self.replica, Status(None, self.caught_up, None, 0, as_of_ms, 7, (), 1_000, 8))
        self.replica.calls.labels("Query.GetUser", "OK").inc(A_MINUTE)
        self.replica.calls.labels("Query.GetUser", "UNAVAILABLE").inc(self.refused)
        self.replica.seconds.labels("Query.GetUser").observe(self.query_s)

    def _scrape(self) -> None:
        collectors: dict[str, Collector] = {
            "job": self.job,
            "lookup": self.lookup.registry,
            "replica": self.replica.registry,
            "table": self.table.metrics,
            "ingest": self.ingest.metrics,
            "deliver": self.deliver.metrics.registry,
        }
        for command, collector in collectors.items():
            place = {"job": f"moneystate-{command}", "instance": command}
            for sample in samples(Labelled({"money-enrichment": collector})):
                self._add(rules.name_of(sample, **place), sample.value)
        self._add('up{instance="job",job="moneystate-job"}', self.up)

    def _add(self, name: str, value: float) -> None:
        values = self.series[name]
        values += [None] * (self.minute - len(values))  # the minutes without it
        values.append(value)


def samples(collector: Collector) -> list[Sample]:
    """Those of its page, without writing and reading one, which would take most of the time."""
    return [sample for metric in collector.collect() for sample in metric.samples]


# What goes wrong, and the alerts that it makes fire.
FAULTS: list[tuple[dict[str, Any], set[str]]] = [
    ({"up": 0}, {"MoneystateDown"}),
    ({"started": False}, {"MoneystateJobNotReady"}),
    ({"watermark_moves": False}, {"MoneystateWatermarkStands", "MoneystateJobNotReady", "MoneystateWatermarkLags"}),
    ({"lag_s": 1_000}, {"MoneystateWatermarkLags"}),
    ({"batch_ends": False}, {"MoneystateBatchHangs", "MoneystateJobNotReady", "MoneystateWatermarkLags"}),
    ({"batch_s": 40}, {"MoneystateBatchesSlow"}),
    ({"dead_letters": 2}, {"MoneystateDeadLetters"}),
    ({"late": 6}, {"MoneystateLateRecords"}),
    ({"producers": 1}, {"MoneystateProducersRestart"}),
    ({"breaker": State.OPEN, "oldest_s": 900}, {"MoneystateLookupServiceDown"}),
    ({"breaker": State.HALF_OPEN, "oldest_s": 900}, {"MoneystateLookupServiceDown"}),
    ({"oldest_s": 121}, {"MoneystateLookupsWait"}),
    ({"failed": 6}, {"MoneystateLookupsFail"}),
    ({"aborted": 1}, {"MoneystateLookupTransactionsAbort"}),
    ({"undecodable": 1}, {"MoneystateLookupRequestsUndecodable"}),
    ({"caught_up": False}, {"MoneystateReplicaNotCaughtUp"}),
    ({"behind_s": 61}, {"MoneystateReplicaLags"}),
    ({"refused": 2}, {"MoneystateQueriesFail"}),
    ({"query_s": 0.9}, {"MoneystateQueriesSlow"}),
    ({"load_fails": True}, {"MoneystateTableNotLoaded"}),
    ({"reaches_kafka": False, "not_taken": A_MINUTE}, {"MoneystateIngestWithoutKafka"}),
    ({"not_taken": 2}, {"MoneystateIngestRefuses"}),
    ({"ingest_s": 0.9}, {"MoneystateIngestSlow"}),
    ({"deliveries_behind_s": 90}, {"MoneystateDeliveriesBehind"}),
    ({"dead": 6}, {"MoneystateDeliveriesUndelivered"}),
    ({"connections_scarce": True}, {"MoneystateDeliveryConnectionsScarce"}),
    ({"deliveries_aborted": 1}, {"MoneystateDeliveryTransactionsAbort"}),
]  # fmt: skip
# Some of it is normal: below each threshold nothing fires.
NORMAL: list[dict[str, Any]] = [
    {"dead_letters": 1, "late": 5, "failed": 5, "refused": 1, "not_taken": 1, "dead": 5},
    {
        "lag_s": 800,
        "oldest_s": 100,
        "behind_s": 50,
        "batch_s": 9,
        "query_s": 0.09,
        "ingest_s": 0.09,
        "deliveries_behind_s": 50,
    },
]

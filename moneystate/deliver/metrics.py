"""The metrics of a worker, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moneystate.deliver.attempts import Answer
from moneystate.deliver.outcomes import Outcome

PREFIX: Final = "moneystate_deliver_"
SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Standing:
    """What a worker has at the moment. `stopped`: endpoints whose breakers are not closed."""

    partitions: int
    pending: int
    in_flight: int
    stopped: int


class Metrics(Collector):
    """Endpoints are no labels, as there may be thousands."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self.standing = standing
        self.registry = r = CollectorRegistry()
        r.register(self)
        self.attempts = Counter(f"{PREFIX}attempts", "Attempts, by their status or `none`.", ["status"], registry=r)
        self.seconds = Histogram(f"{PREFIX}attempt_seconds", "Time of an attempt.", buckets=SECONDS, registry=r)
        self.outcomes = Counter(f"{PREFIX}outcomes", "Committed outcomes of messages.", ["outcome"], registry=r)
        self.transactions = Counter(f"{PREFIX}transactions", "Transactions, by their end.", ["end"], registry=r)
        for outcome in Outcome:
            self.outcomes.labels(outcome.value)

    def attempted(self, answer: Answer) -> None:
        self.attempts.labels("none" if answer.status is None else str(answer.status)).inc()
        self.seconds.observe(answer.took_ms / 1_000)

    def collect(self) -> Iterable[Metric]:
        its = self.standing()
        yield GaugeMetricFamily(f"{PREFIX}partitions", "Partitions of deliveries of this worker.", its.partitions)
        yield GaugeMetricFamily(f"{PREFIX}pending", "Messages, and deliveries that wait for a batch.", its.pending)
        yield GaugeMetricFamily(f"{PREFIX}in_flight", "Requests that are under way.", its.in_flight)
        yield GaugeMetricFamily(
            f"{PREFIX}endpoints_stopped", "Endpoints with an open or disabled breaker.", its.stopped
        )

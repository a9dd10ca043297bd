"""The metrics of a worker, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moneystate.deliver.attempts import Answer
from moneystate.deliver.outcomes import Outcome

PREFIX: Final = "moneystate_deliver_"
WORST: Final = 20
SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Standing:
    """What a worker has at the moment. `stopped`: endpoints whose breakers are not closed; `behind_s`: how long ago the
    router wrote the first delivery that this worker has read and not taken yet; `worst`: the endpoints with the most
    that is pending."""

    partitions: int
    pending: int
    in_flight: int
    stopped: int
    connections: int
    is_scarce: bool
    behind_s: float = 0.0
    worst: Sequence[tuple[str, int]] = ()


class Metrics(Collector):
    """Only the worst endpoints are labels, as there may be thousands."""

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
        yield GaugeMetricFamily(f"{PREFIX}connections", "Connections that are held.", its.connections)
        yield GaugeMetricFamily(f"{PREFIX}connections_scarce", "1: half of them or more are held.", its.is_scarce)
        yield GaugeMetricFamily(
            f"{PREFIX}behind_seconds", "Age of the first delivery that was read and not taken.", its.behind_s
        )
        worst = GaugeMetricFamily(
            f"{PREFIX}endpoint_pending", f"Pending of the {WORST} endpoints with the most.", labels=["endpoint"]
        )
        for endpoint_id, pending in its.worst:
            worst.add_metric([endpoint_id], pending)
        yield worst


def request_counter() -> Counter:
    """Returns the counter of the interface, which is not registered yet."""
    name, help = f"{PREFIX}interface_requests", "Requests to the interface, by their status or error."
    return Counter(name, help, ["request", "code"], registry=None)

"""Prometheus metrics of `moneystate ingest`.

Requests only add to plain numbers: prometheus_client's own counters take a lock for each, and took a twentieth of a
request's time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

PREFIX: Final = "moneystate_ingest_"
LATENCY_BUCKETS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics(Collector):
    """Holds what the event loop counts. Another thread collects it."""

    def __init__(self) -> None:
        self.sockets = 0  # that are open
        self._requests: dict[tuple[str, str], int] = {}
        self._records: dict[str, int] = {}
        self._latencies = [0] * (len(LATENCY_BUCKETS_S) + 1)
        self._seconds = 0.0
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self.watch("websockets_open", "WebSockets that are open.", lambda: self.sockets)

    def request(self, topic: str, code: str) -> None:
        """`topic`: empty if it is not one of this command's. `code`: of the refusal, or the status of an answer."""
        self._requests[topic, code] = self._requests.get((topic, code), 0) + 1

    def written(self, topic: str, records: int, seconds: float) -> None:
        self._records[topic] = self._records.get(topic, 0) + records
        self._latencies[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1
        self._seconds += seconds

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        self._gauges.append((name, help, value))

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(f"{PREFIX}requests", "Requests that were answered.", labels=["topic", "code"])
        for labels, count in self._requests.copy().items():
            requests.add_metric(labels, count)
        records = CounterMetricFamily(f"{PREFIX}records", "Records that are in the log, as answered.", labels=["topic"])
        for topic, count in self._records.copy().items():
            records.add_metric([topic], count)
        yield requests
        yield records
        bounds = [*map(str, LATENCY_BUCKETS_S), "+Inf"]
        yield HistogramMetricFamily(
            f"{PREFIX}request_seconds",
            "Time until requests were answered with success.",
            buckets=list(zip(bounds, accumulate(self._latencies), strict=True)),
            sum_value=self._seconds,
        )
        for name, help, value in self._gauges:
            yield GaugeMetricFamily(PREFIX + name, help, value=value())

"""Prometheus metrics of `moneystate ingest`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "moneystate_ingest_"
LATENCY_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}requests", "Requests that were answered.", ["topic", "code"], registry=self.registry
        )
        self._records = Counter(
            f"{PREFIX}records", "Records that are in the log, as answered.", ["topic"], registry=self.registry
        )
        self._seconds = Histogram(
            f"{PREFIX}request_seconds",
            "Time until requests were answered with success.",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.sockets = Gauge(f"{PREFIX}websockets_open", "WebSockets that are open.", registry=self.registry)
        self._children: dict[tuple[str, str], Counter] = {}
        self._records_of: dict[str, Counter] = {}

    def request(self, topic: str, code: str) -> None:
        """`topic`: empty if it is not one of this command's. `code`: of the refusal, or the status of an answer."""
        child = self._children.get((topic, code))
        if child is None:
            child = self._children[topic, code] = self._requests.labels(topic, code)
        child.inc()

    def written(self, topic: str, records: int, seconds: float) -> None:
        child = self._records_of.get(topic)
        if child is None:
            child = self._records_of[topic] = self._records.labels(topic)
        child.inc(records)
        self._seconds.observe(seconds)

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(f"{PREFIX}{name}", help, registry=self.registry).set_function(value)

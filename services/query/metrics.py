"""Prometheus metrics of a query server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# around the promise of 10 ms, and out to scans
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter(
            "moneystate_query_calls", "Calls that have ended.", ["method", "code"], registry=self.registry
        )
        self.seconds = Histogram(
            "moneystate_query_seconds",
            "Time that unary calls took in the server.",
            ["method"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.streams = Gauge("moneystate_query_streams_open", "Watch streams.", registry=self.registry)
        self.lag_records = Gauge(
            "moneystate_replica_lag_records", "Committed records of the changelog not read yet.", registry=self.registry
        )
        self.lag_seconds = Gauge(
            "moneystate_replica_lag_seconds", "Since the replica last had all there is.", registry=self.registry
        )
        self.batch = Gauge(
            "moneystate_replica_version_batch", "Batch of the newest whole version.", registry=self.registry
        )
        self.watermark_seconds = Gauge(
            "moneystate_replica_watermark_seconds", "Watermark of the newest whole version.", registry=self.registry
        )
        self.caught_up = Gauge("moneystate_replica_caught_up", "1: answers queries.", registry=self.registry)
        self.database_bytes = Gauge("moneystate_replica_database_bytes", "Size of its files.", registry=self.registry)

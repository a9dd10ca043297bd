"""Prometheus metrics of a query server.

Several processes serve one replica: each writes its values to files in the folder that PROMETHEUS_MULTIPROC_DIR names
(it must be set before prometheus_client is imported), and one of them reports the values of all.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess
from prometheus_client.metrics_core import Metric

from moneystate.monitoring import PULSE_S, Health

# around the target of 10 ms, and up to scans
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


CAUGHT_UP, LAG_RECORDS = "moneystate_replica_caught_up", "moneystate_replica_lag_records"
REPORTED = "moneystate_replica_reported_seconds"


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter(
            "moneystate_query_calls", "Calls that have ended.", ["method", "code"], registry=self.registry
        )
        self.unreadable = Counter(
            "moneystate_query_unreadable_records",
            "Records that were answered without their content, because it cannot be decoded or represented.",
            registry=self.registry,
        )
        self.seconds = Histogram(
            "moneystate_query_seconds",
            "Time that unary calls took in the server.",
            ["method"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.streams = Gauge(
            "moneystate_query_streams_open", "Watch streams.", multiprocess_mode="livesum", registry=self.registry
        )
        self.spans = Counter("moneystate_query_spans", "Spans of OpenTelemetry.", ["result"], registry=self.registry)
        self.lag_records = Gauge(
            LAG_RECORDS,
            "Committed records of the changelog not read yet.",
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.lag_seconds = Gauge(
            "moneystate_replica_lag_seconds",
            "Time since the replica was last up to date.",
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.batch = Gauge(
            "moneystate_replica_version_batch",
            "Batch of the newest complete version.",
            multiprocess_mode="livemin",
            registry=self.registry,
        )
        self.watermark_seconds = Gauge(
            "moneystate_replica_watermark_seconds",
            "Watermark of the newest complete version.",
            multiprocess_mode="livemin",
            registry=self.registry,
        )
        self.caught_up = Gauge(CAUGHT_UP, "1: answers queries.", multiprocess_mode="livemin", registry=self.registry)
        self.reported = Gauge(
            REPORTED, "When the slowest worker last reported.", multiprocess_mode="livemin", registry=self.registry
        )
        self.database_bytes = Gauge(
            "moneystate_replica_database_bytes",
            "Size of its files.",
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.keys = Gauge(
            "moneystate_replica_keys",
            "Keys with state at the newest version.",
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.entries = Gauge(
            "moneystate_replica_entries",
            "Entries of state by kind, at the newest version.",
            ["kind"],
            multiprocess_mode="livemax",
            registry=self.registry,
        )


def of_all_processes(folder: str) -> CollectorRegistry:
    """The values of all processes that write to `folder`."""
    registry = CollectorRegistry()
    _AllProcesses(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


class _AllProcesses(multiprocess.MultiProcessCollector):
    def collect(self) -> Iterable[Metric]:
        """Nothing while a process that starts has a file and has not written its length yet."""
        try:
            metrics: Iterable[Metric] = super().collect()  # type: ignore[no-untyped-call]
        except struct.error:
            return []
        return metrics


def live(all_processes: CollectorRegistry) -> Health:
    """Whether each worker still reports."""
    reported_s = all_processes.get_sample_value(REPORTED)
    silent_s = 0.0 if reported_s is None else time.time() - reported_s
    return Health(silent_s <= PULSE_S, "alive" if silent_s <= PULSE_S else f"a worker is silent for {silent_s:.0f} s")


def ready(all_processes: CollectorRegistry) -> Health:
    """Whether all workers answer queries."""
    if all_processes.get_sample_value(CAUGHT_UP) == 1:
        return Health(True, "ready")
    lag = all_processes.get_sample_value(LAG_RECORDS) or 0
    return Health(False, f"not caught up: {lag:.0f} records of the changelog are not read yet")

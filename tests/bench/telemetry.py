"""What lineage and traces cost: processor time of the job's driver in Python for each batch, with and without them.

The same job runs by turns without both, with each and with both, against a receiver on loopback. A trickle of
heartbeats lets batch follow batch. Its JVM and workers are left out: they do the same work in all runs, and their
noise hides the difference.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.job.checkpoint import Checkpoint
from tests.bench.backlog import create_topics
from tests.bench.latency import LOW_LATENCY, SESSION, USER, WALLET
from tests.bench.running import running_job
from tests.reference.model import encode
from tests.telemetry.receivers import Receiver
from tests.waiting import until

BEAT_S = 0.02
START_S = 120.0
LINEAGE = ("--openlineage", "--openlineage-interval")
RUNS: Mapping[str, list[str]] = {
    "off": [],
    "traces": ["--traces"],
    "lineage, 1m": [*LINEAGE, "1m"],
    "lineage, each batch": [*LINEAGE, "0s"],
    "both": ["--traces", *LINEAGE, "1m"],
}


@contextmanager
def beating(servers: str, prefix: str) -> Iterator[None]:
    """A heartbeat in each partition, again and again."""
    producer, over = Producer({"bootstrap.servers": servers}), threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            value = encode("Heartbeat", {"processedAt": time.time_ns() // 1_000_000})
            for topic in (WALLET, SESSION, USER):
                producer.produce(prefix + topic, value, partition=0)
            producer.poll(0)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(10)


def driver_ms(servers: str, prefix: str, flags: list[str], seconds: float) -> tuple[float, int]:
    """Processor time for each batch, and the number of batches."""
    create_topics(servers, [prefix + topic for topic in (WALLET, SESSION, USER)], 1)
    with tempfile.TemporaryDirectory(prefix="bench-telemetry-") as folder, beating(servers, prefix):
        checkpoint = Path(folder) / "checkpoint"
        with running_job(servers, prefix, checkpoint, [*LOW_LATENCY, *flags]) as (_, process):
            batches, driver = Checkpoint(str(checkpoint)), psutil.Process(process.pid)
            until(lambda: (checkpoint / "commits" / "20").exists(), lambda: "no batches", START_S)
            first, before = batches.last_committed(), driver.cpu_times()
            time.sleep(seconds)
            last, after = batches.last_committed(), driver.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return cpu_s * 1000 / (last - first), last - first


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--seconds", type=float, default=40.0, help="of each run")
    p.add_argument("--runs", type=int, default=3, help="of each kind, by turns")
    a = p.parse_args(arguments)
    measured: dict[str, list[tuple[float, int]]] = {name: [] for name in RUNS}
    with (
        tempfile.TemporaryDirectory(prefix="bench-broker-") as folder,
        DevBroker(Path(folder), heap="1g") as broker,
        Receiver() as receiver,
    ):
        os.environ.update({"OPENLINEAGE_URL": receiver.url, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
        for turn in range(a.runs):
            for number, (name, flags) in enumerate(RUNS.items()):
                prefix = f"b{turn}{number}-"
                measured[name].append(driver_ms(broker.bootstrap_servers, prefix, flags, a.seconds))
    off = statistics.median(ms for ms, _ in measured["off"])
    table = Table("", "batches", "driver ms/batch, median", "least", "most", "beyond off")
    for name, runs in measured.items():
        times = [ms for ms, _ in runs]
        middle = statistics.median(times)
        batches = sum(n for _, n in runs)
        table.add_row(name, f"{batches:,}", *(f"{ms:.1f}" for ms in (middle, min(times), max(times), middle - off)))
    Console(width=130).print(table)

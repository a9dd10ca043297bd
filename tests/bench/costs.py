"""`python -m tests.bench costs`: what an event costs, and what a rate of events needs by that.

Two backlogs of different sizes. The costs are those of the events that one has more than the other, so that Spark's
start is not in them. docs/cluster.md has the formulas.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import COMMITS, INPUTS, run_job, send_workload
from tests.bench.tree import folder_mb
from tests.enrichment import topics

RATES = (50_000, 500_000, 5_000_000)  # events a second
USED = 0.6  # of the cores: the rest is for peaks, restarts and catching up
REPLICAS = 3
PARTITION_MB_S = 10.0  # that one partition of Kafka is given
CORES_OF_EXECUTOR, JVM_MB, PYTHON_MB, PYTHON_MB_OF_CORE = 4, 1024, 512, 256  # docs/cluster.md: memory of an executor
CORE_HOUR, GB_MONTH, HOURS = 0.05, 0.10, 730.0  # prices to put in one's own: of a core with 4 GB, and of a disk


class Cost(NamedTuple):
    """The cost of one event, or of all events of a run."""

    job_s: float  # of processor time
    broker_s: float
    input_mb: float  # on the broker's disk, one replica
    output_mb: float
    changelog_mb: float
    shuffle_mb: float

    def less(self, other: Cost) -> Cost:
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))

    def by(self, events: float) -> Cost:
        return Cost(*(part / events for part in self))


def run(broker: DevBroker, folder: Path, events: int, users: int) -> Cost:
    prefix, log = f"n{events}-", folder / f"log-{events}"
    log.mkdir()
    send_workload(broker.bootstrap_servers, prefix, events, users, "--flush-marker")
    settings = {"enabled": "true", "dir": log.as_uri(), "compress": "false", "rolling.enabled": "false"}
    flags = [part for name, value in settings.items() for part in ("--spark-config", f"spark.eventLog.{name}={value}")]
    before = _cpu_s(broker)
    result = run_job(broker.bootstrap_servers, prefix, ["--application-id", prefix.strip("-"), *flags])
    data = folder / "broker" / "data"

    def on_disk(names: list[str]) -> float:
        return sum(folder_mb(place) for name in names for place in data.glob(f"{prefix}{name}-*"))

    return Cost(
        result.cpu_s,
        _cpu_s(broker) - before,
        on_disk(INPUTS),
        on_disk(list(topics.STREAMS)),
        on_disk([topics.CHANGELOG, COMMITS]),
        sum(map(_shuffled_mb, log.iterdir())),
    )


def _cpu_s(broker: DevBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return times.user + times.system


def _shuffled_mb(log: Path) -> float:
    written = 0
    for line in log.read_text().splitlines():
        if '"SparkListenerTaskEnd"' in line:
            metrics = json.loads(line).get("Task Metrics") or {}
            written += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return written / 2**20


class Need(NamedTuple):
    """What a rate needs."""

    cores: int
    executors: int
    memory_gb: float
    broker_cores: int
    partitions: int
    network_mb_s: float  # of all brokers, in and out
    disk_gb_day: float  # of inputs and outputs, with replicas
    per_month: float


def need(rate: int, cost: Cost) -> Need:
    cores = math.ceil(rate * cost.job_s / USED)
    executors = math.ceil(cores / CORES_OF_EXECUTOR)
    memory_gb = executors * (JVM_MB + PYTHON_MB + PYTHON_MB_OF_CORE * CORES_OF_EXECUTOR) / 1024
    written = cost.input_mb + cost.output_mb + cost.changelog_mb
    # each replica is written and all but the leader's read from it; the job reads the inputs, one reader each the rest
    network = rate * written * (REPLICAS + REPLICAS - 1 + 1)
    # a follower's work is taken to be that of a leader
    broker_cores = math.ceil(rate * cost.broker_s * REPLICAS / USED)
    partitions = max(cores, math.ceil(rate * cost.input_mb / PARTITION_MB_S))
    disk = rate * (cost.input_mb + cost.output_mb) * 86_400 * REPLICAS / 1024
    month = (cores + broker_cores) * CORE_HOUR * HOURS + disk * GB_MONTH  # of one day of retention
    return Need(cores, executors, memory_gb, broker_cores, partitions, network, disk, month)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--events", type=int, nargs=2, default=(200_000, 800_000))
    parser.add_argument("--users", type=int, default=20_000)
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            small, large = (run(broker, folder, events, a.users) for events in sorted(a.events))
    cost = large.less(small).by(max(a.events) - min(a.events))
    console = Console(width=140)
    console.print(
        f"an event: {cost.job_s * 1e6:.1f} us of the job, {cost.broker_s * 1e6:.1f} us of the broker; bytes: "
        f"{_bytes(cost.input_mb)} inputs, {_bytes(cost.output_mb)} outputs, {_bytes(cost.changelog_mb)} changelog and "
        f"markers, {_bytes(cost.shuffle_mb)} shuffle"
    )
    table = Table("events/s", *Need._fields)
    for rate in RATES:
        table.add_row(f"{rate:,}", *(f"{part:,.0f}" for part in need(rate, cost)))
    console.print(table)


def _bytes(mb: float) -> str:
    return f"{mb * 2**20:.0f}"

"""Memory under a steady load: does it stay as it is? By default for an hour.

The load is the latency benchmark's, heartbeats included. Money ids are forgotten after `--dedup-ttl 5m`, so that state
is as large at the end as after five minutes: whatever grows then, grows for no reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
import uuid
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, create_topics, timestamps
from tests.bench.latency import BOUND_MS, LOW_LATENCY, SESSION, USER, WALLET, Load
from tests.bench.running import running_job
from tests.bench.tree import Sampler, Tree, folder_mb, heap_in_use_mb
from tests.enrichment import topics

DEDUP_TTL = "5m"
SAMPLE_S = 10.0
LINES = 12  # of the table
WARM = 1 / 6  # of the time: ten minutes of an hour
RETENTION_MS = 600_000  # of the inputs: the broker's disk, too, is as full at the end as after ten minutes


@dataclass(frozen=True)
class Sample:
    """The processes at one time. Sizes are in MB."""

    seconds: float
    jvm_mb: float  # resident; shared pages count in each process
    python_mb: float  # resident; shared pages count in each process
    processes: int
    checkpoint_mb: float
    local_mb: float
    cpu_s: float  # since the start


def sample(tree: Tree, checkpoint: Path, local: Path, seconds: float) -> Sample:
    now = tree.now
    jvm, rest = ([rss for _, name, rss in now if (name == "java") is java] for java in (True, False))
    sizes = (sum(jvm) / 2**20, sum(rest) / 2**20, len(now), folder_mb(checkpoint), folder_mb(local))
    return Sample(seconds, *sizes, tree.cpu_s)


@dataclass(frozen=True)
class Steady:
    """The result of the run."""

    samples: list[Sample]
    sent: int
    outputs: int
    heaps_mb: list[float]  # used heap of the JVM after garbage collection: after `WARM` of the time, and at the end


def run(servers: str, folder: Path, rate: int, minutes: float, flags: list[str]) -> Steady:
    prefix = f"steady-{uuid.uuid4().hex[:8]}-"
    names = [prefix + name for name in (WALLET, SESSION, USER)]
    output = prefix + topics.STREAMS[0]
    topic_settings = {"retention.ms": str(RETENTION_MS), "segment.ms": str(RETENTION_MS // 10)}
    create_topics(servers, names, PARTITIONS, topic_settings)
    create_topics(servers, [output], PARTITIONS)
    local = folder / "local"
    flags = [
        *LOW_LATENCY,
        "--bound",
        f"{BOUND_MS}ms",
        "--dedup-ttl",
        DEDUP_TTL,
        "--spark-config",
        f"spark.local.dir={local}",
        *flags,
    ]
    load = Load(servers, prefix, PARTITIONS, heartbeats=True)
    with running_job(servers, prefix, folder / "checkpoint", flags) as (tree, _):
        sampler = Sampler(partial(sample, tree, folder / "checkpoint", local), SAMPLE_S)
        load.sessions()
        sent, heaps = 0, []
        for share in (WARM, 1 - WARM):
            sent += load.run(rate, minutes * 60 * share)
            heaps.append(sum(heap_in_use_mb(pid) for pid, name, _ in tree.now if name == "java"))
        threading.Event().wait(5.0)
        samples = sampler.end()
    return Steady(samples, sent, len(timestamps(servers, output)), heaps)


def show(steady: Steady) -> None:
    """A line for each stretch of the time: the most in it."""
    samples = steady.samples
    table = Table("minutes", "JVM MB", "Python MB", "processes", "checkpoint MB", "local MB", "cores")
    size = -(-len(samples) // LINES)
    intervals = [samples[n : n + size] for n in range(0, len(samples), size)]
    ends = [Sample(0, 0, 0, 0, 0, 0, 0), *(s[-1] for s in intervals)]
    for (before, after), interval in zip(itertools.pairwise(ends), intervals, strict=True):
        cores = (after.cpu_s - before.cpu_s) / (after.seconds - before.seconds)
        most = [max(column) for column in zip(*(astuple(s)[1:6] for s in interval), strict=True)]
        table.add_row(f"{after.seconds / 60:.1f}", *(f"{m:,.0f}" for m in most), f"{cores:.2f}")
    console = Console(width=130)
    console.print(table)
    console.print(f"{steady.sent:,} money events sent, {steady.outputs:,} outputs")
    early, late = steady.heaps_mb
    console.print(f"in use on the JVM's heap: {early:,.0f} MB after {WARM:.0%} of the time, {late:,.0f} MB at the end")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("flags", nargs="*", help="after --: flags for moneystate run enrichment")
    parser.add_argument("--rate", type=int, default=1_000, help="money events a second")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="write the samples there, as JSON, for tests.bench.plots")
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            steady = run(broker.bootstrap_servers, folder, a.rate, a.minutes, a.flags)
    show(steady)
    if a.out:
        a.out.write_text(json.dumps([asdict(s) for s in steady.samples]))

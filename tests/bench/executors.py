"""`python -m tests.bench executors`: the memory of an executor, by its number of cores.

A standalone cluster with one worker, a backlog through spark-submit. Sizes are proportional ones (PSS): a page that n
processes share counts 1/n in each. Spark's `memoryOverhead` must hold what is not the JVM's heap.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.tree import folder_mb
from tests.job.harness import Setup
from tests.job.spark_cluster import cluster, submitted

WORKLOAD = Path(__file__).resolve().parents[1] / "workloads" / "workload.py"
SAMPLE_S = 0.5
HEAP_MB = 512


class Memory(NamedTuple):
    """The most of an executor's run, in MB."""

    jvm_mb: float
    python_mb: float
    processes: float  # of Python
    local_mb: float  # on disk


def measured(executor: psutil.Process, local: Path) -> Memory:
    python = [child.memory_full_info().pss for child in executor.children(recursive=True)]
    return Memory(executor.memory_full_info().pss / 2**20, sum(python) / 2**20, len(python), folder_mb(local))


def run(servers: str, folder: Path, prefix: str, cores: int) -> Memory:
    setup = Setup(servers, prefix, folder, partitions=4)
    most, over = Memory(0, 0, 0, 0), threading.Event()
    flags = ("--until-caught-up", "--quiet", "--application-id", f"cores-{cores}", "--key-groups", "64")
    conf = (f"spark.executor.memory={HEAP_MB}m",)
    with cluster(folder, cores=(cores,)) as spark, submitted(setup, spark.master, *flags, conf=conf) as job:

        def watch() -> None:
            nonlocal most
            while not over.wait(SAMPLE_S):
                for executor in spark.executors():
                    try:
                        now = measured(executor, folder / "machine-1")
                    except psutil.NoSuchProcess:  # a worker that has just ended
                        continue
                    most = Memory(*map(max, most, now))

        watcher = threading.Thread(target=watch)
        watcher.start()
        done = job.finish()
        over.set()
        watcher.join()
    if done.code:
        raise RuntimeError(done.err[-2000:])
    return most


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--cores", type=int, action="append", help="of the executor; may be repeated (1, 2, 4)")
    a = parser.parse_args(arguments)
    table = Table("cores", "JVM MB", "Python MB", "Python processes", "local disk MB")
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            for cores in a.cores or [1, 2, 4]:
                prefix, mine = f"cores{cores}-", folder / f"cores-{cores}"
                mine.mkdir()
                command = [sys.executable, str(WORKLOAD), "--bootstrap-servers", broker.bootstrap_servers]
                command += ["--prefix", prefix, "--create-topics", "--events", str(a.events), "--users", str(a.users)]
                subprocess.run([*command, "--flush-marker"], check=True)
                m = run(broker.bootstrap_servers, mine, prefix, cores)
                table.add_row(str(cores), *(f"{n:,.0f}" for n in m))
    console = Console(width=100)
    console.print(table)
    console.print(f"heap: spark.executor.memory={HEAP_MB}m")

"""`python -m tests.bench executors`: throughput by the number of executors and cores, and the memory of an executor.

A standalone cluster, a backlog through spark-submit. Sizes are proportional ones (PSS): a page that n processes share
counts 1/n in each. Spark's `memoryOverhead` must hold what is not the JVM's heap. Executors are pinned to processors;
driver and broker are not.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, create_outputs, rate_of, send_workload, timestamps
from tests.bench.tree import folder_mb
from tests.job.harness import ENRICHED, Setup
from tests.job.spark_cluster import cluster, submitted

SAMPLE_S = 0.5
HEAP_MB = 512


class Memory(NamedTuple):
    """The most that one executor had, in MB."""

    jvm_mb: float
    python_mb: float
    processes: float  # of Python
    local_mb: float  # on disk


def measured(executor: psutil.Process, local: Path) -> Memory:
    python = [child.memory_full_info().pss for child in executor.children(recursive=True)]
    return Memory(executor.memory_full_info().pss / 2**20, sum(python) / 2**20, len(python), folder_mb(local))


class Shape(NamedTuple):
    executors: int
    cores: int  # of each
    processors: int  # that all of them are pinned to

    @classmethod
    def parse(cls, text: str) -> Shape:
        """EXECUTORSxCORES@PROCESSORS."""
        executors, _, rest = text.partition("x")
        cores, _, processors = rest.partition("@")
        return cls(int(executors), int(cores), int(processors))


SHAPES = (Shape(1, 1, 1), Shape(1, 2, 2), Shape(2, 1, 2), Shape(4, 1, 2))


def run(servers: str, folder: Path, prefix: str, shape: Shape) -> tuple[float, Memory]:
    """Outputs a second, and the memory."""
    setup = Setup(servers, prefix, folder, partitions=PARTITIONS)
    most, over = Memory(0, 0, 0, 0), threading.Event()
    flags = ("--until-caught-up", "--quiet", "--application-id", prefix.strip("-"), "--key-groups", "64")
    conf = (f"spark.executor.memory={HEAP_MB}m",)
    create_outputs(servers, [prefix + ENRICHED])
    with cluster(folder, cores=(shape.cores,) * shape.executors) as spark:
        for worker in spark.workers:  # their executors inherit it
            worker.cpu_affinity([*range(shape.processors)])
        with submitted(setup, spark.master, *flags, conf=conf) as job:

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
    return rate_of(timestamps(servers, prefix + ENRICHED)), most


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument(
        "--shape",
        type=Shape.parse,
        action="append",
        help="EXECUTORSxCORES@PROCESSORS; may be repeated (1x1@1, 1x2@2, 2x1@2, 4x1@2)",
    )
    a = parser.parse_args(arguments)
    sizes = ("JVM MB", "Python MB", "Python processes", "disk MB")
    table = Table("executors", "cores each", "processors", "outputs/s", "ratio", *sizes)
    first = 0.0
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            for number, shape in enumerate(a.shape or SHAPES):
                prefix, mine = f"shape{number}-", folder / f"shape-{number}"
                mine.mkdir()
                send_workload(broker.bootstrap_servers, prefix, a.events, a.users, "--flush-marker")
                rate, memory = run(broker.bootstrap_servers, mine, prefix, shape)
                first = first or rate
                row = (*map(str, shape), f"{rate:,.0f}", f"{rate / first:.2f}", *(f"{n:,.0f}" for n in memory))
                table.add_row(*row)
    console = Console(width=120)
    console.print(table)
    console.print(f"heap: spark.executor.memory={HEAP_MB}m")

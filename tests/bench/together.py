"""Memory of several services in one Spark application, and of as many applications with a service each.

Both have the same events to process, and are measured once they have: all of their processes, the most that they took
meanwhile and what they hold then. PSS counts memory that processes share once.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.kafka.offsets import log_ends
from tests.bench.backlog import PARTITIONS
from tests.bench.load import Load
from tests.bench.services import ROOT, send
from tests.bench.tree import Tree

QUIET_S: Final = 15.0  # without output: all of it is there
MIB: Final = 2**20


class Memory(NamedTuple):
    """Sizes in MiB."""

    peak_rss: float
    rss: float
    pss: float
    parts: dict[str, float]  # PSS by program
    processes: int
    seconds: float


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("services", nargs="*", default=["joining", "sequencing", "entities"], help="names, such as joining")
    p.add_argument("--events", type=int, default=50_000, help="of each")
    a = p.parse_args(arguments)
    loads = {name: import_module(f"tests.services.{name}.load").LOAD for name in a.services}
    table = Table("what", "processes", "peak RSS MB", "RSS MB", "PSS MB", "of it Java", "Python", "s")
    measured = []
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        for prefix, applications in (("together-", [a.services]), ("apart-", [[name] for name in a.services])):
            for load in loads.values():
                send(broker.bootstrap_servers, load, a.events, prefix)
            memory = _measured(broker.bootstrap_servers, prefix, applications, loads)
            figures = (memory.peak_rss, memory.rss, memory.pss, memory.parts["java"], memory.parts["python"])
            row = [f"{figure:,.0f}" for figure in (*figures, memory.seconds)]
            table.add_row(f"{len(applications)} applications", str(memory.processes), *row)
            measured.append(memory)
    one, many = measured
    Console(width=130).print(table)
    print(
        f"{len(a.services)} in one / apart: PSS {one.pss / many.pss:.2f}, peak RSS {one.peak_rss / many.peak_rss:.2f}"
    )


def _measured(servers: str, prefix: str, applications: Sequence[Sequence[str]], loads: dict[str, Load]) -> Memory:
    outputs = [f"{prefix}{load.output}" for load in loads.values()]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        config = folder / "bench.toml"
        config.write_text("".join(load.tables for load in loads.values()))
        began = time.monotonic()
        processes = []
        for number, names in enumerate(applications):
            command = [sys.executable, "-m", "moneystate.cli.main", "run", *names, "--config", str(config), "--quiet"]
            command += ["--bootstrap-servers", servers, "--topic-prefix", prefix]
            command += ["--checkpoint", f"{folder}/checkpoint-{number}"]
            processes.append(subprocess.Popen(command, cwd=ROOT))
        peaks = [Tree(process.pid) for process in processes]
        seconds = _until_quiet(servers, outputs, processes) - began
        memory = _memory(processes)
        for process, tree in zip(processes, peaks, strict=True):
            process.terminate()
            process.wait()
            tree.end()
    return memory._replace(peak_rss=sum(tree.rss for tree in peaks) / MIB, seconds=seconds)


def _until_quiet(servers: str, topics: list[str], processes: list[subprocess.Popen[bytes]]) -> float:
    """When the last output came."""
    admin = AdminClient({"bootstrap.servers": servers})
    partitions = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    ends, changed = log_ends(admin, partitions), time.monotonic()
    while True:
        time.sleep(1)
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("a job has ended")
        now = log_ends(admin, partitions)
        if now != ends:
            ends, changed = now, time.monotonic()
        written = {topic for (topic, _), end in ends.items() if end > 0}
        if written == set(topics) and time.monotonic() - changed > QUIET_S:
            return changed


def _memory(processes: list[subprocess.Popen[bytes]]) -> Memory:
    """Measures the memory of all processes that these have started, and of these."""
    rss, count = 0.0, 0
    parts: dict[str, float] = defaultdict(float)
    for process in processes:
        root = psutil.Process(process.pid)
        for one in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                full = one.memory_full_info()
                rss += full.rss / MIB
                parts["java" if one.name() == "java" else "python"] += full.pss / MIB
                count += 1
    return Memory(0.0, rss, sum(parts.values()), parts, count, 0.0)

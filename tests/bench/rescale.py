"""`python -m tests.bench rescale`: how long the output pauses when a running job gets other numbers.

State of many users, then a steady load. The job is stopped and started as it is, rescaled from 64 to 256 key groups,
rescaled from 4 to 16 partitions, and stopped and started once more. The pause is that of the output's timestamps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.job.checkpoint import Checkpoint
from tests.bench.backlog import PARTITIONS, create_topics, timestamps
from tests.bench.latency import BOUND_MS, SESSION, USER, WALLET, Load
from tests.bench.running import ROOT
from tests.enrichment import topics
from tests.waiting import until

WITHIN_S = 600.0
MONEYSTATE = [sys.executable, "-m", "moneystate.cli.main"]


class Pause(NamedTuple):
    """One interruption of the output."""

    name: str
    seconds: float


class Bench:
    """One job, its load and its checkpoints."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.prefix = f"rescale-{uuid.uuid4().hex[:8]}-"
        self.output = self.prefix + topics.STREAMS[0]
        self.checkpoint = folder / "checkpoint-0"
        self.numbers = ["--key-groups", "64", "--partitions", "4"]
        self.job: subprocess.Popen[bytes] | None = None
        create_topics(servers, [self.prefix + name for name in (WALLET, SESSION, USER)], PARTITIONS)
        create_topics(servers, [self.output], PARTITIONS)

    def command(self, *words: str) -> list[str]:
        return [*MONEYSTATE, *words, "--bootstrap-servers", self.servers, "--quiet"]

    def start(self) -> None:
        """Returns once its output flows."""
        places = ["--checkpoint", str(self.checkpoint), "--topic-prefix", self.prefix]
        before = Checkpoint(str(self.checkpoint)).last_committed()
        with (self.folder / "err").open("a") as err:
            command = self.command("run", "enrichment", *places, *self.numbers, "--bound", f"{BOUND_MS}ms")
            self.job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT)
        until(lambda: self._batches() > before + 3, lambda: (self.folder / "err").read_text()[-2000:], WITHIN_S)

    def _batches(self) -> int:
        return Checkpoint(str(self.checkpoint)).last_committed()

    def stop(self) -> None:
        assert self.job is not None
        self.job.terminate()
        self.job.wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def rescale(self, number: int, key_groups: int, partitions: int) -> None:
        assert self.job is not None
        new = self.folder / f"checkpoint-{number}"
        places = ["--checkpoint", str(self.checkpoint), "--new-checkpoint", str(new)]
        self.numbers = ["--key-groups", str(key_groups), "--partitions", str(partitions)]
        command = self.command("rescale", *places, *self.numbers, "--stop", "--json")
        reaper = threading.Thread(target=self.job.wait)
        reaper.start()
        json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
        reaper.join()
        self.checkpoint = new
        self.start()

    def pause(self, since_ms: int) -> float:
        """The longest time between two outputs since then, in seconds."""
        times = [ms for ms in timestamps(self.servers, self.output) if ms >= since_ms]
        return max(b - a for a, b in itertools.pairwise(times)) / 1000


def run(servers: str, folder: Path, events: int, rate: int) -> tuple[list[Pause], int]:
    bench = Bench(servers, folder)
    load, over = Load(servers, bench.prefix, PARTITIONS, heartbeats=True), threading.Event()
    load.sessions()
    for number in range(events):  # a user each
        load.new_user(number)
    load.producer.flush()

    def go_on() -> None:
        while not over.is_set():
            load.run(rate, 1.0)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    bench.start()
    steps = [
        ("stop and start", bench.restart),
        ("64 -> 256 key groups", lambda: bench.rescale(1, 256, 4)),
        ("4 -> 16 partitions", lambda: bench.rescale(2, 256, 16)),
        ("stop and start", bench.restart),
    ]
    pauses = []
    for name, step in steps:
        until(lambda: _flows(bench), lambda: "no output", WITHIN_S)
        since_ms = int(time.time() * 1000) - 1_000
        step()
        until(lambda: _flows(bench), lambda: "no output", WITHIN_S)
        pauses.append(Pause(name, bench.pause(since_ms)))
    bench.stop()
    over.set()
    thread.join()
    return pauses, sum(file.stat().st_size for file in folder.glob("checkpoint-2/moneystate/savepoint-*/state/*"))


def _flows(bench: Bench) -> bool:
    times = timestamps(bench.servers, bench.output)
    return bool(times) and time.time() * 1000 - times[-1] < 2_000


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--users", type=int, default=200_000, help="with state, beside those of the load")
    parser.add_argument("--rate", type=int, default=200, help="money events a second")
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            pauses, size = run(broker.bootstrap_servers, folder, a.users, a.rate)
    plain = pauses[0].seconds
    table = Table("step", "pause s", "of a stop and start")
    for pause in pauses:
        table.add_row(pause.name, f"{pause.seconds:.1f}", f"{pause.seconds / plain:.2f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"state: {size / 1e6:,.0f} MB in a savepoint")

"""A backlog in hundreds of topics, which a service reads by a topic pattern, beside the same backlog in one topic; and
how soon a new topic is read."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka.planner import METADATA_EVERY_S
from tests.bench.backlog import PARTITIONS, create_outputs, create_topics, rate_of, timestamps
from tests.bench.tree import Tree
from tests.job.harness import JobProcess
from tests.job.warm import ROOT
from tests.workloads.workload_log import log_producer

SERVICE = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Spent:
    customer: str
    cents: int
    at: ms.Millis


@dataclass(frozen=True)
class Sum:
    customer: str
    cents: int


@dataclass
class Total:
    cents: int = 0


service = ms.Service("{name}")
spent = service.input("{topic}", Spent, key="customer", time="at", format="json")
sums = service.output("{name}-sums", Sum, key="customer", format="json")
total = service.value("total", Total)


@service.on(spent, total)
def spend(ctx: ms.Context[None], e: Spent, total: Total) -> None:
    total.cents += e.cents
    ctx.emit(sums, Sum(ctx.key, total.cents))
"""
CUSTOMERS = 20_000
START_MS = 1_700_000_000_000


class Sums:
    """The service, reading one topic or a pattern."""

    def __init__(self, servers: str, folder: Path, name: str, topic: str) -> None:
        self.servers, self.folder, self.name = servers, folder, name
        file = folder / f"{name}.py"
        file.write_text(SERVICE.format(name=name, topic=topic))
        self.reference = f"{file}:service"
        self.checkpoint = folder / f"checkpoint-{name}"
        self._moneystate("schemas", "release", self.reference)
        create_outputs(servers, [f"{name}-sums"])

    def arguments(self, *more: str) -> list[str]:
        connection = ("--bootstrap-servers", self.servers, "--checkpoint", str(self.checkpoint), "--bound", "0s")
        return ["run", self.reference, *connection, "--quiet", *more]

    def run(self) -> tuple[float, float]:
        """Outputs a second, and the processor's microseconds for an event."""
        process = subprocess.Popen(self._command(*self.arguments("--until-caught-up")), cwd=ROOT)
        tree = Tree(process.pid)
        code = process.wait()
        tree.end()
        if code:
            raise RuntimeError(f"{self.name}: ended with code {code}")
        times_ms = timestamps(self.servers, f"{self.name}-sums")
        return rate_of(times_ms), tree.cpu_s / len(times_ms) * 1e6

    def found_after_s(self, topic: str) -> float:
        """How long after a new topic has a record a batch has planned it."""
        with JobProcess(self.arguments("--idle-timeout", "1d"), self.folder) as job:
            batch = self._last()
            send(self.servers, [topic_of(0)], 1)  # a batch shows that the job is live
            job.wait_for(lambda: self._last() > batch, "its first batch")
            create_topics(self.servers, [topic], 1)
            began = time.monotonic()
            job.wait_for(lambda: topic in self._topics(), topic)
            return time.monotonic() - began

    def _last(self) -> int:
        return Checkpoint(str(self.checkpoint)).last_committed()

    def _topics(self) -> set[str]:
        return {
            topic for topic, _ in plans.from_offset(Checkpoint(str(self.checkpoint)).offset(self._last())).partitions
        }

    def _moneystate(self, *arguments: str) -> None:
        subprocess.run(self._command(*arguments), check=True, cwd=ROOT, stdout=subprocess.DEVNULL)

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "moneystate.cli.main", *arguments]


def topic_of(number: int) -> str:
    return f"many-{number}"


def send(servers: str, topics: Sequence[str], events: int) -> None:
    """The same events, whatever the topics."""
    rng = random.Random(1)
    producer = log_producer(servers)
    for number in range(events):
        customer = f"customer-{rng.randrange(CUSTOMERS)}"
        value = {"type": "Spent", "customer": customer, "cents": number % 100, "at": START_MS + number // 10}
        producer.produce(topics[rng.randrange(len(topics))], json.dumps(value), customer)
        producer.poll(0)
    assert producer.flush(60) == 0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter, prog="python -m tests.bench topics"
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--topics", type=int, default=500)
    a = parser.parse_args(arguments)
    table = Table("topics", "partitions", "outputs/s", "ratio", "processor µs/event")
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            servers = broker.bootstrap_servers
            many = [topic_of(number) for number in range(a.topics)]
            create_topics(servers, ["single"], PARTITIONS, {"retention.ms": "-1"})
            create_topics(servers, many, 1, {"retention.ms": "-1"})
            send(servers, ["single"], a.events)
            send(servers, many, a.events)
            rate, cpu = Sums(servers, folder, "one", "single").run()
            table.add_row("1", str(PARTITIONS), f"{rate:,.0f}", "1.00", f"{cpu:.0f}")
            sums = Sums(servers, folder, "all", topic_of(0).replace("0", "*"))
            its_rate, its_cpu = sums.run()
            table.add_row(str(a.topics), str(a.topics), f"{its_rate:,.0f}", f"{its_rate / rate:.2f}", f"{its_cpu:.0f}")
            after_s = sums.found_after_s(topic_of(a.topics))
    console = Console(width=100)
    console.print(table)
    console.print(f"a new topic is in a batch after {after_s:.1f} s; the planner looks every {METADATA_EVERY_S:.0f} s")

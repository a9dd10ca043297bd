"""`python -m tests.bench start`: from the start of `moneystate run` to its first committed output record, in phases.

Each round starts the service of `examples/orders` cold, on topics with a few events, then once more on the same
checkpoint, after one more event.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench import start_phases as phases
from tests.bench.running import ROOT

SERVICE = "examples/orders/orders.py:service"
OUTPUT, PARTITIONS = "orders-closed", 4
DEADLINE_S = 180.0
MINUTE = 60_000
OUTPUT_READ, CPU, TASKS_PYTHON = "first output read", "CPU s until then", "a Python worker of tasks runs"
ROWS = (
    *(phases.BEGUN, phases.IMPORTED, phases.JVM, phases.CHECKED, phases.SESSION, phases.STARTED, phases.PLANNED),
    TASKS_PYTHON,
    *(phases.COMMITTED, OUTPUT_READ, CPU),
)

Phases = dict[str, float]  # seconds since the process started


class Round(NamedTuple):
    cold: Phases
    again: Phases


def send(servers: str, prefix: str, order: str, minute: int) -> None:
    """An order, its payment, and one that is much later in each partition, so that the payment is processed at once."""
    producer = Producer({"bootstrap.servers": servers})

    def put(topic: str, partition: int, record: dict[str, object]) -> None:
        producer.produce(prefix + topic, json.dumps(record).encode(), partition=partition)

    now = minute * MINUTE
    placed = {"type": "OrderPlaced", "customer": "eve", "cents": 700}
    put("orders", 0, {**placed, "orderId": order, "placedAt": now})
    paid = {"type": "PaymentTaken", "cents": 700}
    put("payments", 0, {**paid, "paymentId": order, "orderId": order, "takenAt": now + 1000})
    for partition in range(PARTITIONS):
        for topic in ("orders", "payments"):
            put(topic, partition, {"type": "Heartbeat", "processedAt": now + 10 * MINUTE})
    assert producer.flush(30) == 0


def create(servers: str, prefix: str) -> None:
    topics = [NewTopic(prefix + name, PARTITIONS, 1, config={"retention.ms": "-1"}) for name in ("orders", "payments")]
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(topics).values():
        future.result()


def first_output(servers: str, prefix: str, known: int, process: subprocess.Popen[bytes]) -> float:
    """When the output topic had more than `known` committed records."""
    settings = {"bootstrap.servers": servers, "group.id": "bench", "fetch.wait.max.ms": 10, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "topic.metadata.refresh.interval.ms": 200})
    consumer.assign([TopicPartition(prefix + OUTPUT, number, 0) for number in range(PARTITIONS)])
    deadline, read = time.time() + DEADLINE_S, 0
    try:
        while read <= known:
            assert time.time() < deadline, f"no output within {DEADLINE_S:.0f} s"
            assert process.poll() is None, f"the job has ended with code {process.returncode}"
            message = consumer.poll(0.05)
            read += message is not None and message.error() is None
        return time.time()
    finally:
        consumer.close()


def one_start(servers: str, prefix: str, folder: Path, known: int, flags: list[str]) -> Phases:
    file = folder / "phases.json"
    command = [sys.executable, "-m", "tests.bench.start_phases", str(file), "run", SERVICE]
    command += ["--bootstrap-servers", servers, "--topic-prefix", prefix, "--checkpoint", str(folder / "checkpoint")]
    command += ["--format", "orders=json", "--format", "payments=json", "--quiet", *flags]
    with (folder / "err").open("wb") as err:
        begun = time.time()
        process = subprocess.Popen(command, stdout=err, stderr=err, cwd=ROOT)
        behind_s = begun - psutil.Process(process.pid).create_time()  # the system counts from a second it has rounded
        try:
            read = first_output(servers, prefix, known, process)
            tree, cpu_s = tasks_began(process.pid)
        except AssertionError as e:
            raise SystemExit(f"{e}: {(folder / 'err').read_text()[-2000:]}") from None
        finally:
            process.terminate()
            process.wait()
    reached = {**json.loads(file.read_text()), OUTPUT_READ: read, TASKS_PYTHON: tree + behind_s}
    return {**{phase: reached_s - begun for phase, reached_s in reached.items()}, CPU: cpu_s}


def tasks_began(pid: int) -> tuple[float, float]:
    """When the first Python worker of tasks started, and the processor time of the tree until now, in seconds."""
    cpu_s, began = 0.0, list[float]()
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            cpu_s += times.user + times.system + times.children_user + times.children_system
            if process.name() == "worker" or process.cmdline()[-1:] == ["pyspark.worker"]:
                began.append(process.create_time())
    return min(began), cpu_s


def one_round(servers: str, folder: Path, number: int, flags: list[str]) -> Round:
    prefix = f"s{number}-"
    create(servers, prefix)
    send(servers, prefix, "a", 1)
    cold = one_start(servers, prefix, folder, 0, flags)
    send(servers, prefix, "b", 20)
    return Round(cold, one_start(servers, prefix, folder, 1, flags))


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--starts", type=int, default=5, help="rounds (5)")
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    a = p.parse_args(arguments)
    rounds = []
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder, DevBroker(Path(folder) / "broker") as broker:
        for number in range(a.starts):
            place = Path(folder) / str(number)
            place.mkdir()
            rounds.append(one_round(broker.bootstrap_servers, place, number, a.flags))
    show(rounds)


def show(rounds: list[Round]) -> None:
    table = Table("seconds since the process started", "cold: least", "median", "restart: least", "median")
    for row in ROWS:
        cells = []
        for starts in ([r.cold for r in rounds], [r.again for r in rounds]):
            figures = [start[row] for start in starts]
            cells += [f"{min(figures):.2f}", f"{statistics.median(figures):.2f}"]
        table.add_row(row, *cells)
    Console(width=110).print(table)

"""Latency of a command of the stock ledger: from its event time to the receipt of its reply by a read_committed reader.

Commands have the wall clock's time, and the bound is 0, so a reply waits until each partition has a later record. At a
low rate those are the heartbeats of `moneystate heartbeat`, which runs beside the job as it does in operation.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from moneystate.devbroker import DevBroker
from tests.bench.backlog import create_topics
from tests.bench.stock import OUTPUTS, SERVICE

PARTITIONS, POOLS, SKUS = 4, 16, 100
PACE_S: Final = 0.002
LAST_S: Final = 5.0  # for the last replies
LOW_LATENCY: Final = ["--partitions", "1", "--key-groups", "8"]  # docs/operations.md


class Reader(threading.Thread):
    """`received`: by command, when its first reply was there, in ms."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        settings = {"group.id": "bench", "isolation.level": "read_committed", "fetch.wait.max.ms": 10}
        self.consumer = Consumer({"bootstrap.servers": servers, **settings})
        self.consumer.assign([TopicPartition("stock-replies", p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        self.received: dict[str, float] = {}
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            for message in self.consumer.consume(1_000, 0.005):
                if message.error() is None and message.key():
                    command = json.loads(message.value() or b"")["commandId"]
                    self.received.setdefault(command, time.time() * 1_000)
        self.consumer.close()


def commands() -> Iterator[dict[str, Any]]:
    """Stock of each sku, then a Reserve and its Confirm by turns."""
    chance = random.Random(1)
    for pool in range(POOLS):
        for sku in range(SKUS):
            count = {"type": "Count", "commandId": f"n{pool}-{sku}", "pool": f"pool-{pool}", "sku": f"sku-{sku}"}
            yield {**count, "onHand": 10**9}
    number = 0
    while True:
        number += 1
        about = {"pool": f"pool-{chance.randrange(POOLS)}", "reservationId": f"{number}"}
        lines = [{"sku": f"sku-{chance.randrange(SKUS)}", "quantity": 1}]
        yield {"type": "Reserve", "commandId": f"{number}+", **about, "lines": lines, "ttlMs": 60_000}
        yield {"type": "Confirm", "commandId": f"{number}=", **about}


def send(servers: str, rate: int, seconds: float) -> dict[str, int]:
    """When each command was sent, in ms: its event time."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    sent: dict[str, int] = {}
    start, made = time.time(), commands()
    while (now := time.time()) < start + seconds:
        while len(sent) < (now - start) * rate:
            command = {**next(made), "time": int(time.time() * 1_000)}
            sent[command["commandId"]] = command["time"]
            to = int(command["pool"].rpartition("-")[2]) % PARTITIONS
            producer.produce("stock-commands", json.dumps(command).encode(), partition=to)
        producer.poll(0)
        threading.Event().wait(PACE_S)
    producer.flush()
    return sent


@contextmanager
def running(arguments: list[str]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "moneystate.cli.main", *arguments], stdout=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, f"{arguments[0]} has ended"
    finally:
        process.terminate()
        process.wait()


def measure(servers: str, rate: int, warm_s: float, seconds: float, after: str, flags: list[str]) -> list[float]:
    """Milliseconds, sorted. Raises AssertionError where a measured command has no reply."""
    create_topics(servers, ["stock-commands", *OUTPUTS], PARTITIONS)
    reader = Reader(servers)
    beats = ["heartbeat", "--bootstrap-servers", servers, "--topics", "stock-commands", "--heartbeat-format", "json"]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        run = ["run", SERVICE, "--bootstrap-servers", servers, "--quiet", "--checkpoint", f"{folder}/checkpoint"]
        with running([*run, *LOW_LATENCY, *flags]), running([*beats, "--after", after, "--allowance", "0s"]):
            start = time.time() + warm_s
            sent = send(servers, rate, warm_s + seconds)
            threading.Event().wait(LAST_S)
    reader.over.set()
    reader.join()
    measured = {command: sent_ms for command, sent_ms in sent.items() if sent_ms >= start * 1_000}
    assert measured.keys() <= reader.received.keys(), "commands without a reply"
    return sorted(reader.received[command] - sent_ms for command, sent_ms in measured.items())


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--rate", type=int, action="append", help="commands a second; may be repeated (50, 500)")
    p.add_argument("--warm", type=float, default=40.0, help="seconds of load before the measured ones")
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--after", default="100ms", help="a quiet partition gets a heartbeat after so long")
    a = p.parse_args(arguments)
    for rate in a.rate or [50, 500]:
        with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder)) as broker:
            ms = measure(broker.bootstrap_servers, rate, a.warm, a.seconds, a.after, a.flags)
        shares = [f"{name} {ms[min(int(len(ms) * share), len(ms) - 1)]:,.0f} ms" for name, share in SHARES]
        print(f"{rate:,}/s, {len(ms):,} commands: {', '.join(shares)}", flush=True)


SHARES: Final = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0)]

"""Latency under a steady load: from the event time of money to its receipt by a read_committed reader, less the bound.

The conditions are those of the peers' README: in-order money of 1,000 users with known sessions at a steady rate,
bound 200 ms; heartbeats every 20 ms on the two quiet topics, or none.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.bench.backlog import create_topics
from tests.bench.running import running_job
from tests.bench.tree import Tree
from tests.enrichment import topics
from tests.reference import codec
from tests.workloads.workload import partition_of

BOUND_MS = 200
USERS = 1_000
BEAT_S = 0.02
PACE_S = 0.002
LOW_LATENCY = [
    "--partitions",
    "1",
    "--source-tasks",
    "1",
    "--key-groups",
    "8",
]  # docs/operations.md; flags given take precedence
WALLET, SESSION, USER = "wallet-events", "user-session-events", "user-events"


@dataclass(frozen=True)
class Latency:
    """Latencies in ms beyond the bound."""

    name: str
    sent: int
    measured: int
    p50: float
    p99: float
    p999: float
    most: float
    joined: float  # share of events that met their session
    cpu_s: float
    rss_mb: int


class Reader(threading.Thread):
    """Receives the output and notes when, against the event time in it."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )
        self.consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        self.received: list[tuple[float, bytes]] = []
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            for message in self.consumer.consume(2_000, 0.005):
                if message.error() is None:
                    self.received.append((time.time(), message.value() or b""))

    def end(self) -> list[tuple[float, dict[str, Any]]]:
        return [(received_s, codec.decode(value)[1]) for received_s, value in self.end_raw()]

    def end_raw(self) -> list[tuple[float, bytes]]:
        """When each value was received."""
        self.over.set()
        self.join()
        self.consumer.close()
        return self.received


class Load:
    """Sends at a steady rate. Money events are made ahead but for their time, so that a core is left for the job."""

    def __init__(self, servers: str, prefix: str, partitions: int, heartbeats: bool) -> None:
        self.producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 1, "enable.idempotence": True, "compression.type": "lz4"}
        )
        self.prefix = prefix
        self.partitions = partitions
        self.heartbeats = heartbeats
        self.users = [str(uuid.UUID(int=i + 1, version=4)) for i in range(USERS)]
        self.to = [partition_of(user, partitions) for user in self.users]

    def send(self, topic: str, event_type: str, event: dict[str, Any], partition: int) -> None:
        value, sent_ms = codec.encode(event_type, event), event["processedAt"]
        self.producer.produce(self.prefix + topic, value, partition=partition, timestamp=sent_ms)

    def sessions(self) -> None:
        now = int(time.time() * 1000)
        for user, to in zip(self.users, self.to, strict=True):
            session = {"id": user[::-1], "userId": user, "processedAt": now, "clientCountryCode": "ES"}
            self.send(SESSION, "UserSessionCreatedEvent", session, to)
        self.beat(now)

    def beat(self, now_ms: int) -> None:
        for topic in (USER, SESSION):
            for partition in range(self.partitions):
                self.send(topic, "Heartbeat", {"processedAt": now_ms}, partition)

    def run(self, rate: int, seconds: float) -> int:
        """`rate` money events a second for so long. Gives how many."""
        start, beaten, sent = time.time(), 0.0, 0
        while (now := time.time()) < start + seconds:
            if self.heartbeats and now - beaten >= BEAT_S:
                beaten = now
                self.beat(int(now * 1000))
            while sent < (now - start) * rate:
                self._money(sent % USERS)
                sent += 1
            self.producer.poll(0)
            threading.Event().wait(PACE_S)
        self.producer.flush()
        return sent

    def _money(self, number: int) -> None:
        self._transaction(self.users[number], self.to[number])

    def new_user(self, number: int) -> None:
        """Money of a user without a session."""
        user = f"user-{number:09d}"
        self._transaction(user, partition_of(user, self.partitions))
        self.producer.poll(0)

    def _transaction(self, user: str, to: int) -> None:
        money = {
            "id": str(uuid.uuid4()),
            "userId": user,
            "userSessionId": user[::-1],
            "processedAt": int(time.time() * 1000),
            "amount": b"\x01",
            "currency": "EUR",
            "openingBalance": b"\x01",
            "closingBalance": b"\x01",
            "moneyType": "AAA",
            "transactionRelatedThing": "x",
            "isOldMoneyEvent": False,
        }
        self.send(WALLET, "TransactionEvent", money, to)


def measure(
    servers: str, rate: int, partitions: int, heartbeats: bool, warm_s: float, seconds: float, flags: list[str]
) -> Latency:
    """One run on fresh topics. `warm_s`: of the load, not measured: Spark's first batches compile its plans."""
    prefix = f"lat-{uuid.uuid4().hex[:8]}-"
    names = [prefix + name for name in (WALLET, SESSION, USER, topics.STREAMS[0])]
    create_topics(servers, names, partitions)
    load, reader = Load(servers, prefix, partitions, heartbeats), Reader(servers, names[3], partitions)
    flags = [*LOW_LATENCY, "--bound", f"{BOUND_MS}ms", *flags]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_job(servers, prefix, Path(folder) / "checkpoint", flags) as (tree, _),
    ):
        load.sessions()
        start = time.time()
        sent = load.run(rate, warm_s + seconds + 2)
        threading.Event().wait(5.0)
    received = reader.end()
    return _figures(received, sent, start + warm_s, seconds, tree, _name(rate, partitions, heartbeats))


def _name(rate: int, partitions: int, heartbeats: bool) -> str:
    return f"{rate:,}/s, {partitions} partitions, {'heartbeats' if heartbeats else 'no heartbeats'}"


def _figures(
    received: list[tuple[float, dict[str, Any]]], sent: int, start: float, seconds: float, tree: Tree, name: str
) -> Latency:
    beyond = [
        received_s * 1000 - value["money"]["processedAt"] - BOUND_MS
        for received_s, value in received
        if start <= value["money"]["processedAt"] / 1000 < start + seconds
    ]
    joined = sum(value["sessionStatus"] == "JOINED" for _, value in received) / max(1, len(received))
    return figures(name, sent, beyond, joined, tree)


def figures(name: str, sent: int, latencies_ms: list[float], joined: float, tree: Tree) -> Latency:
    ordered = sorted(latencies_ms)

    def percentile(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")

    p50, p99, p999, most = (percentile(share) for share in (0.5, 0.99, 0.999, 1.0))
    return Latency(name, sent, len(ordered), p50, p99, p999, most, joined, tree.cpu_s, tree.rss // 2**20)


def measure_peer(servers: str, peers: Path, peer: str, settings: list[str]) -> list[str]:
    """A row of the table, from a peer's own script: 1,000 events a second over 4 partitions."""
    env = {**os.environ, "BOOTSTRAP": servers}
    command = ["bash", str(peers / "run.sh"), peer, *settings, "--test", "latency"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    (run,) = json.loads(done.stdout.splitlines()[-1])["runs"]
    p50, p99, most = (f"{run[name]:,}" for name in ("p50_ms", "p99_ms", "max_ms"))
    counts = (f"{run['sent_30s']:,}", f"{run['measured']:,}")
    costs = (f"{run['joined_%']}%", str(run["cpu_s"]), str(run["rss_mb"]))
    return [" ".join([peer, *settings]), *counts, p50, p99, "", most, *costs]

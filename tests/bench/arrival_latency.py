"""Latency in arrival order: from the broker's timestamp of a record to the receipt of the output by a read_committed
reader. Both clocks are of this machine."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from pathlib import Path

from confluent_kafka import Producer

from moneystate.runtime.plans import plan_of
from tests.bench.backlog import create_topics
from tests.bench.latency import LOW_LATENCY, PACE_S, Latency, Reader, figures
from tests.bench.running import running_job
from tests.bench.ticks import Passed, Tick

SERVICE = "tests.bench.ticks:service"
KEYS = 1_000
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}


def measure(servers: str, rate: int, partitions: int, warm_s: float, seconds: float, flags: list[str]) -> Latency:
    """One run on fresh topics. `warm_s`: of the load, not measured: Spark's first batches compile its plans."""
    prefix = f"lat-{uuid.uuid4().hex[:8]}-"
    create_topics(servers, [prefix + "ticks"], partitions, BROKER_TIME)
    create_topics(servers, [prefix + "passed"], partitions)
    reader = Reader(servers, prefix + "passed", partitions)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_job(servers, prefix, Path(folder) / "checkpoint", [*LOW_LATENCY, *flags], command=("run", SERVICE)) as (
            tree,
            _,
        ),
    ):
        start = time.time()
        sent = _send(servers, prefix + "ticks", rate, partitions, warm_s + seconds + 2)
        threading.Event().wait(5.0)
    codec = plan_of(SERVICE).codecs[Passed]
    passed = [(received_s, codec.decode(value).arrived_at / 1000) for received_s, value in reader.end_raw()]
    begin, end = start + warm_s, start + warm_s + seconds
    took_ms = [(received_s - arrived_s) * 1000 for received_s, arrived_s in passed if begin <= arrived_s < end]
    return figures(f"arrival, {rate:,}/s, {partitions} partitions", sent, took_ms, 1.0, tree)


def _send(servers: str, topic: str, rate: int, partitions: int, seconds: float) -> int:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "compression.type": "lz4"})
    codec = plan_of(SERVICE).codecs[Tick]
    values = [codec.encode(Tick(f"key-{n}", "x" * 100)) for n in range(KEYS)]
    start, sent = time.time(), 0
    while (now := time.time()) < start + seconds:
        while sent < (now - start) * rate:
            producer.produce(topic, values[sent % KEYS], partition=sent % partitions)
            sent += 1
        producer.poll(0)
        threading.Event().wait(PACE_S)
    producer.flush()
    return sent

"""How the job does as its state grows: every money event is of another user.

One run to `--users` users. While it runs: outputs, batches (the markers), size of the checkpoint, memory. Then it is
stopped, a few events are added, and it is started again: how long to the first output?
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from moneystate.devbroker import DevBroker
from moneystate.engine.avro import long_bytes
from tests.bench.backlog import COMMITS, INPUTS, PARTITIONS, create_outputs, create_topics, timestamps
from tests.bench.running import running_job
from tests.bench.tree import Sampler, Tree, folder_mb
from tests.enrichment import topics
from tests.reference import codec
from tests.workloads.workload import partition_of

PREFIX = "scale-"
MONEY_TOPIC = "wallet-events"
QUIET = [name for name in INPUTS if name != MONEY_TOPIC]
START_MS = 1_760_000_000_000
EVENTS_A_MS = 2  # a bound of 20 s of them waits in the buffer
BEAT_EVERY = 2_000  # money events: the quiet topics' time moves with the money's
SAMPLE_S = 1.0
RUN_OUT_MS = 60_000  # the last beats are so far ahead: the watermark passes all money
USER, MONEY, AT = "u" * 36, "m" * 36, START_MS


@dataclass(frozen=True)
class Sample:
    """The job at one time. Sizes are in MB."""

    seconds: float
    users: int  # with state, derived from the number of outputs
    checkpoint_mb: float
    rss_mb: float
    cpu_s: float


class Log:
    """Writes money events of one user each, from templates: encoding them would take longer than the job does."""

    def __init__(self, servers: str) -> None:
        self.producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4", "batch.size": 512 * 1024,
             "queue.buffering.max.messages": 1_000_000}
        )  # fmt: skip
        money = {
            "id": MONEY, "userId": USER, "userSessionId": None, "processedAt": AT, "amount": b"\x01", "currency": "EUR",
            "openingBalance": b"\x01", "closingBalance": b"\x01", "moneyType": "AAA",
            "transactionRelatedThing": "x", "isOldMoneyEvent": False,
        }  # fmt: skip
        self.template = codec.encode("TransactionEvent", money)
        self.users = 0

    def add(self, users: int) -> None:
        """As many further users."""
        wanted = [MONEY.encode(), USER.encode(), long_bytes(AT)]
        assert all(self.template.count(part) == 1 for part in wanted)
        for _ in range(users):
            n = self.users
            user, time_ms = str(uuid.UUID(int=n + 1)), START_MS + n // EVENTS_A_MS
            value = self.template.replace(wanted[0], str(uuid.UUID(int=2**100 + n)).encode())
            value = value.replace(wanted[1], user.encode()).replace(wanted[2], long_bytes(time_ms))
            self._produce(MONEY_TOPIC, value, partition_of(user, PARTITIONS), time_ms)
            self.users += 1
            if n % BEAT_EVERY == 0:
                self.beat(time_ms, QUIET)
        self.producer.flush()

    def beat(self, time_ms: int, names: list[str]) -> None:
        value = codec.encode("Heartbeat", {"processedAt": time_ms})
        for name in names:
            for partition in range(PARTITIONS):
                self._produce(name, value, partition, time_ms)

    def run_out(self) -> None:
        """Let the watermark pass all that was written."""
        self.beat(START_MS + self.users // EVENTS_A_MS + RUN_OUT_MS, INPUTS)
        self.producer.flush()

    def _produce(self, name: str, value: bytes, partition: int, time_ms: int) -> None:
        while True:
            try:
                self.producer.produce(PREFIX + name, value, partition=partition, timestamp=time_ms)
                return
            except BufferError:
                self.producer.poll(0.05)


class Outputs:
    """How many there are."""

    def __init__(self, servers: str) -> None:
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex})

    def count(self) -> int:
        topic = PREFIX + topics.STREAMS[0]
        ends = [self.consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in range(PARTITIONS)]
        return sum(ends)

    def wait(self, wanted: int, process: subprocess.Popen[bytes], poll_s: float) -> None:
        """Until there are so many, or the job has ended."""
        while self.count() < wanted and process.poll() is None:
            time.sleep(poll_s)


def sample(tree: Tree, checkpoint: Path, outputs: Outputs, seconds: float) -> Sample:
    return Sample(seconds, outputs.count(), folder_mb(checkpoint), tree.rss / 2**20, tree.cpu_s)


def grow(servers: str, checkpoint: Path, users: int, flags: list[str]) -> list[Sample]:
    """Run until all outputs are there."""
    with running_job(servers, PREFIX, checkpoint, flags) as (tree, process):
        sampler = Sampler(partial(sample, tree, checkpoint, Outputs(servers)), SAMPLE_S)
        Outputs(servers).wait(users, process, SAMPLE_S)
        return sampler.end()


def restart(servers: str, log: Log, checkpoint: Path, flags: list[str]) -> float:
    """Seconds from the start of the process to its first output."""
    log.add(1_000)
    log.run_out()
    before = len(timestamps(servers, PREFIX + topics.STREAMS[0]))
    started = time.time()
    with running_job(servers, PREFIX, checkpoint, flags) as (_, process):
        outputs = Outputs(servers)
        outputs.wait(outputs.count() + 1, process, 0.05)
    return timestamps(servers, PREFIX + topics.STREAMS[0])[before] / 1000 - started


def batch_seconds(servers: str) -> list[float]:
    """Between the markers of output partition 0."""
    times_ms = timestamps(servers, PREFIX + COMMITS, [0])
    return [(b - a) / 1000 for a, b in itertools.pairwise(times_ms)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("flags", nargs="*", help="after --: flags for moneystate run enrichment")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="write the samples there, as JSON, for tests.bench.plots")
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            servers = broker.bootstrap_servers
            create_topics(servers, [PREFIX + name for name in INPUTS], PARTITIONS, {"retention.ms": "-1"})
            create_outputs(servers, [PREFIX + topics.STREAMS[0]])
            log = Log(servers)
            log.add(a.users)
            log.run_out()
            checkpoint = folder / "checkpoint"
            samples = grow(servers, checkpoint, a.users, a.flags)
            measured = {"samples": [asdict(s) for s in samples], "batches": batch_seconds(servers)}
            measured["restart_s"] = restart(servers, log, checkpoint, a.flags)
    show(measured)
    if a.out:
        a.out.write_text(json.dumps(measured))


def show(measured: dict[str, Any]) -> None:
    """A line for each tenth of the run."""
    samples = [s for s in measured["samples"] if s["users"]]
    last = samples[-1]["users"]
    marks = [next(s for s in samples if s["users"] >= last * n / 10) for n in range(1, 11)]
    for before, after in itertools.pairwise([samples[0], *marks]):
        seconds = max(after["seconds"] - before["seconds"], 1e-9)
        rate = (after["users"] - before["users"]) / seconds
        print(
            f"{after['users']:>12,} users  {rate:>8,.0f} outputs/s  checkpoint {after['checkpoint_mb']:>7,.0f} MB  "
            f"memory {after['rss_mb']:>6,.0f} MB  {after['cpu_s']:>6,.0f} s of processors"
        )
    batches = measured["batches"]
    tenth = max(1, len(batches) // 10)
    early, late = batches[1 : 1 + tenth], batches[-tenth:]
    if early:
        print(f"batches: {sum(early) / len(early):.1f} s at the beginning, {sum(late) / len(late):.1f} s at the end")
    print(f"restart: {measured['restart_s']:.1f} s from the start of the process to the first output")

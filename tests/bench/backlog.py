"""Throughput of a backlog: the job, the broker alone, and a peer where one is given."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moneystate.kafka.offsets import log_ends
from tests.bench.tree import Tree
from tests.enrichment import topics

INPUTS = [t.name for t in topics.PLAN.input_topics() if t.ordered]
PARTITIONS = 4
OURS = "moneystate"
COMMITS = "money-enrichment-commits"
WORKLOAD = Path(__file__).resolve().parents[1] / "workloads" / "workload.py"
FROM, TO = 0.1, 0.9  # of the output, by broker timestamp


@dataclass(frozen=True)
class Result:
    """The result of one program."""

    name: str
    rate: float  # outputs per second between the 10 % and 90 % points
    outputs: int
    wall_s: float
    start_s: float  # from its start to its first output
    cpu_s: float
    rss_mb: int


def send_workload(servers: str, prefix: str, events: int, users: int, *flags: str) -> None:
    """A money log in topics of its own."""
    command = [sys.executable, str(WORKLOAD), "--bootstrap-servers", servers, "--prefix", prefix, "--create-topics"]
    subprocess.run([*command, "--events", str(events), "--users", str(users), *flags], check=True)


def create_outputs(servers: str, names: list[str]) -> None:
    """Outputs with the broker's time on each record, so that the rate is measured by one clock."""
    create_topics(servers, names, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})


def create_topics(servers: str, names: list[str], partitions: int, config: dict[str, str] | None = None) -> None:
    new = [NewTopic(name, partitions, 1, config=config or {}) for name in names]
    admin = AdminClient({"bootstrap.servers": servers})  # it must outlive its futures
    for future in admin.create_topics(new).values():
        future.result()


def messages(servers: str, topic: str, partitions: Sequence[int] = range(PARTITIONS)) -> Iterator[Message]:
    """All committed records."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    ended = 0
    while ended < len(partitions):
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise RuntimeError(f"{topic}: {error}")
    consumer.close()


def timestamps(servers: str, topic: str, partitions: Sequence[int] = range(PARTITIONS)) -> list[int]:
    """Broker timestamps (ms) of all committed records, in order."""
    return sorted(message.timestamp()[1] for message in messages(servers, topic, partitions))


def end_of(servers: str, topic: str) -> int:
    """Returns the end of all partitions together: at least as many as there are records. Cheap beside something that is
    measured."""
    admin = AdminClient({"bootstrap.servers": servers})
    return sum(log_ends(admin, [(topic, p) for p in range(PARTITIONS)]).values())


def rate_of(times_ms: list[int]) -> float:
    first, last = times_ms[int(len(times_ms) * FROM)], times_ms[int(len(times_ms) * TO) - 1]
    return len(times_ms) * (TO - FROM) / max((last - first) / 1000, 1e-9)


def run_job(servers: str, prefix: str, flags: list[str]) -> Result:
    """The enrichment over the topics of `prefix`, without lookups."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-m", "moneystate.cli.main", "run", "enrichment", "--bootstrap-servers", servers]
        command += ["--checkpoint", f"{folder}/checkpoint", "--topic-prefix", prefix, "--until-caught-up", "--json"]
        return _timed(OURS, servers, prefix, [*command, "--quiet", *flags], Path(folder))


def run_per_user(servers: str, prefix: str) -> Result:
    """The same service as the per-user baseline (`tests.bench.peruser`)."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-c", "from tests.bench.peruser import main; main()", "--bootstrap-servers", servers]
        return _timed("per-user baseline", servers, prefix, [*command, "--topic-prefix", prefix], Path(folder))


def _timed(name: str, servers: str, prefix: str, command: list[str], folder: Path) -> Result:
    """A run on fresh output topics. The command prints its number of outputs as JSON in its last line."""
    output = prefix + topics.STREAMS[0]
    _delete(servers, [prefix + name for name in [*topics.STREAMS, topics.CHANGELOG, COMMITS]])
    create_outputs(servers, [output])
    started = time.time()
    with (folder / "err").open("w") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        tree = Tree(process.pid)
        printed, _ = process.communicate()
    tree.end()
    if process.returncode:
        raise RuntimeError((folder / "err").read_text()[-2000:])
    ended = time.time()
    times_ms = timestamps(servers, output)
    outputs = json.loads(printed.splitlines()[-1])["outputs"]
    start_s = times_ms[0] / 1000 - started
    return Result(name, rate_of(times_ms), outputs, ended - started, start_s, tree.cpu_s, tree.rss // 2**20)


def run_broker_alone(servers: str, prefix: str) -> Result:
    """Consume the input and produce the same bytes to one topic in one transaction a second: no logic."""
    output = f"{prefix}copy-{uuid.uuid4().hex[:8]}"
    create_outputs(servers, [output])
    started, cpu = time.time(), time.process_time()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(prefix + t, p, OFFSET_BEGINNING) for t in INPUTS for p in range(PARTITIONS)])
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": output, "linger.ms": 5, "compression.type": "lz4",
         "queue.buffering.max.messages": 500_000}
    )  # fmt: skip
    producer.init_transactions()
    copied, ended = 0, 0
    producer.begin_transaction()
    committed = time.time()
    while ended < len(INPUTS) * PARTITIONS:
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                producer.produce(output, message.value(), message.key())
                copied += 1
            else:
                ended += 1
        producer.poll(0)
        if time.time() - committed >= 1:
            producer.commit_transaction()
            producer.begin_transaction()
            committed = time.time()
    producer.commit_transaction()
    consumer.close()
    wall = time.time() - started
    times_ms = timestamps(servers, output)
    cpu_s = time.process_time() - cpu
    return Result("broker alone", rate_of(times_ms), copied, wall, times_ms[0] / 1000 - started, cpu_s, 0)


def run_peer(servers: str, peers: Path, peer: str, settings: list[str]) -> Result:
    """A peer by its own script, on the topics with the prefix b1-."""
    env = {**os.environ, "BOOTSTRAP": servers}
    command = ["bash", str(peers / "run.sh"), peer, *settings, "--runs", "1"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    line = json.loads(done.stdout.splitlines()[-1])
    name = " ".join([peer, *settings])
    outputs = line["outputs"][0]
    return Result(name, line["events_per_s"], outputs, line["wall_s"], 0.0, line["cpu_s"], int(line["rss_mb"]))


def _delete(servers: str, names: list[str], deadline_s: float = 30.0) -> None:
    """Delete those of the topics that exist, and wait until they are gone."""
    admin = AdminClient({"bootstrap.servers": servers})
    end = time.monotonic() + deadline_s
    while there := [n for n in admin.list_topics(timeout=30).topics if n in names]:
        for future in admin.delete_topics(there).values():
            with contextlib.suppress(KafkaException):  # asked for twice
                future.result()
        if time.monotonic() > end:
            raise TimeoutError("the broker did not delete the topics of the last run")
        threading.Event().wait(0.2)

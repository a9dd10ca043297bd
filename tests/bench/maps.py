"""Maps: many keys with some entries each, and one key with very many. How large is the largest record of the changelog,
and how many entries does a batch write that touches a few?
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from moneystate.devbroker import DevBroker
from moneystate.schemas.services import check_released
from tests.bench.backlog import PARTITIONS, create_topics
from tests.bench.tree import Tree, folder_mb
from tests.workloads.workload import partition_of

SERVICE = "tests.bench.shelves:service"
TOPIC, CHANGELOG = "shelves-in", "shelves-state"
START_MS = 1_760_000_000_000
ENTRIES = 10
AT_ONCE = 1_000  # entries of the large key that one event adds
TOUCHES = 100


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--keys", type=int, default=1_000_000)
    p.add_argument("--large", type=int, default=1_000_000, help="entries of the one large key")
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    a = p.parse_args(arguments)
    check_released(SERVICE)
    with tempfile.TemporaryDirectory(prefix="bench-maps-") as folder:
        root = Path(folder)
        with DevBroker(root / "broker", heap="1g") as broker:
            print(json.dumps(measure(broker.bootstrap_servers, root, a.keys, a.large, a.flags)))


def measure(servers: str, folder: Path, keys: int, large: int, flags: list[str]) -> dict[str, float]:
    create_topics(servers, [TOPIC], PARTITIONS)
    send(servers, events(keys, large), 0)
    seconds, rss_mb = run(servers, folder, flags)
    filled = changelog(servers)
    send(servers, touches(keys, large), 10_000_000)
    run(servers, folder, flags)
    after = changelog(servers)
    return {
        "entries": filled[0],
        "largest_bytes": max(filled[1], after[1]),
        "events_s": (keys + large / AT_ONCE) / seconds,
        "entries_s": filled[0] / seconds,
        "touched": 2 * TOUCHES,
        "written_by_touches": after[0] - filled[0],
        "checkpoint_mb": folder_mb(folder / "checkpoint"),
        "rss_mb": rss_mb,
    }


def events(keys: int, large: int) -> Iterator[tuple[str, dict[str, object]]]:
    for key in range(keys):
        yield f"shelf-{key}", {"type": "Filled", "first": 0, "n": ENTRIES}
    for first in range(0, large, AT_ONCE):
        yield "large", {"type": "Filled", "first": first, "n": min(AT_ONCE, large - first)}


def touches(keys: int, large: int) -> Iterator[tuple[str, dict[str, object]]]:
    for n in range(TOUCHES):
        yield f"shelf-{n * keys // TOUCHES}", {"type": "Touched", "number": n % ENTRIES}
        yield "large", {"type": "Touched", "number": n * large // TOUCHES}


def send(servers: str, records: Iterator[tuple[str, dict[str, object]]], later_ms: int) -> None:
    """The events, and then what lets the watermark pass them."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    time_ms = START_MS + later_ms
    for time_ms, (key, fields) in enumerate(records, START_MS + later_ms):
        value = json.dumps({**fields, "shelf": key, "happenedAt": time_ms}).encode()
        while True:
            try:
                producer.produce(TOPIC, value, key, partition_of(key, PARTITIONS))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    beat = json.dumps({"type": "Heartbeat", "processedAt": time_ms + 60_000}).encode()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, beat, None, partition)
    producer.flush()


def run(servers: str, folder: Path, flags: list[str]) -> tuple[float, float]:
    """Seconds and the peak of resident memory, in MB."""
    command = [sys.executable, "-m", "moneystate.cli.main", "run", SERVICE, "--bootstrap-servers", servers, "--quiet"]
    command += ["--checkpoint", str(folder / "checkpoint"), "--until-caught-up", *flags]
    started = time.monotonic()
    process = subprocess.Popen(command)
    tree = Tree(process.pid)
    code = process.wait()
    tree.end()
    if code:
        raise RuntimeError(f"the job ended with code {code}")
    return time.monotonic() - started, tree.rss / 2**20


def changelog(servers: str) -> tuple[int, int]:
    """How many entries were written, and the largest record, key and value together."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "maps", "isolation.level": "read_committed",
         "enable.partition.eof": True}
    )  # fmt: skip
    partitions = consumer.list_topics(CHANGELOG, timeout=10).topics[CHANGELOG].partitions
    consumer.assign([TopicPartition(CHANGELOG, p, OFFSET_BEGINNING) for p in partitions])
    entries = largest = ended = 0
    while ended < len(partitions):
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            elif error is None:
                key, value = message.key() or b"", message.value() or b""
                entries += key.startswith(b"m")
                largest = max(largest, len(key) + len(value))
    consumer.close()
    return entries, largest

"""A service with a topic pattern, on a log in memory: topics and partitions that are created while it runs are
read, and their records have one place in the total order, whenever they were found."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local.memory_clients import memory_log
from moneystate.records.codec import Codec
from moneystate.records.platform_records import LINEAGE_RECORD
from tests.job.harness import Finished
from tests.kafka.logs import Cluster
from tests.local.in_memory import Running, good

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
    last: int


@dataclass
class Total:
    cents: int = 0


service = ms.Service("sums")
spent = service.input("spent-*", Spent, key="customer", time="at", format="json")
sums = service.output("sums", Sum, key="customer", format="json")
total = service.value("total", Total)
quiet = service.timer("quiet")


@service.on(spent, total)
def spend(ctx: ms.Context[None], e: Spent, total: Total) -> None:
    if e.cents == 0:
        raise ms.Reject("nothing")
    total.cents += e.cents
    ctx.emit(sums, Sum(ctx.key, total.cents, e.cents))
    ctx.at(quiet, ctx.now + 1_000)


@service.on(quiet, total)
def rest(ctx: ms.Context[None], total: Total) -> None:
    ctx.emit(sums, Sum(ctx.key, total.cents, 0))
"""
START_MS = 1_700_000_000_000
QUIET_MS = 1_000
EARLY = {"spent-eu": 2, "spent-us": 1}  # partitions
LATER = {"spent-asia": 2, "spent-africa": 1}
GROWN = {"spent-us": 2}


class Sent(NamedTuple):
    topic: str
    partition: int
    offset: int
    time_ms: int
    customer: str
    cents: int

    def place(self) -> tuple[int, int, int, int]:
        """In the total order: all are in time."""
        number = int.from_bytes(sha256(self.topic.encode()).digest()[:5], "big")
        return self.time_ms, number, self.partition, self.offset


def records(topics: dict[str, int], begin: int, n: int, ends: dict[tuple[str, int], int]) -> list[Sent]:
    """Many are at the same time. `ends`: of the partitions so far."""
    rng = random.Random(begin)
    made = []
    for number in range(begin, begin + n):
        topic = rng.choice([*topics])
        partition = rng.randrange(topics[topic])
        offset = ends[topic, partition]
        ends[topic, partition] += 1
        time_ms = START_MS + number // 6 * 300
        made.append(Sent(topic, partition, offset, time_ms, f"c{rng.randrange(4)}", rng.randrange(30)))
    return made


def sums_of(sent: list[Sent]) -> dict[str, list[tuple[int, int]]]:
    """Returns, by customer and in order, the sums and their last summand, as the service puts them out; independent of
    it."""
    made: dict[str, list[tuple[int, int]]] = defaultdict(list)
    totals: dict[str, int] = defaultdict(int)
    due: dict[str, int] = {}
    for record in sorted(sent, key=Sent.place):
        customer = record.customer
        if record.cents == 0:
            continue
        if customer in due and due[customer] < record.time_ms:
            made[customer].append((totals[customer], 0))
        totals[customer] += record.cents
        made[customer].append((totals[customer], record.cents))
        due[customer] = record.time_ms + QUIET_MS
    for customer in due:
        made[customer].append((totals[customer], 0))
    return dict(made)


class Sums:
    """The service on a log of its own."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.cluster = Cluster(bootstrap_servers, "")
        self.folder = folder
        self.service = folder / "sums.py"
        self.service.write_text(SERVICE)
        self.checkpoint = folder / "checkpoint"
        self.sent: list[Sent] = []
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.verified: dict[str, Any] = {}
        self.bootstrapped: dict[str, str] = {}  # fingerprints by source

    @property
    def connection(self) -> tuple[str, ...]:
        return ("--bootstrap-servers", self.cluster.bootstrap_servers)

    @property
    def reference(self) -> str:
        return f"{self.service}:service"

    def arguments(self, *more: str) -> list[str]:
        flags = ("--checkpoint", str(self.checkpoint), "--partitions", "2", "--key-groups", "4", "--bound", "0s")
        return ["run", "--local", self.reference, *self.connection, *flags, "--quiet", *more]

    def moneystate(self, *arguments: object) -> Finished:
        return good(arguments)

    def create(self, topics: dict[str, int]) -> None:
        for name, partitions in topics.items():
            self.cluster.create(name, partitions)

    def send(self, sent: list[Sent]) -> None:
        producer = self.cluster.producer()
        for record in sent:
            value = {"type": "Spent", "customer": record.customer, "cents": record.cents, "at": record.time_ms}
            producer.produce(record.topic, json.dumps(value), partition=record.partition)
        assert producer.flush(30) == 0
        self.sent += sent

    def written(self, topic: str) -> list[Any]:
        return self.cluster.read(topic)

    def live(self) -> None:
        """Half of the records, then new topics and a new partition with the rest, and a kill."""
        self.send(records(EARLY, 0, 240, self.ends))
        with Running(self.arguments("--idle-timeout", "1d")) as job:
            job.wait_for(lambda: len(self.written("sums")) > 100, "the first output")
            before = len(self.written("sums"))
            self.create(LATER)
            self.cluster.grow(GROWN)
            every = {**EARLY, **LATER, **GROWN}
            job.wait_for(lambda: self.read() == every, "the new topics and the new partition")
            self.send(records(every, 240, 240, self.ends))
            job.wait_for(lambda: len(self.written("sums")) > before + 50, "output of the new topics")

    def read(self) -> dict[str, int]:
        """How many partitions of each topic the job reads."""
        checkpoint = Checkpoint(str(self.checkpoint))
        plan = plans.from_offset(checkpoint.offset(checkpoint.last_committed()))
        return Counter(topic for topic, _ in plan.partitions)


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sums]:
    with memory_log() as (_, address):
        yield lived(Sums(address, tmp_path_factory.mktemp("sums")))


def lived(made: Sums) -> Sums:
    folder = made.folder
    made.moneystate("schemas", "release", made.reference)
    made.create({**EARLY, "spent": 1, "other-spent-eu": 1, "sums": 2})
    made.cluster.send("spent", [b"not read"])
    made.live()
    made.moneystate(*made.arguments("--until-caught-up", "--json"))
    about = ("--service", made.reference, "--json", "--quiet")
    checkpoint = ("--checkpoint", made.checkpoint)
    made.verified = made.moneystate("verify-replay", *checkpoint, *made.connection, *about).totals
    archive = folder / "archive"
    made.moneystate("archive", "--archive", archive, *made.connection, *about[:2], "--quiet")
    for source in ("kafka", str(archive)):
        out = folder / f"from-{Path(source).name}"
        flags = ("--from", source, "--out", out, "--key-groups", "4", "--partitions", "2", "--bound", "0s")
        made.bootstrapped[source] = made.moneystate("bootstrap", "--local", *flags, *made.connection, *about).totals[
            "fingerprint"
        ]
    made.moneystate(*made.arguments("--until-caught-up", "--drain"))
    return made


def test_records_of_topics_that_are_found_later_are_in_one_order_with_the_others(sums: Sums) -> None:
    written: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in sums.written("sums"):
        value = json.loads(record.value or b"")
        written[value["customer"]].append((value["cents"], value["last"]))
    assert dict(written) == sums_of(sums.sent)
    assert any(record.partition == 1 for record in sums.sent if record.topic in GROWN)
    tied = {record.time_ms for record in sums.sent if record.topic in LATER}
    assert {record.time_ms for record in sums.sent if record.topic in EARLY} & tied


def test_outputs_and_dead_letters_name_the_topic_of_their_record(sums: Sums) -> None:
    lineage = Codec(LINEAGE_RECORD)
    by_place = {(record.topic, record.partition, record.offset): record for record in sums.sent}
    seen = set()
    for record in sums.written("sums"):
        cause = lineage.decode(dict(record.headers)["lineage"] or b"")
        assert by_place[cause.topic, cause.partition, cause.offset].customer == json.loads(record.value)["customer"]
        seen.add(cause.topic)
    assert seen == {*EARLY, *LATER}
    refused = [dict(record.headers) for record in sums.written("sums-dead-letters")]
    named = [tuple(h[f"moneystate.{part}"].decode() for part in ("topic", "partition", "offset")) for h in refused]
    assert sorted(named) == sorted((r.topic, str(r.partition), str(r.offset)) for r in sums.sent if r.cents == 0)
    assert named


def test_replay_archive_and_bootstrap_read_the_topics_of_the_pattern(sums: Sums) -> None:
    assert sums.verified["agrees"]
    assert sums.verified["records"] == len(sums.sent)
    assert len(sums.bootstrapped) == 2
    assert len({*sums.bootstrapped.values()}) == 1

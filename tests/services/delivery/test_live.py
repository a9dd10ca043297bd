"""The router on a real broker, on Spark and without it: killed in the middle of a batch, started again, replayed and
asked. Only a real run has the topics of a pattern, a first load, the broker's timestamps and two output partitions."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from moneystate.devbroker import DevBroker
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from moneystate.runtime.plan import Plan
from services.delivery.config import Config
from services.delivery.records import Delivery
from services.delivery.service import DeliveryService
from tests.job.harness import JobProcess, finished, moneystate
from tests.kafka.logs import Cluster
from tests.query.serving import Server
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord
from tests.services.delivery.harness import delivered, table_of
from tests.services.delivery.reference import Delivered, Router, Row, Sent
from tests.services.delivery.workload import (
    ENDPOINTS,
    PLAIN,
    SUBSCRIPTIONS,
    TOPICS,
    Workload,
    headers_of,
    value_of,
)
from tests.waiting import until

pytestmark = pytest.mark.long
PARTITIONS: Final = {"orders": 2, "events.a": 1, "events.b": 2, PLAIN: 1, "endpoints": 2, "subscriptions": 1}
INPUTS: Final = ["orders", "events.", PLAIN]  # in the order of the configuration
CONFIG: Final = """
[delivery]
cloud_events = ["orders", "events.*"]
delivery_partitions = 3
duplicate_retention = "1h"

[[delivery.events]]
topic = "plain"
id = "meta.id"
source = "header:origin"
type = "meta.type"
tenant = "meta.tenant"
department = "meta.department"
"""
DEDUP_MS: Final = 3_600_000
WAIT_S: Final = 120.0


class Live:
    """`local`: without Spark."""

    def __init__(self, broker: DevBroker, folder: Path, local: bool) -> None:
        self.local = local
        self.cluster = Cluster(broker.bootstrap_servers, "local-" if local else "spark-")
        self.folder = folder
        self.config = folder / "delivery.toml"
        self.config.write_text(CONFIG)
        self.checkpoint = folder / "checkpoint"
        self.chance = random.Random(7)
        self.valid: dict[tuple[str, bytes], bool] = {}  # by key and value: whether a row is valid
        for name, partitions in PARTITIONS.items():
            self.cluster.create(name, partitions, message_timestamp_type="LogAppendTime")

    def write(self, records: list[Row | Sent]) -> None:
        producer = self.cluster.producer()
        for record in records:
            if isinstance(record, Row):
                table, value = table_of(record), value_of(record)
                self.valid[record.key, value or b""] = record.is_valid
                partition = sum(record.key.encode()) % PARTITIONS[table]
                producer.produce(self.cluster.prefix + table, value, record.key, partition)
            else:
                headers: list[Any] = [*headers_of(record).items()]
                partition = self.chance.randrange(PARTITIONS[record.topic])
                topic = self.cluster.prefix + record.topic
                producer.produce(topic, record.body, record.kafka_key or None, partition, headers=headers)
            if self.chance.random() < 0.1:  # so that the broker gives them several times
                producer.flush()
        assert producer.flush(30) == 0

    def end_load(self) -> None:
        loaded = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(0, 0, 0, "test", 0))
        for table in ("endpoints", "subscriptions"):
            for partition in range(PARTITIONS[table]):
                self.cluster.send(self.cluster.prefix + table, [loaded], partition)

    def run(self, *more: str) -> list[str]:
        return [
            *("run", "delivery", "--config", str(self.config), "--bootstrap-servers", self.cluster.bootstrap_servers),
            *("--topic-prefix", self.cluster.prefix, "--checkpoint", str(self.checkpoint), "--quiet", *more),
            *("--partitions", "2", "--key-groups", "4", "--until-caught-up"),
            *(("--local", "--max-records-per-batch", "23") if self.local else ("--max-records-per-batch", "60")),
        ]

    def kill_in_a_batch(self) -> None:
        """When some batches are written, and the last one is not noted."""
        paused = self.folder / "paused"
        env = {"MONEYSTATE_PAUSE_AT": "sunk@4", "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(self.run(), self.folder, env) as job:
            job.wait_for(paused.exists, "a batch is written")

    def read(self, topic: str) -> list[LogRecord]:
        return read_log(self.cluster.bootstrap_servers, [topic], self.cluster.prefix)[0]

    def events(self) -> list[Sent]:
        """As they stand in the log."""
        return [event_of(record) for topic in TOPICS for record in self.read(topic)]

    def rows(self, table: str) -> list[Row]:
        """Those of the first load hold from the beginning."""
        made, loaded = [], set[int]()
        for record in self.read(table):
            if record.key is None:
                loaded.add(record.partition)
                continue
            assert record.timestamp_ms is not None
            time_ms = record.timestamp_ms if record.partition in loaded else -1
            fields = None if record.value is None else json.loads(record.value)
            key = record.key.decode()
            is_valid = self.valid[key, record.value or b""]
            made.append(Row(key, time_ms, record.partition, record.offset, fields, is_valid))
        return made

    def router(self) -> Router:
        return Router(self.rows("endpoints"), self.rows("subscriptions"), DEDUP_MS)

    def deliveries(self) -> list[tuple[bytes | None, Delivery]]:
        """In the order of the log, with their keys."""
        codec = Plan(DeliveryService(Config()).service).codecs[Delivery]
        return [(record.key, codec.decode(record.value or b"")) for record in self.read("deliveries")]


def event_of(record: LogRecord) -> Sent:
    """From the record alone."""
    headers = {name: (value or b"").decode() for name, value in record.headers}
    body = record.value or b""
    meta = json.loads(body)["meta"] if record.topic == PLAIN else {}
    read = meta.get if record.topic == PLAIN else lambda name: headers.get(f"ce_{name}")
    number = next(n for n, name in enumerate(INPUTS) if record.topic.startswith(name))
    hashed = int.from_bytes(hashlib.sha256(record.topic.encode()).digest()[:5], "big")
    assert record.timestamp_ms is not None
    return Sent(
        record.topic, record.partition, record.offset, record.timestamp_ms, str(read("id")), body,
        headers.get("origin" if record.topic == PLAIN else "ce_source", ""), read("type") or "", read("tenant"),
        read("department"), (record.key or b"").decode(), number, hashed if number == 1 else 0,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["spark", "local"])
def live(request: pytest.FixtureRequest, own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Live:
    made = Live(own_broker, tmp_path_factory.mktemp("live"), request.param == "local")
    workload = Workload(11)
    first = workload.log(900).records
    rows = len(ENDPOINTS) + len(SUBSCRIPTIONS)
    made.write(first[:rows])
    made.end_load()
    made.write(first[rows:])
    made.kill_in_a_batch()
    made.write(workload.log(400).records)
    moneystate(made.run(), made.folder)
    return made


def test_deliveries_are_those_of_the_reference_after_a_kill(live: Live) -> None:
    events = live.events()
    expected = live.router().deliveries(events)
    out = live.deliveries()
    assert len(expected) > 100
    assert Counter(delivered(d) for _, d in out) == Counter(expected)
    assert [key for key, _ in out] == [d.endpoint_id.encode() for _, d in out]
    in_order: dict[tuple[str, str], list[Delivered]] = defaultdict(list)
    for one in expected:
        in_order[one.endpoint_id, one.order_key].append(one)
    written: dict[tuple[str, str], list[Delivered]] = defaultdict(list)
    sequences: dict[str, list[tuple[str, Delivered]]] = defaultdict(list)
    for _, d in out:
        written[d.endpoint_id, d.order_key].append(delivered(d))
        sequences[d.subscription_id].append((d.sequence, delivered(d)))
    assert written == in_order
    for id, its in sequences.items():
        assert [one for _, one in sorted(its)] == [one for one in expected if one.subscription_id == id]
    assert len({one.topic for one in expected}) == len(TOPICS)


def test_a_replay_writes_the_same(live: Live) -> None:
    servers = ("--bootstrap-servers", live.cluster.bootstrap_servers)
    replay = ["verify-replay", "--checkpoint", live.checkpoint, "--service", "delivery", "--json", "--quiet", *servers]
    assert moneystate(replay, live.folder).totals["agrees"]


def test_why_says_what_the_reference_says(live: Live) -> None:
    events, router = live.events(), live.router()
    asked = [(e, id) for e in router.routed(events)[-40:] for id in SUBSCRIPTIONS[:2]][::9]
    flags = ("--service", "delivery", "--config", str(live.config))
    with Server(live.cluster, live.folder / "replica", *flags, job=live) as server:
        for e, id in asked:
            told = until(partial(outcomes, live, server, e, id), lambda: "the event is not known", WAIT_S)
            assert told == [router.outcome(e, id)]


def outcomes(live: Live, server: Server, e: Sent, id: str) -> list[str]:
    """Empty: the replica loads, or does not know the event yet."""
    question = ["ask", "delivery", "why", f"topic={e.topic}", f"eventId={e.id}", f"subscription={id}", "--json"]
    done = finished([*question, "--address", server.address], live.folder)
    told = json.loads(done.out) if done.code == 0 else []
    its = [one for one in told if (one["partition"], one["offset"]) == (e.partition, e.offset)]
    return [verdict["outcome"] for one in its for verdict in one["verdicts"]]

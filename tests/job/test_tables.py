"""A job with tables on a real broker and Spark, whose planner waits for a first load in a process of its own. What it
writes is held to the model, by the timestamps that the broker wrote.

Kills, replays and other key groups are in `tests/local/test_tables.py`."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.devbroker import DevBroker
from moneystate.records.codec import Codec
from moneystate.records.iso_time import from_ms, to_ms
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from tests.api.services import pricing
from tests.api.tables_model import BEGINNING_MS, TableModel, Wrote
from tests.job.harness import Finished, JobProcess, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.local.in_memory import Running
from tests.ports import free_port

PARTITIONS = 2
TABLES = ("prices", "group-discounts", "limits")
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Pricing:
    """The service of the model's test on one broker."""

    def __init__(self, bootstrap_servers: str, prefix: str, folder: Path) -> None:
        self.cluster = Cluster(bootstrap_servers, prefix)
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        module = folder / f"pricing_{prefix.strip('-')}.py"
        module.write_text(Path(pricing.__file__).read_text())
        self.service = f"{module}:service"
        self.warm = Warm()  # of its own, because the service is a file of its own
        self.command("schemas", "release", self.service)
        for topic in TABLES:
            self.cluster.create(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
        for topic in ("orders", "priced"):
            self.cluster.create(topic, PARTITIONS)
        self.orders: dict[int, dict[str, Any]] = {}

    def flags(self, checkpoint: Path, *more: str) -> list[str]:
        return [
            *("run", self.service, "--topic-prefix", self.cluster.prefix, "--checkpoint", str(checkpoint)),
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--partitions", "2", "--bound", "1s"),
            *("--format", "orders=json", "--format", "priced=json", *more),
        ]

    def start(self, *more: str) -> JobProcess | Running:
        return JobProcess(self.flags(self.checkpoint, "--key-groups", "4", "--idle-timeout", "2s", *more), self.folder)

    def command(self, *arguments: object) -> Finished:
        return moneystate(arguments, self.folder, self.warm)

    # What producers write

    def rows(self, topic: str, rows: Iterable[tuple[str, Any]]) -> None:
        """Keys and rows; None: a tombstone."""
        producer = self.cluster.producer()
        for key, row in rows:
            value = None if row is None else json.dumps(row)
            producer.produce(self.cluster.prefix + topic, value, key, partition=sum(key.encode()) % PARTITIONS)
        assert producer.flush(30) == 0

    def end_load(self, topic: str) -> None:
        value = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(0, 0, 0, "test", 0))
        for partition in range(PARTITIONS):
            self.cluster.send(self.cluster.prefix + topic, [value], partition)

    def order(self, number: int, event_time_ms: int, sku: str, customer: str) -> None:
        order = {
            "order": number,
            "customer": customer,
            "sku": sku,
            "group": 1,
            "country": "de",
            "at": from_ms(event_time_ms),
        }
        self.orders[number] = order
        self.cluster.send(self.cluster.prefix + "orders", [json.dumps(order).encode()], number % PARTITIONS)

    # What came of it

    def priced(self) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.cluster.read("priced")]

    def has_priced(self, *numbers: int) -> bool:
        return set(numbers) <= {p["order"] for p in self.priced() if not p["byTimer"]}

    def model(self, topic: str) -> TableModel:
        wrote, loaded = [], set[int]()
        for record in self.cluster.read(topic):
            if record.key is None:
                loaded.add(record.partition)
                continue
            row = None if record.value is None else json.loads(record.value)
            written = (record.timestamp_ms or 0) if record.partition in loaded else BEGINNING_MS
            valid_from = None if row is None or not row.get("validFrom") else to_ms(row["validFrom"])
            wrote.append(Wrote(record.key.decode(), row, written, valid_from))
        return TableModel(wrote)

    def check(self) -> None:
        """Each order once, with the rows that held at its time."""
        prices, discounts, limits = (self.model(topic) for topic in TABLES)
        priced = self.priced()
        assert sorted(p["order"] for p in priced if not p["byTimer"]) == sorted(self.orders)
        for p in priced:
            order, time_ms = self.orders[p["order"]], to_ms(p["now"])
            row = prices.at(order["sku"], time_ms)
            assert p["cents"] == (None if row is None else row["cents"]), p
            if not p["byTimer"]:
                discount, limit = discounts.at('["1","de"]', time_ms), limits.at(order["customer"], time_ms)
                assert p["percents"] == (None if discount is None else discount["percents"]), p
                assert p["most"] == (None if limit is None else limit["most"]), p


@pytest.fixture
def shop(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Pricing]:
    made = Pricing(broker.bootstrap_servers, topic_prefix, tmp_path)
    yield made
    made.warm.close()


def load(shop: Pricing) -> None:
    """The first loads. Two of the rows have a time from which they hold."""
    later = from_ms(now_ms() + 1_500)
    shop.rows("prices", [("a", {"sku": "a", "cents": 1}), ("b", {"sku": "b", "cents": 2})])
    shop.rows("prices", [("a", {"sku": "a", "cents": 3, "validFrom": later})])
    shop.rows("group-discounts", [('["1","de"]', {"group": 1, "country": "de", "percents": [5]})])
    shop.rows("limits", [("eve", {"most": 10}), ("bob", {"most": 20})])
    for topic in TABLES:
        shop.end_load(topic)


def ready(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 0, ""


def test_other_inputs_wait_for_the_first_load(shop: Pricing) -> None:
    check_first_load(shop)


def check_first_load(shop: Pricing) -> None:
    shop.order(1, now_ms() - HOUR_MS, "a", "eve")
    port = free_port()
    with shop.start("--metrics-port", str(port)) as job:
        job.wait_for(lambda: ready(port)[0] == 503 and "first load" in ready(port)[1], "it waits for the loads")
        assert "moneystate table load" in job.err()
        load(shop)
        for number, sku in enumerate("abab", 2):
            shop.order(number, now_ms(), sku, "bob")
        job.wait_for(lambda: shop.has_priced(*shop.orders), "all are priced")
        assert ready(port)[0] == 200
        assert job.stop().code == 0
    shop.check()
    first = next(p for p in shop.priced() if p["order"] == 1)
    assert (first["cents"], first["percents"], first["most"]) == (1, [5], 10)

"""Many orders at once against the stock ledger on a real broker, while the job is killed again and again.

Producers send at the same time, each with some orders under way. They send again what is not answered soon, and some
of what is. Then everything that the ledger wrote is audited in its order: nothing was oversold, and no order of one
pool was refused while its lines were there.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from moneystate.devbroker import DevBroker
from services.stock import records
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log
from tests.services.stock.auditor import Auditor
from tests.services.stock.test_many_orders import check_each_refusal

PRODUCERS, SKUS, POOLS, PARTITIONS = 8, 100, ("north", "south"), 4
TTL_MS: Final = 20_000
UNDER_WAY: Final = 40  # orders of a producer
AGAIN_S: Final = 3.0
KILLED_AFTER_S: Final = (2.0, 12.0)  # from the first answer of a start
END_S: Final = 900.0


class Replies(threading.Thread):
    """`first`: by command; `count`: of all."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        settings = {"group.id": "chaos", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        self.consumer = Consumer({"bootstrap.servers": servers, "log_level": 0, **settings})
        self.consumer.assign([TopicPartition("stock-replies", p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        self.first: dict[str, dict[str, Any]] = {}
        self.count = 0
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            for message in self.consumer.consume(1_000, 0.05):
                if message.error() is None and message.key():
                    reply = json.loads(message.value() or b"")
                    self.first.setdefault(reply["commandId"], reply)
                    self.count += 1
        self.consumer.close()


class Customer(threading.Thread):
    """One producer: its orders, and what becomes of them."""

    def __init__(self, number: int, orders: int, seed: int, cluster: Cluster, replies: Replies) -> None:
        super().__init__(daemon=True)
        self.chance = random.Random(f"{seed}/{number}")
        self.producer = cluster.producer(**{"enable.idempotence": True})
        self.replies = replies
        self.left = [f"{number}-{n}" for n in range(orders)]
        self.open: dict[str, tuple[dict[str, Any], float]] = {}  # commands without an answer, and when they were sent
        self.sent = 0

    def run(self) -> None:
        weights = list(accumulate(1 / (n + 1) for n in range(SKUS)))
        while self.left or self.open:
            while self.left and len(self.open) < UNDER_WAY:
                self._order(self.left.pop(), self.chance.choices(range(SKUS), cum_weights=weights, k=2))
            for command, _ in [self.open[id] for id in self.open if id in self.replies.first]:
                self._answered(command)
            for command, sent_at in [*self.open.values()]:
                if time.monotonic() - sent_at > AGAIN_S:
                    self._send(command)
            self.producer.poll(0)
            threading.Event().wait(0.02)
        assert self.producer.flush(60) == 0

    def _order(self, id: str, skus: list[int]) -> None:
        lines = [{"sku": f"sku-{sku}", "quantity": self.chance.randint(1, 3)} for sku in skus]
        reserve = {"type": "Reserve", "commandId": f"{id}/reserve", "pool": self.chance.choice(POOLS)}
        self._send({**reserve, "reservationId": id, "orderId": id, "lines": lines, "ttlMs": TTL_MS})

    def _answered(self, command: dict[str, Any]) -> None:
        del self.open[command["commandId"]]
        if self.chance.random() < 0.1:
            self._write(command)
        accepted = self.replies.first[command["commandId"]]["status"] == "ACCEPTED"
        if command["type"] == "Reserve" and accepted and (kind := self.chance.random()) < 0.6:
            type, id = ("Confirm" if kind < 0.4 else "Cancel"), command["reservationId"]
            self._send({"type": type, "commandId": f"{id}/{type}", "pool": command["pool"], "reservationId": id})

    def _send(self, command: dict[str, Any]) -> None:
        self.open[command["commandId"]] = (command, time.monotonic())
        self._write(command)

    def _write(self, command: dict[str, Any]) -> None:
        value = json.dumps({**command, "time": int(time.time() * 1_000)}).encode()
        self.producer.produce("stock-commands", value, command["pool"])
        self.sent += 1


def all_of_it(broker: DevBroker, folder: Path, seed: int, orders: int, kills: int) -> None:
    cluster = Cluster(broker.bootstrap_servers, "")
    cluster.create("stock-commands", PARTITIONS)
    cluster.create("stock-replies", PARTITIONS)
    producer, now = cluster.producer(), int(time.time() * 1_000)
    for sku in range(SKUS):
        for pool in POOLS:
            count = {"type": "Count", "commandId": f"count-{sku}", "pool": pool, "time": now, "sku": f"sku-{sku}"}
            producer.produce("stock-commands", json.dumps({**count, "onHand": orders // 25}), pool)
    assert producer.flush(60) == 0
    replies = Replies(broker.bootstrap_servers)
    customers = [Customer(n, orders // PRODUCERS, seed, cluster, replies) for n in range(PRODUCERS)]
    arguments = [
        *("run", "services.stock.service:stock", "--bootstrap-servers", broker.bootstrap_servers, "--quiet"),
        *("--checkpoint", str(folder / "checkpoint"), "--topic-partitions", str(PARTITIONS), "--idle-timeout", "1h"),
    ]
    beats = ["heartbeat", "--bootstrap-servers", broker.bootstrap_servers, "--topics", "stock-commands"]
    with JobProcess([*beats, "--after", "200ms", "--allowance", "0s", "--heartbeat-format", "json"], folder) as beating:
        for customer in customers:
            customer.start()
        killed = _kill(arguments, folder, random.Random(seed), kills, customers, replies)
        with JobProcess(arguments, folder) as job:
            job.wait_for(lambda: not any(c.is_alive() for c in customers), "all orders are answered", END_S)
            sent = SKUS * len(POOLS) + sum(customer.sent for customer in customers)
            job.wait_for(lambda: replies.count >= sent, "all commands are answered", END_S)
            assert job.stop().code == 0, job.err()
        assert beating.process.poll() is None, beating.err()
    replies.over.set()
    replies.join()
    seen = check(broker.bootstrap_servers)
    print(f"{orders:,} orders, {sent:,} commands, {killed} kills: held; {dict(seen)}", flush=True)


def _kill(
    arguments: list[str], folder: Path, chance: random.Random, kills: int, customers: list[Customer], replies: Replies
) -> int:
    """Start and kill the job while orders are left; how often it was killed."""
    for killed in range(kills):
        before = replies.count
        with JobProcess(arguments, folder) as job:
            job.wait_for(lambda before=before: replies.count > before, "it answers", END_S)  # type: ignore[misc]
            end = time.monotonic() + chance.uniform(*KILLED_AFTER_S)
            job.wait_for(lambda end=end: time.monotonic() > end, "the kill")  # type: ignore[misc]
        if not any(customer.is_alive() for customer in customers):
            return killed + 1
    return kills


def check(servers: str) -> Counter[str]:
    """Raises AssertionError where anything was oversold, refused while it was there, or answered in two ways."""
    written = read_log(servers, ["stock-events", "stock-replies"])[0]
    outputs = [r for r in written if r.key]
    outputs.sort(key=lambda r: dict(r.headers)["place"] or b"")
    made = [output_of(json.loads(r.value or b"")) for r in outputs]
    Auditor().audit(made)
    answers: dict[tuple[str, str], Any] = {}
    for reply in made:
        if isinstance(reply, records.StockReply):
            assert answers.setdefault((reply.pool, reply.command_id), reply) == reply, "another reply to a retry"
    return check_each_refusal(made)


def output_of(document: dict[str, Any]) -> Any:
    """An event or a reply of the ledger as it is read from its JSON."""
    d = document
    if d["type"] == "Adjusted":
        return records.Adjusted(d["pool"], d["sku"], d["quantity"], d["counted"], d["onHand"], d["reserved"])
    if d["type"] == "StockReply":
        lines, short = [records.Line(**li) for li in d["lines"]], [records.Short(**li) for li in d["short"]]
        return records.StockReply(
            d["commandId"], d["pool"], d["status"], d["reason"], d["reservationId"], lines, short
        )  # fmt: skip
    held = [records.EventLine(li["sku"], li["quantity"], li["onHand"], li["reserved"]) for li in d["lines"]]
    event: Any = {cls.__name__: cls for cls in records.EVENTS}[d["type"]]
    return event(d["pool"], d["reservationId"], d["orderId"], d["reason"], held)

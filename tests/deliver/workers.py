"""Worker processes beside a real broker and real receivers, and their topics as a checker reads them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from moneystate.deliver.history import Attempt, Command, Cut, Ended, LogRecord, from_json, to_json
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.records import Delivery, RowPlace
from moneystate.kafka.partitions import partition_of_key
from tests.deliver.made import delivery, stored
from tests.deliver.receivers import Received, Receiver, receiver
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log
from tests.waiting import until

PARTITIONS = 2
LARGEST = 8 * 1024 * 1024  # a record of the router
WITHIN_S = 60.0


class Receivers:
    """A receiver in a thread of its own, until the end of the block."""

    def __enter__(self) -> Receiver:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.context = receiver()
        made: Receiver = asyncio.run_coroutine_threadsafe(self.context.__aenter__(), self.loop).result(10)
        return made

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.context.__aexit__(None, None, None), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Site:
    """Topics of deliveries and of tables, and workers that are started and killed."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.stack = ExitStack()
        self.deliveries: list[Delivery] = []
        self.offsets = {"endpoints": -1, "subscriptions": -1}  # of the last rows

    def __enter__(self) -> Self:
        self.cluster.create("deliveries", PARTITIONS, max_message_bytes=str(LARGEST))
        for table in ("endpoints", "subscriptions"):
            self.cluster.create(table, cleanup_policy="compact")
        self.receiver = self.stack.enter_context(Receivers())
        self.producer: Producer = self.cluster.producer(**{"message.max.bytes": LARGEST})
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stack.close()

    def endpoint(self, name: str, path: str, **more: Any) -> None:
        row = {"endpointId": name, "owner": "acme", "url": self.receiver.url + path, **more}
        self._row("endpoints", name, row)

    def subscription(self, name: str, endpoint: str, **more: Any) -> None:
        row = {"subscriptionId": name, "endpointId": endpoint, "owner": "acme", "types": ["*"], **more}
        self._row("subscriptions", name, row)

    def _row(self, table: str, key: str, row: dict[str, Any]) -> None:
        self.producer.produce(self.cluster.prefix + table, json.dumps(row).encode(), key.encode())
        self.producer.flush(WITHIN_S)
        self.offsets[table] += 1

    def send(
        self, subscription: str, endpoint: str, count: int, routed_ms: int = 0, text: str = "", **more: Any
    ) -> None:
        """Deliveries as the router writes them, by the last rows. `routed_ms` 0: now."""
        rows = {
            "endpoint_row": RowPlace(0, self.offsets["endpoints"]),
            "subscription_row": RowPlace(0, self.offsets["subscriptions"]),
        }
        for _ in range(count):
            number = len(self.deliveries)
            one = delivery(
                delivery_id=f"msg_{number}", subscription_id=subscription, endpoint_id=endpoint,
                event_id=f"event-{number}", sequence=f"{number:08d}",
                body=json.dumps({"n": number, "text": text}).encode(),
                **{"time_ms": time.time_ns() // 1_000_000, **rows, **more},
            )  # fmt: skip
            self.deliveries.append(one)
            key = endpoint.encode()
            partition = partition_of_key(key, PARTITIONS)
            self.producer.produce(self.cluster.prefix + "deliveries", stored(one), key, partition, timestamp=routed_ms)
        self.producer.flush(WITHIN_S)

    def command(self, command: Command) -> None:
        """As the interface writes it."""
        key = command.endpoint_id.encode()
        topic = self.cluster.prefix + "delivery-commands"
        self.producer.produce(topic, to_json(command), key, partition_of_key(key, PARTITIONS))
        self.producer.flush(WITHIN_S)

    def worker(self, *flags: str) -> JobProcess:
        arguments = ["deliver", "--bootstrap-servers", self.cluster.bootstrap_servers, "--topic-prefix",
                     self.cluster.prefix, "--allow-http", "--allow-network", "127.0.0.0/8", *flags]  # fmt: skip
        return self.stack.enter_context(JobProcess(arguments, self.folder))

    def log(self) -> list[LogRecord]:
        records, _ = read_log(self.cluster.bootstrap_servers, ["delivery-log"], self.cluster.prefix)
        made = [from_json(record.value) for record in records]
        return [one for one in made if isinstance(one, Cut | Attempt | Ended)]

    def outcomes(self) -> dict[str, list[Outcome]]:
        """Returns the outcomes of deliveries, also of those in batches."""
        log = self.log() if self.cluster.prefix + "delivery-log" in self.cluster.names() else []
        cuts = {one.webhook_id: one.members for one in log if isinstance(one, Cut)}
        outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        for one in log:
            if isinstance(one, Ended):
                for delivery_id in cuts.get(one.webhook_id, [one.webhook_id]):
                    outcomes[delivery_id].append(one.outcome)
        return outcomes

    def wait_for_all(self, why: JobProcess) -> None:
        """Until each delivery has an outcome."""
        until(lambda: len(self.outcomes()) == len(self.deliveries), why.err, WITHIN_S)

    def check(self) -> None:
        """One outcome each; what was delivered was received; one body for each id. Raises AssertionError."""
        outcomes = self.outcomes()
        assert set(outcomes) == {one.delivery_id for one in self.deliveries}
        assert [one for one in outcomes.items() if len(one[1]) != 1] == []
        bodies: dict[str, bytes] = {}
        for one in self.receiver.journal:
            assert bodies.setdefault(one.headers["webhook-id"], one.body) == one.body
        got = {n for one in self.receiver.journal for n in numbers_in(one)}
        delivered = {int(name[4:]) for name, its in outcomes.items() if its == [Outcome.DELIVERED]}
        assert delivered <= got
        pending, _ = read_log(self.cluster.bootstrap_servers, ["delivery-pending"], self.cluster.prefix)
        left = {record.key: record.value for record in pending}
        assert [key for key, value in left.items() if value is not None] == []


def numbers_in(one: Received) -> list[int]:
    """The numbers of the events in a request."""
    content = json.loads(one.body)
    return [its["data"]["n"] for its in content] if isinstance(content, list) else [content.get("n", -1)]

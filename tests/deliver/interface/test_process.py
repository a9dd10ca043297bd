"""`moneystate deliver --listen`: the interface beside a worker, in a real process, with a real router's table loads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.deliver.records import RowPlace
from moneystate.devbroker import DevBroker
from moneystate.kafka.partitions import partition_of_key
from tests.deliver.interface.harness import SIGNING
from tests.deliver.made import delivery, stored
from tests.deliver.workers import WITHIN_S, Receivers
from tests.ingest.harness import Client, written
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.ports import free_port
from tests.reference.kafka_log import read_log
from tests.scrape import scraped
from tests.waiting import until

LISTENING = re.compile(r"listening on \S+:(\d+) \(")
PARTITIONS = 2


@pytest.fixture
def cluster(broker: DevBroker, topic_prefix: str) -> Cluster:
    made = Cluster(broker.bootstrap_servers, topic_prefix)
    made.create("deliveries", PARTITIONS)
    return made


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
def worker(cluster: Cluster, tmp_path: Path, metrics_port: int) -> Iterator[JobProcess]:
    (tmp_path / "secrets").mkdir()
    flags = ["--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", cluster.prefix, "--allow-http",
             "--allow-network", "127.0.0.0/8", "--listen", "127.0.0.1:0", "--secrets", str(tmp_path / "secrets"),
             "--topic-partitions", "1", "--max-requests", "1000", "--metrics-port", str(metrics_port)]  # fmt: skip
    with JobProcess(["deliver", *flags], tmp_path) as process:
        yield process


def place_of(cluster: Cluster, table: str, id: str) -> RowPlace:
    (row,) = [r for r in written(cluster.bootstrap_servers, cluster.prefix + table) if r.key == id.encode()]
    return RowPlace(row.partition, row.offset)


def test_an_endpoint_that_was_made_here_gets_signed_messages(
    cluster: Cluster, worker: JobProcess, metrics_port: int
) -> None:
    until(lambda: LISTENING.search(worker.err()), worker.err, WITHIN_S)
    match = LISTENING.search(worker.err())
    assert match is not None
    port = int(match[1])

    def call(method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        reply = Client(port).request(method, path, content, {"Content-Type": "application/json"})
        assert reply.status in (200, 201), reply
        return reply.body

    with Receivers() as receiver:
        call("PUT", "/v1/owners/acme/secrets/main", {"value": SIGNING})
        made = call("POST", "/v1/endpoints", {"owner": "acme", "url": receiver.url + "/ok", "secrets": ["main"]})
        id = made["endpointId"]
        subscribed = call("POST", "/v1/subscriptions", {"endpointId": id, "types": ["*"], "scope": "all"})
        subscription = subscribed["subscriptionId"]
        one = delivery(
            endpoint_id=id, subscription_id=subscription, endpoint_row=place_of(cluster, "endpoints", id),
            subscription_row=place_of(cluster, "subscriptions", subscription),
        )  # fmt: skip
        partition = partition_of_key(id.encode(), PARTITIONS)
        cluster.send(cluster.prefix + "deliveries", [stored(one)], partition, key=id.encode())
        until(lambda: receiver.journal, worker.err, WITHIN_S)
        assert receiver.journal[0].headers["webhook-id"] == one.delivery_id
        assert receiver.journal[0].headers["webhook-signature"].startswith("v1,")
        path = f"/v1/endpoints/{id}/messages/{one.delivery_id}/attempts"
        until(lambda: len(call("GET", path)["entries"]) == 2, worker.err, WITHIN_S)
        assert [its["kind"] for its in call("GET", path)["entries"]] == ["attempt", "ended"]
    requests = scraped(metrics_port).values("moneystate_deliver_interface_requests_total")
    assert requests["201", "create_endpoint"] == requests["201", "create_subscription"] == 1
    assert worker.stop().code == 0
    log, _ = read_log(cluster.bootstrap_servers, ["delivery-log"], cluster.prefix)
    assert len(log) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "127.0.0.1:0"], "expected a store of secrets"),
        (["--audit-log", "-"], "expected --listen as well"),
        (["--listen", "0.0.0.0:0", "--secrets", "."], "expected a loopback address"),
    ],
)
def test_options_that_lack_others_are_refused(flags: list[str], message: str, tmp_path: Path) -> None:
    with JobProcess(["deliver", "--bootstrap-servers", "127.0.0.1:1", *flags], tmp_path) as process:
        ended = process.finish(WITHIN_S)
        assert ended.code == 2
        assert message in " ".join(process.err().split())

"""The interface with the permissions that docs/security.md names, and no more: only a broker with ACLs tells."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from moneystate.deliver.history import LOG, UNDELIVERED, Attempt
from moneystate.kafka.client import admin_client
from tests.deliver.interface.harness import LOGS, PARTITIONS, options, running
from tests.deliver.interface.test_messages import ended
from tests.deliver.made import delivery, stored
from tests.kafka.logs import Cluster
from tests.secured.acls import PAGE, Permission, grant
from tests.secured.broker import SCRAM, Secured

NAME: Final = "deliver"
NAMED: Final = (
    "- The interface of event delivery needs Read, Write and DescribeConfigs on `endpoints` and `subscriptions`, Read "
    "on `deliveries`, `delivery-log`, `undelivered` and `endpoint-status`, Write on `delivery-commands`, and Write on "
    "the transactional ids `endpoints-table` and `subscriptions-table`."
)
TABLES: Final = ("endpoints", "subscriptions")
ON_TABLES: Final = ("Read", "Write", "DescribeConfigs")
GRANTED: Final = [
    *(
        Permission(NAME, "topic", topic, operation)
        for topic in TABLES
        for operation in ("Read", "Write", "DescribeConfigs")
    ),
    *(Permission(NAME, "transactional id", f"{topic}-table", "Write") for topic in TABLES),
    *(Permission(NAME, "topic", topic, "Read") for topic in ("deliveries", LOG, UNDELIVERED, "endpoint-status")),
    Permission(NAME, "topic", "delivery-commands", "Write"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secrets = {NAME: f"secret-{uuid.uuid4().hex}"}
    with Secured(tmp_path_factory.mktemp("secured"), secrets).running() as running:
        yield running


def test_the_permissions_of_the_page_are_enough(secured: Secured, tmp_path: Path) -> None:
    assert NAMED in " ".join(PAGE.read_text().split())
    cluster = Cluster(secured.bootstrap_servers, "guarded-")
    for name in LOGS:
        cluster.create(name, PARTITIONS)
    for name in TABLES:
        cluster.create(name, 1, message_timestamp_type="LogAppendTime")
    grant(admin_client(secured.bootstrap_servers, {}), cluster.prefix, GRANTED)
    config = {
        "security.protocol": "sasl_ssl", "ssl.ca.location": str(secured.ca), "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": NAME, "sasl.password": secured.secrets[NAME],
        "transaction.timeout.ms": "60000",
    }  # fmt: skip
    guarded = options(
        cluster, tmp_path, bootstrap_servers=secured.listeners[SCRAM], kafka_config=config, create_topics=False
    )
    with running(cluster, guarded) as site:
        id = site.endpoint()
        subscription = {"endpointId": id, "types": ["*"], "scope": "all"}
        assert site.call("POST", "/v1/subscriptions", subscription).status == 201
        site.append("deliveries", id, stored(delivery(endpoint_id=id)))
        site.append("delivery-log", id, Attempt("msg_1", id, "s1", 1, 1, 1_000, 20, 500))
        site.append("undelivered", id, ended(id, 1))
        for kind in ("messages", "undelivered"):
            assert len(site.call("GET", f"/v1/endpoints/{id}/{kind}").body["messages"]) == 1
        assert len(site.call("GET", f"/v1/endpoints/{id}/messages/msg_1/attempts").body["entries"]) == 1
        assert site.call("GET", f"/v1/endpoints/{id}/status").status == 200
        assert site.call("POST", f"/v1/endpoints/{id}/redeliver", {"dead": True}).status == 202

"""What became of messages: records of a real broker, as the router and workers write them, over real HTTP."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from moneystate.deliver import statuses
from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.history import (
    Attempt,
    Cut,
    Ended,
    Redeliver,
    Redelivered,
    Resume,
    SendTest,
    Undelivered,
    from_json,
)
from moneystate.deliver.interface import pages
from moneystate.deliver.interface.options import Security
from moneystate.deliver.outcomes import Outcome
from moneystate.kafka.partitions import partition_of_key
from tests.deliver.interface.harness import PARTITIONS, Site, options, running
from tests.deliver.interface.test_callers import token
from tests.deliver.made import delivery, stored
from tests.ingest.harness import written
from tests.kafka.logs import Cluster
from tests.query.certificates import Pki


def ended(endpoint: str, number: int, **changes: Any) -> Undelivered:
    its = delivery(delivery_id=f"msg_{number}", endpoint_id=endpoint, **changes)
    return Undelivered(f"msg_{number}", 1, Outcome.DEAD, 1_000 + number, 8, its, 503)


def undelivered(site: Site, endpoint: str, after: int, limit: int = 2, given: str = "") -> Any:
    return site.call("GET", f"/v1/endpoints/{endpoint}/undelivered?after={after}&limit={limit}", token=given).body


def ids(page: Any) -> list[str]:
    return [its["webhookId"] for its in page["messages"]]


def neighbour(endpoint: str) -> str:
    """Another endpoint of the same partition."""
    wanted = partition_of_key(endpoint.encode(), PARTITIONS)
    return next(f"n{n}" for n in range(1_000) if partition_of_key(f"n{n}".encode(), PARTITIONS) == wanted)


def test_what_was_not_delivered_is_fetched_page_by_page(site: Site) -> None:
    id = site.endpoint()
    other = neighbour(id)
    for number in range(5):
        site.append("undelivered", other, ended(other, 100 + number))
        site.append("undelivered", id, ended(id, number, extensions={"trace": "x"}))
    first = undelivered(site, id, 0)
    assert (ids(first), first["last"], first["gap"]) == (["msg_0", "msg_1"], False, False)
    message = first["messages"][0]
    assert base64.b64decode(message["body"]) == delivery().body
    assert (message["outcome"], message["attempts"], message["status"], message["extensions"]) == (
        "DEAD", 8, 503, {"trace": "x"},
    )  # fmt: skip
    second = undelivered(site, id, first["next"])
    third = undelivered(site, id, second["next"])
    assert (ids(second), ids(third), third["last"]) == (["msg_2", "msg_3"], ["msg_4"], True)
    assert ids(undelivered(site, id, third["next"])) == []
    site.append("undelivered", id, ended(id, 5))
    assert ids(undelivered(site, id, third["next"])) == ["msg_5"]


def test_a_page_reads_no_more_than_its_bound_and_says_that_it_is_not_the_last(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SCANNED", 3)
    id = site.endpoint()
    other = neighbour(id)
    for number in range(7):
        site.append("undelivered", other, ended(other, number))
    site.append("undelivered", id, ended(id, 9))
    page = undelivered(site, id, 0)
    read = 0
    while not page["messages"]:
        assert not page["last"]
        page = undelivered(site, id, page["next"])
        read += 1
    assert ids(page) == ["msg_9"]
    assert read >= 2


def test_a_gap_is_said(cluster: Cluster, tmp_path: Path) -> None:
    with running(cluster, options(cluster, tmp_path)) as site:
        id = site.endpoint()
        site.append("undelivered", id, *(ended(id, number) for number in range(6)))
        page = undelivered(site, id, 0)
        cluster.delete_before(cluster.prefix + "undelivered", 4, partition_of_key(id.encode(), PARTITIONS))
        later = undelivered(site, id, page["next"])
        assert (ids(later), later["gap"]) == (["msg_4", "msg_5"], True)


def test_all_messages_of_an_endpoint_can_be_polled(site: Site) -> None:
    id = site.endpoint()
    site.append("deliveries", id, stored(delivery(endpoint_id=id, delivery_id="msg_1")), b"not a delivery")
    site.append("deliveries", id, stored(delivery(endpoint_id=id, delivery_id="msg_2", tenant=None)))
    page = site.call("GET", f"/v1/endpoints/{id}/messages").body
    assert ids(page) == ["msg_1", "msg_2"]
    assert base64.b64decode(page["messages"][1]["body"]) == delivery().body


def test_the_attempts_of_a_message_also_in_a_batch(site: Site) -> None:
    id = site.endpoint()
    site.append(
        "delivery-log", id,
        Cut("b1", id, "s1", "array", ["msg_1", "msg_2"], 1_000),
        Attempt("b1", id, "s1", 1, 1, 1_000, 20, 413),
        Cut("b2", id, "s1", "array", ["msg_1"], 1_001, replaces="b1"),
        Attempt("msg_3", id, "s1", 1, 1, 1_001, 20, 200),
        Attempt("b2", id, "s1", 1, 1, 1_002, 30, None, "no answer"),
        Ended("b2", id, "s1", 1, Outcome.DEAD, 1_003, 1),
        Redelivered("b2", id, "s1", 2, 1_004, "c1"),
    )  # fmt: skip
    entries = site.call("GET", f"/v1/endpoints/{id}/messages/msg_1/attempts").body["entries"]
    assert [(its["kind"], its["webhookId"]) for its in entries] == [
        ("cut", "b1"), ("attempt", "b1"), ("cut", "b2"), ("attempt", "b2"), ("ended", "b2"), ("redelivered", "b2"),
    ]  # fmt: skip
    assert entries[3]["problem"] == "no answer"
    alone = site.call("GET", f"/v1/endpoints/{id}/messages/msg_3/attempts").body["entries"]
    assert [its["status"] for its in alone] == [200]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"ids": ["msg_1"]}, 202),
        ({"since": 5, "until": 6}, 202),
        ({"dead": True}, 202),
        ({}, 400),
        ({"ids": []}, 400),
        ({"ids": ["\ud800"]}, 400),
        ({"since": 5}, 400),
        ({"since": 6, "until": 5}, 400),
        ({"ids": ["msg_1"], "dead": True}, 400),
        ({"since": 5, "dead": True}, 400),
        ({"dead": False}, 400),
    ],
)
def test_a_redelivery_is_asked_of_workers(site: Site, body: dict[str, Any], status: int) -> None:
    id = site.endpoint()
    reply = site.call("POST", f"/v1/endpoints/{id}/redeliver", body)
    assert reply.status == status
    commands = written(site.cluster.bootstrap_servers, site.cluster.prefix + "delivery-commands")
    asked = [r for r in commands if r.key == id.encode()]
    assert len(asked) == (status == 202)
    for record in asked:
        assert record.partition == partition_of_key(id.encode(), PARTITIONS)
        command = from_json(record.value)
        assert isinstance(command, Redeliver)
        assert (command.command_id, command.owner, command.tenants) == (reply.body["commandId"], "acme", None)
        assert (command.ids, command.since_ms, command.until_ms, command.is_dead) == (
            body.get("ids"), body.get("since"), body.get("until"), bool(body.get("dead")),
        )  # fmt: skip


def test_a_test_message_is_asked_of_workers(site: Site) -> None:
    id = site.endpoint()
    reply = site.call("POST", f"/v1/endpoints/{id}/test")
    assert reply.status == 202
    records = written(site.cluster.bootstrap_servers, site.cluster.prefix + "delivery-commands")
    (command,) = [from_json(r.value) for r in records if r.key == id.encode()]
    assert isinstance(command, SendTest)
    assert command.command_id == reply.body["commandId"]


def test_workers_are_asked_to_resume_an_endpoint(site: Site) -> None:
    id = site.endpoint()
    reply = site.call("POST", f"/v1/endpoints/{id}/resume")
    assert reply.status == 202
    records = written(site.cluster.bootstrap_servers, site.cluster.prefix + "delivery-commands")
    (command,) = [from_json(r.value) for r in records if r.key == id.encode()]
    assert isinstance(command, Resume)
    assert (command.command_id, command.owner) == (reply.body["commandId"], "acme")
    assert site.call("POST", "/v1/endpoints/unknown/resume").status == 404


def test_a_token_sees_messages_of_its_tenants_only(cluster: Cluster, tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    security = Security(pki.cert, pki.key, token_key=pki.token_key)
    context = ssl.create_default_context(cafile=pki.ca)
    with running(cluster, options(cluster, tmp_path, security=security), context) as site:
        given = token(pki, tenants=["t1"])
        id = site.endpoint(given)
        for number, tenant in enumerate(["t1", "t2", None, "t1"]):
            site.append("undelivered", id, ended(id, number, tenant=tenant))
            its = delivery(endpoint_id=id, delivery_id=f"msg_{number}", tenant=tenant)
            site.append("deliveries", id, stored(its))
        assert ids(undelivered(site, id, 0, 10, given)) == ["msg_0", "msg_3"]
        assert ids(site.call("GET", f"/v1/endpoints/{id}/messages", token=given).body) == ["msg_0", "msg_3"]
        asked = site.call("POST", f"/v1/endpoints/{id}/redeliver", {"dead": True}, given)
        assert asked.status == 202
        (record,) = written(cluster.bootstrap_servers, cluster.prefix + "delivery-commands")
        command = from_json(record.value)
        assert isinstance(command, Redeliver)
        assert (command.tenants, command.by) == (["owner:acme", "t1"], "tester")


def test_the_status_of_an_endpoint_is_what_workers_last_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SCANNED", 2)
    id = site.endpoint()
    other = neighbour(id)
    path = f"/v1/endpoints/{id}/status"
    working = {"status": "CLOSED", "reason": "", "failures": 0, "failingSince": None}
    assert site.call("GET", path).body == working
    opened, disabled = Breaker(Status.OPEN, 10, 1_000), Breaker(Status.DISABLED, reason="410")
    for _ in range(3):
        site.append("endpoint-status", id, statuses.to_json(id, opened, 2_000))
        site.append("endpoint-status", other, statuses.to_json(other, disabled, 2_000))
    assert site.call("GET", path).body == {"status": "OPEN", "reason": "", "failures": 10, "failingSince": 1_000}
    site.append("endpoint-status", id, statuses.to_json(id, disabled, 3_000))
    assert site.call("GET", path).body == {**working, "status": "DISABLED", "reason": "410"}

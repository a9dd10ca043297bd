"""Endpoints, subscriptions and secrets over real HTTP, and what stands in the tables of a real broker."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from moneystate.deliver.secrets import UnknownSecret, open_store
from tests.deliver.interface.harness import SIGNING, Site, options, running
from tests.ingest.harness import Client
from tests.kafka.logs import Cluster

HOOK = "https://user-hooks.example.com:8443/services/T00/B00?key=hidden"


def last(site: Site, table: str, id: str) -> Any:
    return [value for key, value in site.rows(table) if key == id][-1]


def test_an_endpoint_is_created_read_replaced_and_deleted(site: Site) -> None:
    made = site.call("POST", "/v1/endpoints", {"owner": "acme", "url": HOOK, "headers": {"X-Key": "hidden"}})
    assert made.status == 201
    id = made.body["endpointId"]
    path = f"/v1/endpoints/{id}"
    shown = {
        "endpointId": id, "owner": "acme", "url": "https://user-hooks.example.com:8443/***",
        "headers": {"X-Key": "***"},
    }  # fmt: skip
    assert made.body == shown
    assert site.call("GET", path).body == shown
    assert shown in site.call("GET", "/v1/endpoints").body
    replaced = site.call("PUT", path, {"maxInFlight": 8, "ratePerSecond": 2.5, "paused": True})
    assert replaced.body == {**shown, "maxInFlight": 8, "ratePerSecond": 2.5, "paused": True}
    row = last(site, "endpoints", id)
    assert (row["url"], row["headers"], row["maxInFlight"]) == (HOOK, {"X-Key": "hidden"}, 8)
    assert site.call("PUT", path, {}).body == shown  # what is left out has its default again
    assert site.call("DELETE", path).status == 204
    assert last(site, "endpoints", id)["deleted"] is True
    for method, body in (("GET", None), ("PUT", {}), ("DELETE", None)):
        assert site.call(method, path, body).status == 404


def test_an_id_is_never_used_again(site: Site) -> None:
    given = {"endpointId": "own-id", "owner": "acme", "url": HOOK}
    assert site.call("POST", "/v1/endpoints", given).status == 201
    assert site.call("POST", "/v1/endpoints", given).body["error"] == "ID_USED"
    site.call("DELETE", "/v1/endpoints/own-id")
    assert site.call("POST", "/v1/endpoints", given).body["error"] == "ID_USED"
    subscription = {"subscriptionId": "own-sub", "endpointId": site.endpoint(), "types": ["*"], "scope": "all"}
    assert site.call("POST", "/v1/subscriptions", subscription).status == 201
    assert site.call("DELETE", "/v1/subscriptions/own-sub").status == 204
    assert last(site, "subscriptions", "own-sub") is None
    assert site.call("POST", "/v1/subscriptions", subscription).body["error"] == "ID_USED"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"url": "http://example.com"}, "INVALID_ROW"),
        ({"url": "https://me@example.com"}, "INVALID_ROW"),
        ({"maxInFlight": 0}, "INVALID_ROW"),
        ({"headers": {"Host": "x"}}, "INVALID_ROW"),
        ({"url": "https://example.com/\ud800"}, "INVALID_ROW"),
        ({"secrets": ["absent"]}, "UNKNOWN_SECRET"),
        ({"auth": {"kind": "bearer", "secret": "absent"}}, "UNKNOWN_SECRET"),
        ({"endpointId": "../x"}, "INVALID_REQUEST"),
        ({"maxInFlights": 1}, "INVALID_REQUEST"),
        ({"maxInFlight": "4"}, "INVALID_REQUEST"),
        ({"url": None}, "INVALID_REQUEST"),
    ],
)
def test_an_endpoint_that_breaks_a_rule_is_refused(site: Site, change: dict[str, Any], error: str) -> None:
    reply = site.call("POST", "/v1/endpoints", {"owner": "acme", "url": HOOK, **change})
    assert (reply.status, reply.body["error"]) == (400, error)


def test_a_subscription_is_created_read_replaced_and_deleted(site: Site) -> None:
    endpoint = site.endpoint()
    scope, filter = [{"tenant": "t1"}], {"total": [1.5, None]}
    given = {"endpointId": endpoint, "types": ["order.*"], "scope": scope, "filter": filter}
    made = site.call("POST", "/v1/subscriptions", given)
    id = made.body["subscriptionId"]
    path = f"/v1/subscriptions/{id}"
    assert made.body == {**given, "subscriptionId": id, "owner": "acme"}
    assert site.call("GET", path).body == made.body
    assert site.call("GET", f"/v1/subscriptions?endpoint={endpoint}").body == [made.body]
    replaced = {**given, "mode": "batch", "maxMessages": 10, "filter": None}
    assert site.call("PUT", path, replaced).status == 200
    assert last(site, "subscriptions", id)["maxMessages"] == 10
    assert "filter" not in last(site, "subscriptions", id)
    assert site.call("DELETE", path).status == 204
    assert site.call("GET", path).status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"types": ["a*b"]},  # the router's rule
        {"types": []},
        {"scope": [{"tenant": ""}]},
        {"maxMessages": 0},  # the workers' rule
        {"mode": "several"},
        {"endpointId": "absent"},
        {"endpointId": "other"},
    ],
)
def test_a_subscription_that_breaks_a_rule_is_refused(site: Site, change: dict[str, Any]) -> None:
    if change.get("endpointId") == "other":
        endpoint = site.endpoint(owner="globex")
        given = {"endpointId": site.endpoint(), "types": ["*"], "scope": "all"}
        id = site.call("POST", "/v1/subscriptions", given).body["subscriptionId"]
        assert site.call("PUT", f"/v1/subscriptions/{id}", {**given, "endpointId": endpoint}).status == 400
        return
    reply = site.call(
        "POST", "/v1/subscriptions", {"endpointId": site.endpoint(), "types": ["*"], "scope": "all", **change}
    )
    assert reply.status in (400, 404)


def test_each_change_is_a_load_of_the_table_that_says_how_many_rows_there_are(cluster: Cluster, tmp_path: Path) -> None:
    with running(cluster, options(cluster, tmp_path)) as site:
        assert [value["rows"] for key, value in site.rows("subscriptions") if key is None] == [0]
        first = site.endpoint()
        site.endpoint()
        site.call("PUT", f"/v1/endpoints/{first}", {})
        rows = site.rows("endpoints")
    assert [key is None for key, _ in rows] == [True, False, True, False, True, False, True]
    loads = [value for key, value in rows if key is None]
    assert [(its["type"], its["rows"], its["changed"], its["deleted"]) for its in loads] == [
        ("TableLoaded", 0, 0, 0), ("TableLoaded", 1, 1, 0), ("TableLoaded", 2, 1, 0), ("TableLoaded", 2, 1, 0),
    ]  # fmt: skip
    with running(cluster, options(cluster, tmp_path)) as site:
        assert len(site.rows("endpoints")) == len(rows)  # a table that is there needs no load
        assert first in {its["endpointId"] for its in site.call("GET", "/v1/endpoints").body}


def test_a_writer_that_was_replaced_still_reads(cluster: Cluster, tmp_path: Path) -> None:
    with running(cluster, options(cluster, tmp_path)) as first:
        first.endpoint()
        with running(cluster, options(cluster, tmp_path)) as second:
            id = second.endpoint()
            reply = first.call("POST", "/v1/endpoints", {"owner": "acme", "url": HOOK})
            assert (reply.status, reply.body["error"]) == (503, "ANOTHER_WRITER")
            assert first.call("POST", "/v1/endpoints", {"owner": "acme", "url": HOOK}).body["error"] == "ANOTHER_WRITER"
            assert first.call("GET", f"/v1/endpoints/{id}").status == 200
            assert (first.call("GET", "/v1/health").status, second.call("GET", "/v1/health").status) == (503, 204)
            assert len(second.call("GET", "/v1/endpoints").body) == 2
            second.endpoint()


def test_secrets_are_taken_or_made_and_not_shown_again(cluster: Cluster, tmp_path: Path) -> None:
    with running(cluster, options(cluster, tmp_path)) as site:
        given = site.call("PUT", "/v1/owners/acme/secrets/given", {"value": SIGNING})
        assert given.body == {"name": "given", "value": None}
        made = site.call("PUT", "/v1/owners/acme/secrets/made", {})
        assert made.body["value"].startswith("whsec_")
        assert site.call("GET", "/v1/owners/acme/secrets").body == ["given", "made"]
        assert site.call("GET", "/v1/owners/globex/secrets").body == []
        id = site.endpoint(secrets=["given"], auth={"kind": "bearer", "secret": "made"})
        assert site.call("PUT", "/v1/owners/acme/secrets/given", {"value": "weak"}).status == 400
        assert site.call("DELETE", "/v1/owners/acme/secrets/made").body["error"] == "SECRET_USED"
        rotated = site.call("POST", f"/v1/endpoints/{id}/secrets", {})
        name = rotated.body["name"]
        assert last(site, "endpoints", id)["secrets"] == [name, "given"]
        store = open_store(str(tmp_path / "secrets"))
        assert store.value("acme", name) == rotated.body["value"]
        assert store.value("acme", "given") == SIGNING
        assert site.call("DELETE", f"/v1/endpoints/{id}/secrets/given").status == 204
        assert site.call("DELETE", f"/v1/endpoints/{id}/secrets/{name}").body["error"] == "SECRET_USED"
        assert last(site, "endpoints", id)["secrets"] == [name]
        with pytest.raises(UnknownSecret):
            open_store(str(tmp_path / "secrets")).value("acme", "given")
        shown = str([site.call("GET", path).body for path in ("/v1/endpoints", f"/v1/endpoints/{id}")])
        assert rotated.body["value"] not in shown + str(site.rows("endpoints"))


def test_a_store_of_secrets_that_cannot_be_read_is_said(cluster: Cluster, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    sealed = tmp_path / "secrets.bin"
    with running(cluster, options(cluster, tmp_path, secrets=str(sealed), secrets_key=str(key))) as site:
        assert site.call("PUT", "/v1/owners/acme/secrets/a", {"value": SIGNING}).status == 200
        assert site.endpoint(secrets=["a"])
        sealed.write_bytes(b"other")
        reply = site.call("PUT", "/v1/owners/acme/secrets/b", {"value": SIGNING})
        assert (reply.status, reply.body["error"]) == (503, "UNAVAILABLE")
        assert sealed.read_bytes() == b"other"


def test_requests_that_lead_nowhere(site: Site) -> None:
    assert site.call("GET", "/v1/nothing").body["error"] == "NOT_FOUND"
    assert site.call("DELETE", "/v1/endpoints").body["error"] == "METHOD_NOT_ALLOWED"
    client = Client(site.port)
    large = b'{"url":"' + bytes(2 << 20) + b'"}'
    reply = client.request("POST", "/v1/endpoints", large, {"Content-Type": "application/json"})
    assert (reply.status, reply.body["error"]) == (413, "BODY_TOO_LARGE")
    reply = site.call("POST", "/v1/owners/acme/secrets", {"value": "very-secret"})
    assert "very-secret" not in str(reply)
    reply = site.call("PUT", "/v1/owners/acme/secrets/a", {"values": "very-secret"})
    assert reply.status == 400
    assert "very-secret" not in str(reply)


def test_the_pages_describe_the_requests(site: Site) -> None:
    paths = site.call("GET", "/openapi.json").body["paths"]
    assert {"get", "put", "delete"} <= set(paths["/v1/endpoints/{endpoint_id}"])
    assert site.call("GET", "/docs").status == 200

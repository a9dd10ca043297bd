"""Tokens, owners and tenants over real TLS, and the audit log."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.deliver.interface.options import Security
from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError
from tests.deliver.interface.harness import Site, options, running
from tests.kafka.logs import Cluster
from tests.query.certificates import Pki

BOTH = "delivery.read delivery.write"
URL = "https://example.com/hidden"
T1 = [{"tenant": "t1"}]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="module")
def guarded(broker: DevBroker, pki: Pki, audit: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    security = Security(pki.cert, pki.key, token_key=pki.token_key, token_audience="delivery", audit_log=str(audit))
    cluster = Cluster(broker.bootstrap_servers, f"guarded-{pki.folder.name}-")
    context = ssl.create_default_context(cafile=pki.ca)
    with running(cluster, options(cluster, tmp_path_factory.mktemp("guarded"), security=security), context) as site:
        yield site


def token(pki: Pki, scope: str = BOTH, owner: str = "acme", tenants: list[str] | None = None, **claims: Any) -> str:
    granted = {"aud": "delivery", "delivery_owner": owner, "delivery_tenants": tenants or ["t1"]}
    return pki.token(scope, **{**granted, **claims})


def admin(pki: Pki) -> str:
    return pki.token("delivery.admin", aud="delivery")


def error(site: Site, method: str, path: str, given: str, body: Any = None) -> str:
    reply = site.call(method, path, body, given)
    return reply.body.get("error", "") if isinstance(reply.body, dict) else ""


def test_a_caller_needs_a_token_with_the_scope(guarded: Site, pki: Pki) -> None:
    assert error(guarded, "GET", "/v1/endpoints", "") == "NO_TOKEN"
    assert error(guarded, "GET", "/v1/endpoints", "nonsense") == "BAD_TOKEN"
    assert error(guarded, "GET", "/v1/endpoints", token(pki, aud="other")) == "BAD_TOKEN"
    assert error(guarded, "GET", "/v1/endpoints", token(pki, delivery_tenants="t1")) == "BAD_TOKEN"
    assert error(guarded, "GET", "/v1/endpoints", token(pki, "delivery.write")) == "SCOPE_MISSING"
    assert error(guarded, "POST", "/v1/endpoints", token(pki, "delivery.read"), {"url": URL}) == "SCOPE_MISSING"
    assert error(guarded, "POST", "/v1/endpoints", token(pki), {"url": URL, "owner": "globex"}) == "OWNER_NOT_GRANTED"


def test_an_owner_does_not_see_that_another_one_has_something(guarded: Site, pki: Pki) -> None:
    mine, other = token(pki), token(pki, owner="globex")
    id = guarded.endpoint(mine)
    subscription = guarded.call("POST", "/v1/subscriptions", {"endpointId": id, "types": ["*"], "scope": T1}, mine)
    path = f"/v1/subscriptions/{subscription.body['subscriptionId']}"
    requests: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/endpoints/{id}", None), ("PUT", f"/v1/endpoints/{id}", {}),
        ("DELETE", f"/v1/endpoints/{id}", None),
        ("POST", f"/v1/endpoints/{id}/secrets", {}), ("DELETE", f"/v1/endpoints/{id}/secrets/a", None),
        ("GET", f"/v1/endpoints/{id}/status", None),
        ("GET", f"/v1/endpoints/{id}/undelivered", None), ("GET", f"/v1/endpoints/{id}/messages", None),
        ("GET", f"/v1/endpoints/{id}/messages/m/attempts", None), ("POST", f"/v1/endpoints/{id}/test", None),
        ("POST", f"/v1/endpoints/{id}/resume", None),
        ("POST", f"/v1/endpoints/{id}/redeliver", {"dead": True}),
        ("GET", path, None), ("DELETE", path, None), ("PUT", path, {"endpointId": id, "types": ["*"], "scope": T1}),
        ("POST", "/v1/subscriptions", {"endpointId": id, "types": ["*"], "scope": T1}),
    ]  # fmt: skip
    for method, where, body in requests:
        assert error(guarded, method, where, other, body) == "NOT_FOUND", where
    assert error(guarded, "GET", "/v1/owners/acme/secrets", other) == "OWNER_NOT_GRANTED"
    assert error(guarded, "PUT", "/v1/owners/acme/secrets/a", other, {}) == "OWNER_NOT_GRANTED"
    assert guarded.call("GET", "/v1/endpoints", token=other).body == []
    assert guarded.call("GET", "/v1/subscriptions", token=other).body == []
    assert id in str(guarded.call("GET", "/v1/endpoints", token=admin(pki)).body)


def test_events_of_other_tenants_cannot_be_subscribed_to_or_redirected(guarded: Site, pki: Pki) -> None:
    mine = token(pki)
    id = guarded.endpoint(mine)

    def subscribe(scope: Any, given: str) -> str:
        return error(guarded, "POST", "/v1/subscriptions", given, {"endpointId": id, "types": ["*"], "scope": scope})

    assert subscribe("all", mine) == "TENANT_NOT_GRANTED"
    assert subscribe([{"tenant": "t1"}, {"tenant": "t2"}], mine) == "TENANT_NOT_GRANTED"
    assert subscribe(T1, mine) == ""
    assert guarded.call("PUT", f"/v1/endpoints/{id}", {"url": URL}, mine).status == 200
    assert subscribe([{"tenant": "t2"}], token(pki, tenants=["t2"])) == ""
    for method, path, body in (
        ("PUT", "", {"url": "https://elsewhere.example.com/"}), ("DELETE", "", None), ("POST", "/test", None),
        ("POST", "/resume", None),
        ("POST", "/redeliver", {"dead": True}), ("GET", "/messages/m/attempts", None),
    ):  # fmt: skip
        assert error(guarded, method, f"/v1/endpoints/{id}{path}", mine, body) == "TENANT_NOT_GRANTED"
    assert guarded.call("DELETE", f"/v1/endpoints/{id}", token=token(pki, tenants=["t1", "t2"])).status == 204


def test_the_audit_log_says_who_did_what_without_secrets(guarded: Site, pki: Pki, audit: Path) -> None:
    before = len(audit.read_text().splitlines())
    mine = token(pki, sub="someone")
    id = guarded.endpoint(mine, url=URL)
    guarded.call("PUT", "/v1/owners/acme/secrets/named", {"value": "very-secret"}, mine)
    guarded.call("GET", f"/v1/endpoints/{id}", token=mine)
    guarded.call("GET", f"/v1/endpoints/{id}/undelivered", token=mine)
    guarded.call("DELETE", f"/v1/endpoints/{id}", token=token(pki, owner="globex", sub="other"))
    guarded.call("GET", "/v1/endpoints")
    text = audit.read_text()
    lines = [json.loads(line) for line in text.splitlines()[before:]]
    assert [(line["event"], line["subject"], line["action"], line.get("code")) for line in lines] == [
        ("done", "someone", "create_endpoint", None),
        ("done", "someone", "put_secret", None),
        ("done", "someone", "undelivered", None),
        ("refused", "other", "delete_endpoint", "NOT_FOUND"),
        ("refused", "", "list_endpoints", "NO_TOKEN"),
    ]
    assert (lines[1]["name"], lines[2]["endpoint_id"]) == ("named", id)
    assert "very-secret" not in text
    assert "hidden" not in text


def test_other_machines_need_tls_and_tokens(pki: Pki) -> None:
    with pytest.raises(ConfigError, match="loopback"):
        Security(token_key=pki.token_key).check("0.0.0.0:8443")
    Security(pki.cert, pki.key, token_key=pki.token_key).check("0.0.0.0:8443")


def test_a_caller_may_be_limited(broker: DevBroker, pki: Pki, tmp_path: Path, topic_prefix: str) -> None:
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    with running(cluster, options(cluster, tmp_path, max_requests=0.001)) as site:
        assert site.call("GET", "/v1/endpoints").status == 200
        reply = site.call("GET", "/v1/endpoints")
        assert (reply.status, reply.body["error"]) == (429, "TOO_FAST")
        assert int(reply.headers["retry-after"]) > 0

"""`moneystate ingest` with the permissions that docs/security.md names, and no more: only a broker with ACLs tells."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.kafka.client import admin_client
from tests.ingest.harness import Server, payment, written
from tests.kafka.logs import Cluster
from tests.secured.acls import Permission, grant
from tests.secured.broker import SCRAM, Secured

PREFIX = "guarded-"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
NAMED = (
    "- `ingest` needs Write on the topics that it offers, Read and Write on `ingest-keys`, and Write on the "
    "transactional ids `ingest-keys-*`."
)
GRANTED = [
    Permission("ingest", "topic", "payments", "Write"),
    Permission("ingest", "topic", "orders", "Write"),
    Permission("ingest", "topic", "ingest-keys", "Read"),
    Permission("ingest", "topic", "ingest-keys", "Write"),
    Permission("ingest", "transactional id", "ingest-keys-*", "Write"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secrets = {"ingest": f"secret-{uuid.uuid4().hex}"}
    with Secured(tmp_path_factory.mktemp("secured"), secrets).running() as running:
        yield running


def test_the_permissions_of_the_page_are_enough(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NAMED in " ".join(PAGE.read_text().split())
    cluster = Cluster(secured.bootstrap_servers, PREFIX)
    for name in ("payments", "orders", "ingest-keys"):
        cluster.create(name, 2)
    grant(admin_client(secured.bootstrap_servers, {}), PREFIX, GRANTED)
    for name, value in secured.env("ingest").items():
        monkeypatch.setenv(name, value)
    flags = (*secured.flags(SCRAM, "ingest"), "--no-create-topics", "--format", "payments=json")
    with Server(secured.listeners[SCRAM], PREFIX, *flags) as server:
        client = server.client()
        assert client.post("payments", payment(1)).status == 202
        assert client.post("payments", [payment(2), payment(3)]).status == 202
        assert client.post("payments", payment(4), Idempotency_Key="k").status == 202
        assert server.terminate() == 0
        server.start()
        again = server.client().post("payments", payment(4), Idempotency_Key="k")
        assert again.headers["idempotent-replayed"] == "true"
        assert secured.secrets["ingest"] not in server.output()
    assert len(written(secured.bootstrap_servers, PREFIX + "payments")) == 4

"""`moneystate delivery why` and `audit`: the first on the router itself, the second on a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from moneystate.cli.flag_groups import KafkaFlags
from moneystate.deliver.history import Ended, Record, Redelivered, to_json
from moneystate.deliver.outcomes import Outcome
from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError, JobError, QueryError, SetupError
from moneystate.records.iso_time import from_ms
from moneystate.runtime.plans import plan_of
from moneystate.state.v1 import state_pb2 as s
from services.delivery.cli.commands import ROUTER, audit, why
from tests.deliver.made import delivery, stored
from tests.kafka.logs import Cluster
from tests.services.delivery.test_router import Router

BEGINNING = "2020-01-01T00:00:00Z"
END = "2035-01-01T00:00:00Z"


class Server:
    """Answers as a query server of the router does."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def call(self, name: str, request: s.CallRequest) -> s.CallResponse:
        assert name == "State.Call"
        query = self._router.made.service.queries[request.query]
        plan = plan_of(ROUTER).queries[request.query]
        assert not plan.unknown(set(json.loads(request.arguments)))
        answer = self._router.bench.ask(query, **plan.parse_arguments(request.arguments))
        result = json.loads(plan.result.to_json(plan.result_of(answer)))["value"]
        return s.CallResponse(result=s.Record(json=json.dumps(result)))


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    router = Router()
    router.subscribe("s")
    router.subscribe("t", types=["other"])
    router.subscribe("u", scope=[{"tenant": "t2"}])
    router.send("1", tenant="t1")

    def ask(*words: str, **flags: Any) -> str:
        why(Server(router), *words, **flags)  # type: ignore[arg-type]
        return capsys.readouterr().out

    return ask


def test_why_says_who_got_an_event(asked: Callable[..., str]) -> None:
    lines = asked("orders", "1").splitlines()
    assert lines[1].split()[:4] == ["orders/0/0", "s", "e", "MATCHED"]
    assert len(lines) == 2


def test_why_says_the_first_condition_that_failed(asked: Callable[..., str]) -> None:
    assert "OTHER_TYPE" in asked("orders", "1", subscription="t")
    assert "OTHER_TENANT" in asked("orders", "1", subscription="u")
    (event,) = json.loads(asked("orders", "1", subscription="none", json=True))
    assert event["verdicts"][0]["outcome"] == "NO_SUBSCRIPTION"


def test_an_event_that_the_router_does_not_know_ends_with_code_1(asked: Callable[..., str]) -> None:
    with pytest.raises(QueryError, match="found none") as unknown:
        asked("orders", "2")
    assert unknown.value.exit_code == 1


class Logs:
    """The topics of one router and its workers."""

    def __init__(self, servers: str) -> None:
        self.cluster = Cluster(servers, f"t{uuid.uuid4().hex[:12]}-")
        self.deliveries = self.cluster.create("deliveries", 2)
        self.log = self.cluster.create("delivery-log", 2)

    def delivered(self, partition: int, *ids: str) -> None:
        self.cluster.send(self.deliveries, [stored(delivery(delivery_id=id)) for id in ids], partition)

    def logged(self, partition: int, *records: Record) -> None:
        self.cluster.send(self.log, [to_json(record) for record in records], partition)

    def audit(self, begin: str = BEGINNING, end: str = END, **more: Any) -> None:
        prefix = self.cluster.prefix
        audit(self.cluster.bootstrap_servers, KafkaFlags(), begin, end, prefix, quiet=True, **more)


@pytest.fixture
def logs(broker: DevBroker) -> Logs:
    return Logs(broker.bootstrap_servers)


def ended(id: str, outcome: Outcome = Outcome.DELIVERED) -> Ended:
    return Ended(id, "e1", "s1", 1, outcome, 1_000, 1)


def test_audit_counts_outcomes_over_all_partitions(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.delivered(0, "m1", "m2")
    logs.delivered(1, "m3")
    logs.logged(0, ended("m1"), ended("m2", Outcome.DEAD))
    logs.logged(1, ended("m3", Outcome.OVERFLOW))
    logs.audit(json=True)
    assert json.loads(capsys.readouterr().out) == {
        "deliveries": 3, "runs": 3, "outcomes": {"DELIVERED": 1, "DEAD": 1, "CANCELLED": 0, "OVERFLOW": 1},
        "open": 0, "doubled": 0, "unread": 0, "faults": [],
    }  # fmt: skip


def test_audit_names_what_has_no_outcome_and_ends_with_code_5(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.delivered(0, "m1", "m2", "m3")
    logs.logged(0, ended("m1"), Redelivered("m1", "e1", "s1", 2, 1_000, "c1"), ended("m3"), ended("m3"))
    with pytest.raises(JobError, match="2 without one and 1 with several") as unclean:
        logs.audit()
    assert unclean.value.exit_code == 5
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("orders/")]
    assert [(row[3], row[4]) for row in rows] == [("m2", "1"), ("m3", "1"), ("m1", "2")]


def test_audit_is_of_the_deliveries_of_a_time(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    for at_ms, id in ((1_767_225_600_000, "m1"), (1_767_225_700_000, "m2"), (1_767_225_800_000, "m3")):
        content = stored(delivery(delivery_id=id))
        logs.cluster.send(logs.deliveries, [content], 0, timestamp=at_ms)
    logs.logged(0, ended("m2"))
    logs.audit(from_ms(1_767_225_650_000), from_ms(1_767_225_800_000), json=True)
    assert json.loads(capsys.readouterr().out)["deliveries"] == 1


def test_topics_that_do_not_belong_together_are_refused(broker: DevBroker) -> None:
    cluster = Cluster(broker.bootstrap_servers, f"t{uuid.uuid4().hex[:12]}-")
    cluster.create("deliveries", 2)
    cluster.create("delivery-log", 3)
    with pytest.raises(SetupError, match="expected 2 partitions"):
        audit(cluster.bootstrap_servers, KafkaFlags(), BEGINNING, END, cluster.prefix, quiet=True)
    with pytest.raises(ConfigError, match="after --from"):
        audit(cluster.bootstrap_servers, KafkaFlags(), END, BEGINNING)

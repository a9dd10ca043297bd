"""Changes of an endpoint's status as events that its owner can subscribe to."""

from __future__ import annotations

import json

import pytest

from moneystate.deliver.attempts import Answer
from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.interface.rights import READ, Rights
from moneystate.deliver.status_events import Kind, StatusEvent, headers_of, kinds_of, tenant_of, to_json
from tests.deliver.made import delivery
from tests.deliver.test_dispatcher import OK, T, sent, worker

CLOSED, OPEN = Breaker(), Breaker(Status.OPEN, 10, 5)
WARNED = Breaker(Status.OPEN, 90, 5, is_warned=True)
DISABLED = Breaker(Status.DISABLED, 100, 5, reason="failing")
EVENT = StatusEvent(Kind.DISABLED, "e1", "acme", DISABLED, 1_790_000_000_000)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (CLOSED, Breaker(failures=3), []),
        (CLOSED, OPEN, [Kind.OPENED]),
        (OPEN, Breaker(Status.OPEN, 11, 5), []),
        (OPEN, WARNED, [Kind.WARNED]),
        (WARNED, DISABLED, [Kind.DISABLED]),
        (WARNED, CLOSED, [Kind.CLOSED]),
        (DISABLED, CLOSED, [Kind.ENABLED]),
    ],
)
def test_each_change_is_one_event(before: Breaker, after: Breaker, kinds: list[Kind]) -> None:
    assert kinds_of(before, after) == kinds


def test_a_token_of_the_owner_grants_its_events_and_no_others() -> None:
    rights = Rights(frozenset({READ}), "acme", frozenset({"t1"}))
    assert rights.covers([{"tenant": tenant_of("acme")}, {"tenant": "t1"}])
    assert not rights.covers([{"tenant": tenant_of("other")}])
    assert not Rights(frozenset({READ})).covers([{"tenant": tenant_of("")}])


def test_an_event_is_a_cloud_event_of_its_owners_tenant() -> None:
    assert dict(headers_of(EVENT)) == {
        "ce_specversion": b"1.0", "ce_id": b"e1/1790000000000/disabled", "ce_source": b"moneystate/deliver",
        "ce_type": b"moneystate.endpoint.disabled", "ce_time": b"2026-09-21T14:13:20.000Z", "ce_tenant": b"owner:acme",
        "content-type": b"application/json",
    }  # fmt: skip
    assert json.loads(to_json(EVENT)) == {
        "endpointId": "e1", "owner": "acme", "status": "DISABLED", "reason": "failing", "failingSince": 5,
        "at": 1_790_000_000_000,
    }  # fmt: skip


@pytest.mark.parametrize("failing", [0, 9, 10, 30, 60])
def test_an_endpoint_that_subscribes_to_its_own_events_gets_no_endless_row_of_them(failing: int) -> None:
    """Its first requests fail. Each event about it becomes a delivery to it."""
    made, now_ms, requests = worker(), T, 0
    for n in range(10):
        made.take(delivery(delivery_id=f"m{n}", sequence=f"{n:06d}"), n, T, T)
    kinds: list[Kind] = []
    while made.endpoints["e1"].count:
        now_ms = max(now_ms + 200, made.next_ms() or 0)
        for one in sent(made, now_ms):
            requests += 1
            made.answered(one, OK if requests > failing else Answer(503, 5), now_ms)
        changes = made.collect(now_ms)
        made.committed(changes, now_ms)
        for event in changes.events:
            made.take(delivery(delivery_id=f"about{len(kinds)}", sequence=f"{now_ms}"), now_ms, now_ms, now_ms)
            kinds.append(event.kind)
        assert requests < 1_000
    assert kinds == ([Kind.OPENED, Kind.CLOSED] if failing >= 10 else [])

"""The records of the log, of undelivered messages and of commands come back as they were written."""

from __future__ import annotations

import json

import pytest

from moneystate.deliver.history import (
    Attempt,
    Cut,
    Ended,
    NotARecord,
    Record,
    Redeliver,
    Redelivered,
    SendTest,
    Undelivered,
    from_json,
    to_json,
)
from moneystate.deliver.outcomes import Outcome
from tests.deliver.made import delivery

RECORDS: list[Record] = [
    Cut("msg_b", "e1", "s1", "array", ["msg_1", "msg_2"], 1_000, replaces="msg_a"),
    Attempt("msg_1", "e1", "s1", 1, 2, 1_000, 35, 503, answer="später"),
    Attempt("msg_1", "e1", "s1", 1, 3, 1_000, 15_000, None, problem="no answer within 15000 ms"),
    Ended("msg_1", "e1", "s1", 2, Outcome.DEAD, 1_000, 8, "404"),
    Redelivered("msg_1", "e1", "s1", 2, 1_000, "c1"),
    Undelivered("msg_b", 1, Outcome.OVERFLOW, 1_000, 0, delivery(extensions={"trace": "x"}, department="d")),
    Redeliver("c1", "e1", "acme", "someone", 1_000, ids=["msg_1"], tenants=["t1"]),
    Redeliver("c1", "e1", "acme", "someone", 1_000, since_ms=5, until_ms=6),
    Redeliver("c1", "e1", "acme", "someone", 1_000, is_dead=True),
    SendTest("msg_test_1", "e1", "acme", "someone", 1_000),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_written(record: Record) -> None:
    assert from_json(to_json(record)) == record


def test_the_form_of_an_outcome() -> None:
    assert json.loads(to_json(Ended("msg_1", "e1", "s1", 1, Outcome.DELIVERED, 1_000, 1))) == {
        "kind": "ended", "webhookId": "msg_1", "endpointId": "e1", "subscriptionId": "s1", "run": 1,
        "outcome": "DELIVERED", "at": 1_000, "attempts": 1, "why": "",
    }  # fmt: skip


def test_a_field_that_a_later_version_adds_is_passed_over() -> None:
    value = json.loads(to_json(RECORDS[4]))
    assert from_json(json.dumps({**value, "more": 1}).encode()) == RECORDS[4]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"{",
        b"[]",
        b'{"kind":"other"}',
        b'{"kind":["cut"]}',
        b'{"kind":"redelivered","webhookId":"m"}',
        to_json(RECORDS[4]).replace(b'"run":2', b'"run":"2"'),
        to_json(RECORDS[4]).replace(b'"run":2', b'"run":true'),
        to_json(RECORDS[3]).replace(b"DEAD", b"LOST"),
        to_json(RECORDS[5]).replace(b'"sequence":"', b'"sequences":"'),
    ],
)
def test_another_value_is_refused(value: bytes | None) -> None:
    with pytest.raises(NotARecord):
        from_json(value)

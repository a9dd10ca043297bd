"""Change events of Debezium: with and without their schema, deletions, tombstones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moneystate.testing import Bench
from tests.api.services import mirror
from tests.api.services.mirror import Customer, CustomerChange, CustomerKey, Now, Origin

S = 1_000
TOPIC = "db.public.customers"
ROW = {"customer_id": 7, "first_name": "Eve", "credit": 1.5}
SOURCE = {"version": "2.7.0.Final", "connector": "postgresql", "ts_ms": 3 * S, "table": "customers", "lsn": 24023128}
CREATED = {"before": None, "after": ROW, "source": SOURCE, "op": "c", "ts_ms": 4 * S, "transaction": None}
DELETED = {**CREATED, "before": {"customer_id": 7}, "after": None, "op": "d"}
WRAPPED = {"schema": {"type": "struct", "name": "db.public.customers.Envelope"}, "payload": CREATED}


def bench() -> Bench:
    return Bench(mirror.service, bound_ms=S)


def send(b: Bench, document: Any) -> None:
    b.send_raw(TOPIC, json.dumps(document), key='{"customer_id": 7}')


@pytest.mark.parametrize("document", [CREATED, WRAPPED])
def test_a_change_is_read_with_the_names_of_its_columns(document: Any) -> None:
    b = bench()
    send(b, document)
    assert b.out(mirror.now) == [Now("7", "Eve")]
    b.end()


def test_a_deletion_has_the_key_of_the_row_before_it() -> None:
    b = bench()
    send(b, CREATED)
    send(b, DELETED)
    assert (b.out(mirror.now), b.dead_letters()) == ([Now("7", "Eve"), Now("7", None)], [])
    assert b.state(mirror.known, "7") == mirror.Known()
    b.end()


def test_a_tombstone_is_ignored_and_does_not_advance_time() -> None:
    b = bench()
    send(b, CREATED)
    b.send_raw(TOPIC, None, key='{"customer_id": 7}')
    assert (b.dead_letters(), b.count("ignored"), b.latest) == ([], 1, 3 * S)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({**CREATED, "op": "t", "after": None}, "malformed"),
        ({**CREATED, "after": {"customerId": 7, "firstName": "Eve"}}, "malformed"),
        ({"schema": None, "payload": None}, "malformed"),
        ({**DELETED, "before": None}, "bad_key"),
        ([CREATED], "malformed"),
    ],
)
def test_what_is_no_change_of_a_row_is_a_dead_letter(document: Any, reason: str) -> None:
    b = bench()
    send(b, document)
    assert b.dead_letters() == [reason]


def test_a_heartbeat_is_recognised() -> None:
    b = bench()
    b.send_raw(TOPIC, '{"type": "Heartbeat", "processedAt": 9000}')
    assert (b.dead_letters(), b.latest) == ([], 9 * S)


def test_a_change_can_be_sent_as_it_is_declared() -> None:
    b = bench()
    b.send(
        CustomerChange(CustomerKey(7), None, "d", Origin(S)), CustomerChange(None, Customer(8, "Bo"), "r", Origin(S))
    )
    assert [made.customer_id for made in b.out(mirror.now)] == ["7", "8"]

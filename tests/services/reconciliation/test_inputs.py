"""Topics that are read as one role of a store."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from moneystate.errors import ServiceError
from moneystate.testing import Bench
from services.reconciliation.config import Config, Fields, InputConfig, Pair, Side
from services.reconciliation.records import Finding, InventoryItem
from services.reconciliation.service import reconciliation

T = 1_700_000_000_000
ISO = "2023-11-14T22:13:20.000Z"
PAIR = Pair("p", Side("shop", "PRODUCER_EXPECTED"), Side("bank", "ACTUAL"), n_ms=1_000, m_ms=5_000, o_ms=60_000)
SPLIT = {"parts": "parts", "filtered": "left_out", "derived_from": "of", "derived_from_source": "of_region"}
FIELDS = Fields("payment.id", "region", "at", **SPLIT)
UUID = "5f0c1e9a-6a2b-4a8e-9d2e-2f4b7c1d0e3f"
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "payment", "type": {"type": "record", "name": "Id", "fields": [{"name": "id", "type": "long"}]}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}, "default": UUID},
        {"name": "region", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def bench(**given: Any) -> Bench:
    inputs = (InputConfig(), InputConfig("payments", store="bank", role="ACTUAL", **given))
    return Bench(reconciliation(Config(inputs=inputs, pairs=(PAIR,))), bound_ms=100_000)


def told(b: Bench) -> list[tuple[str, str, str, str | None]]:
    findings: list[Finding] = b.out(b.service.outputs[0])
    return [(f.kind, f.source, f.event_id, f.item_id) for f in findings]


def send(b: Bench, item: InventoryItem) -> None:
    b.send(item, to=b.service.inputs[0])


def later(b: Bench) -> None:
    send(b, InventoryItem("x", "x", "x", "ACTUAL", T + 3_000))


def test_a_cloud_event_says_all_in_its_headers_and_its_value_is_not_decoded() -> None:
    b = bench()
    for time, id in ((ISO, "1"), (str(T), "2")):
        b.send_raw("payments", b"\xff\xff", headers={"ce_id": id, "ce_source": "/eu", "ce_time": time})
    b.send_raw("payments", None, headers={"ce_id": "3", "ce_source": "/eu", "ce_time": ISO})
    b.send_raw("payments", b"{}", headers={"ce_id": "4", "ce_source": "/eu"})
    later(b)
    assert told(b) == [("UNEXPECTED", "/eu", id, id) for id in "123"]
    assert b.dead_letters() == ["malformed"]


def test_fields_of_a_json_value() -> None:
    b = bench(fields=FIELDS)
    b.send_raw("payments", json.dumps({"payment": {"id": 7}, "region": "eu", "at": ISO}))
    split = {
        "payment": {"id": "8"},
        "region": "eu",
        "at": T,
        "of": "7x",
        "of_region": "us",
        "parts": 3,
        "left_out": True,
    }
    b.send_raw("payments", json.dumps({**split, "left_out": False}))
    send(b, InventoryItem("shop", "us", "7y", "PRODUCER_EXPECTED", T, parts=9))
    b.send_raw("payments", json.dumps({**split, "of": "7y"}))
    later(b)
    assert sorted(told(b)) == [("UNEXPECTED", "eu", "7", "7"), ("UNEXPECTED", "us", "7x", "8")]


@pytest.mark.parametrize(
    "value",
    [
        "[]", "{", "null", b"\xff", '{"payment":{},"region":"e","at":1}', '{"payment":{"id":1.5},"region":"e","at":1}',
        '{"payment":{"id":true},"region":"e","at":1}', '{"payment":{"id":"1"},"region":"e"}',
        '{"payment":{"id":"1"},"region":"e","at":"yesterday"}', '{"payment":{"id":"1"},"region":"e","at":1,"parts":0}',
        '{"payment":{"id":"1"},"region":"e","at":1,"left_out":1}', '{"payment":{"id":"1"},"region":{},"at":1}',
    ],
)  # fmt: skip
def test_what_has_no_such_fields_is_one_dead_letter(value: str | bytes) -> None:
    b = bench(fields=FIELDS)
    b.send_raw("payments", value)
    later(b)
    assert (b.dead_letters(), told(b)) == (["malformed"], [])


def avro(record: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, SCHEMA, record)
    header = bytes.fromhex(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))
    return b"\xc3\x01" + header + body.getvalue()


def test_fields_of_an_avro_value() -> None:
    fields = Fields("payment.id", "region", "at")
    b = bench(fields=fields, format="avro", schema=json.dumps(SCHEMA))
    value = avro({"payment": {"id": 7}, "region": "eu", "at": datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC)})
    b.send_raw("payments", value)
    for wrong in (value[:-1], value + b"x", b"\xc3\x01" + b"x" * 20):
        b.send_raw("payments", wrong)
    later(b)
    assert told(b) == [("UNEXPECTED", "eu", "7", "7")]
    assert b.dead_letters() == ["malformed", "trailing_bytes", "unknown_schema"]
    assert b.out(b.service.outputs[0])[0].event_time == T


def test_an_id_in_avro_may_be_a_uuid() -> None:
    b = bench(fields=Fields("uuid", "region", "at"), format="avro", schema=json.dumps(SCHEMA))
    time = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    b.send_raw("payments", avro({"payment": {"id": 7}, "uuid": UUID, "region": "eu", "at": time}))
    later(b)
    assert told(b) == [("UNEXPECTED", "eu", UUID, UUID)]


def test_inventory_items_may_leave_out_store_and_role_where_the_topic_says_them() -> None:
    b = bench()
    b.send_raw("payments", json.dumps({"type": "InventoryItem", "source": "eu", "eventId": "1", "eventTime": ISO}))
    mine = {"source": "eu", "eventId": "2", "eventTime": T, "store": "shop", "role": "PRODUCER_EXPECTED"}
    b.send_raw("payments", json.dumps(mine))
    for wrong in ({**mine, "role": "X"}, {"type": "Other"}, {**mine, "parts": 0}, {"eventId": "3"}, 3):
        b.send_raw("payments", json.dumps(wrong))
    later(b)
    assert sorted(told(b)) == [("MISSING", "eu", "2", None), ("UNEXPECTED", "eu", "1", "1")]
    assert b.dead_letters() == ["malformed", "unknown_schema", "malformed", "malformed", "malformed"]


def test_an_avro_topic_of_inventory_items_can_be_a_role_of_a_store() -> None:
    b = bench(format="avro")
    b.send_raw("payments", b.plan.codec(InventoryItem, "").encode(InventoryItem("bank", "eu", "1", "ACTUAL", T)))
    b.send_raw("payments", b"\xc3\x01" + b"x" * 20)
    b.send_raw("payments", None)
    later(b)
    assert told(b) == [("UNEXPECTED", "eu", "1", "1")]
    assert b.dead_letters() == ["unknown_schema", "null_value"]


def test_heartbeats_let_time_pass_in_such_a_topic_too() -> None:
    b = bench(fields=FIELDS)
    b.send_raw("payments", json.dumps({"type": "Heartbeat", "processedAt": ISO}))
    assert (b.latest, b.dead_letters()) == (T, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"store": ""}, {"role": None}, {"role": None, "store": "", "fields": FIELDS},
        {"format": "confluent", "schema": json.dumps(SCHEMA)},
        {"format": "avro", "fields": FIELDS}, {"fields": FIELDS, "schema": "{}"},
        {"format": "avro", "fields": FIELDS, "schema": "{}"}, {"format": "avro", "fields": FIELDS, "schema": "x"},
        {"schema": json.dumps(SCHEMA)}, {"schemas": (json.dumps(SCHEMA),)},
        {"format": "avro", "fields": FIELDS, "schema": json.dumps(SCHEMA), "schemas": ("x",)},
    ],
)  # fmt: skip
def test_an_input_that_cannot_be_right_is_refused(wrong: dict[str, Any]) -> None:
    given = InputConfig(**{"topic": "payments", "store": "bank", "role": "ACTUAL", **wrong})
    with pytest.raises(ServiceError, match=r"^service 'reconciliation': input 'payments': .* Do: "):
        reconciliation(Config(inputs=(given,), pairs=(PAIR,)))

"""Schemas whose array items take no bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.records.avro_types import parse
from moneystate.records.empty_items import has_empty_items
from services.reconciliation.avro_values import confluent_record
from services.reconciliation.config import Config, Fields, InputConfig, Pair, Side
from services.reconciliation.service import reconciliation

NOTHING: dict[str, Any] = {"type": "record", "name": "Nothing", "fields": []}
NOTHINGS = {
    "null": "null",
    "record": NOTHING,
    "nested": {
        "type": "record",
        "name": "Outer",
        "fields": [{"name": "n", "type": NOTHING}, {"name": "o", "type": "null"}],
    },
    "fixed": {"type": "fixed", "name": "F", "size": 0},
}
SOMETHINGS = {
    "union": ["null", "string"],
    "branch": ["null"],
    "array": {"type": "array", "items": "string"},
    "map": {"type": "map", "values": "null"},
    "field": {
        "type": "record",
        "name": "One",
        "fields": [{"name": "n", "type": "null"}, {"name": "o", "type": "boolean"}],
    },
    "fixed": {"type": "fixed", "name": "F", "size": 1},
    "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
}


def schema_with(items: Any, wrap: bool = False) -> dict[str, Any]:
    tags: Any = {"type": "array", "items": items}
    if wrap:
        tags = [
            "null",
            {"type": "map", "values": {"type": "record", "name": "W", "fields": [{"name": "t", "type": tags}]}},
        ]
    names = {"time": "long", "src": "string", "id": "string"}
    fields = [{"name": name, "type": type_} for name, type_ in names.items()]
    return {"type": "record", "name": "P", "fields": [*fields, {"name": "tags", "type": tags}]}


def declare(schema: dict[str, Any]) -> None:
    fields = Fields("id", "src", "time")
    given = InputConfig(
        "payments", format="avro", store="bank", role="ACTUAL", fields=fields, schema=json.dumps(schema)
    )
    pair = Pair("p", Side("s", "PRODUCER_EXPECTED"), Side("bank", "ACTUAL"), 1, 2, 3)
    reconciliation(Config(inputs=(given,), pairs=(pair,)))


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("items", NOTHINGS.values(), ids=NOTHINGS)
def test_a_configured_schema_is_refused(items: Any, wrap: bool) -> None:
    with pytest.raises(ServiceError, match="items take no bytes"):
        declare(schema_with(items, wrap))


@pytest.mark.parametrize("items", SOMETHINGS.values(), ids=SOMETHINGS)
def test_items_with_bytes_are_not(items: Any) -> None:
    declare(schema_with(items, wrap=True))


def test_a_record_of_a_registered_schema_is_rejected_before_it_is_read() -> None:
    class Registered(ms.Message):
        def schema(self) -> str:
            return json.dumps(schema_with("null"))

    value = b"\0\0\0\0\1" + b"\x02\x02s\x02i" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\0"  # 2^63 - 1 items
    with pytest.raises(ms.Reject, match="unknown_schema"):
        confluent_record(Registered("payments", 0, 0, -1, None, value, {}), value)


def test_a_name_is_followed_and_a_record_may_hold_itself() -> None:
    named = [{"name": "n", "type": NOTHING}, {"name": "l", "type": {"type": "array", "items": "Nothing"}}]
    assert has_empty_items(parse({"type": "record", "name": "A", "fields": named}))
    tree = [{"name": "n", "type": "int"}, {"name": "l", "type": {"type": "array", "items": "T"}}]
    assert not has_empty_items(parse({"type": "record", "name": "T", "fields": tree}))
    endless = [{"name": "l", "type": {"type": "array", "items": "B"}}]
    assert not has_empty_items(parse({"type": "record", "name": "B", "fields": endless}))

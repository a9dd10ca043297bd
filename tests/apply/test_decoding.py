"""Records of all formats become the same plain values."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from moneystate.apply.column_types import ColumnType, wanted
from moneystate.apply.decoding import decoder, record_of
from moneystate.apply.records import HEARTBEAT, OTHER_TYPE, Delete, Ignored, Put, Record, Refused
from moneystate.apply.value_types import Day, Time
from moneystate.errors import ConfigError
from moneystate.records.avro_types import fingerprint, parse
from moneystate.records.codec import Codec
from moneystate.records.platform_records import HEARTBEAT_RECORD, Heartbeat
from moneystate.records.types import Millis
from tests.formats.registry_server import RegistryServer

SCHEMA: dict[str, Any] = {
    "type": "record", "name": "Sale", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "soldAt", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "box", "type": ["null", {"type": "record", "name": "Box", "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}}]}], "default": None},
    ],
}  # fmt: skip
OTHER = {"type": "record", "name": "Other", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}
RAW = {"id": "a", "price": (150).to_bytes(2, "big", signed=True), "soldAt": 7, "tags": ["x"], "box": {"day": 3}}
PLAIN = {"id": "a", "price": Decimal("1.50"), "soldAt": Time(7), "tags": ["x"], "box": {"day": Day(3)}}


def body(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(_without_logical(schema)), value)
    return out.getvalue()


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical(part) for name, part in schema.items() if name != "logicalType"}
    return [_without_logical(part) for part in schema] if isinstance(schema, list) else schema


@pytest.fixture
def schemas(tmp_path: Path) -> str:
    for schema in (SCHEMA, OTHER):
        (tmp_path / f"{schema['name']}.avsc").write_text(json.dumps(schema))
    return str(tmp_path)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def record(value: bytes | None) -> Record:
    return Record("sales", 0, 0, b"a", value)


def single_object(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    return b"\xc3\x01" + fingerprint(parse(schema)) + body(schema, value)


def test_avro_and_confluent_values_are_the_same_plain_values(schemas: str, registry: RegistryServer) -> None:
    avro = decoder("sales", "avro", "Sale", "", schemas, "")
    assert avro(record(single_object(SCHEMA, RAW))) == Put(PLAIN)
    id = registry.add(SCHEMA)
    confluent = decoder("sales", "confluent", "shop.Sale", "", schemas, registry.url)
    assert confluent(record(struct.pack(">bI", 0, id) + body(SCHEMA, RAW))) == Put(PLAIN)


def test_other_types_are_ignored_and_bytes_that_do_not_decode_are_refused(schemas: str) -> None:
    read = decoder("sales", "avro", "Sale", "", schemas, "")
    assert read(record(single_object(OTHER, {"n": 1}))) == Ignored(OTHER_TYPE)
    assert read(record(None)) == Delete()
    with pytest.raises(Refused, match="trailing_bytes"):
        read(record(single_object(SCHEMA, RAW) + b"x"))


def test_a_heartbeat_has_no_effect_in_any_format(schemas: str) -> None:
    beat = b'{"type":"Heartbeat","processedAt":"2026-01-01T00:00:00Z"}'
    for value_format in ("json", "debezium"):
        assert decoder("t", value_format, "", "", "", "")(record(beat)) == Ignored(HEARTBEAT)
    codec = Codec(HEARTBEAT_RECORD)
    avro = decoder("sales", "avro", "Sale", "", schemas, "")
    assert avro(record(codec.encode(Heartbeat(Millis(7))))) == Ignored(HEARTBEAT)


def test_columns_follow_the_schema(schemas: str) -> None:
    sale = record_of("Sale", "", schemas)
    assert sale is not None
    types = {f.name: wanted(f.type) for f in sale.fields}
    assert types == {
        "id": (ColumnType("text"), False),
        "price": (ColumnType("numeric", precision=10, scale=2), False),
        "soldAt": (ColumnType("timestamptz"), True),
        "tags": (ColumnType("_text", item=ColumnType("text")), False),
        "box": (ColumnType("jsonb"), True),
    }


def test_a_type_that_the_schemas_do_not_have_is_refused(schemas: str) -> None:
    with pytest.raises(ConfigError, match=r"one of shop\.Other, shop\.Sale"):
        decoder("sales", "avro", "Sold", "", schemas, "")
    with pytest.raises(ConfigError, match="expected Avro schemas"):
        decoder("sales", "avro", "Sale", "", "/nowhere", "")


AS_JSON = {"type": "Sale", "id": "a", "price": 1.50, "soldAt": "1970-01-01T00:00:00.007Z", "tags": ["x"], "new": {}}


def test_json_with_schemas_has_their_plain_values_and_defaults(schemas: str) -> None:
    read = decoder("sales", "json", "Sale", "", schemas, "")
    assert read(record(json.dumps(AS_JSON | {"box": {"day": 3}}).encode())) == Put(PLAIN)
    short = {name: AS_JSON[name] for name in ("type", "id", "price")}
    first, second = (read(record(json.dumps(short).encode())) for _ in range(2))
    assert first == second == Put(PLAIN | {"soldAt": None, "tags": [], "box": None})
    assert isinstance(first, Put)
    assert isinstance(second, Put)
    assert first.fields["tags"] is not second.fields["tags"]
    assert read(record(b'{"type":"Other","n":1}')) == Ignored(OTHER_TYPE)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"price": 1.505}, "malformed: price: more than 2 places"),
        ({"price": "1.5"}, "malformed: price: not a number"),
        ({"tags": [1]}, "malformed: tags: not a text"),
        ({"box": {}}, "malformed: box.day: missing"),
        ({"id": None}, "malformed: id: not a text"),
        ({"type": "Gone"}, "unknown_schema: type 'Gone'"),
        ({"type": 7}, "malformed: type: not a text"),
    ],
)
def test_json_that_a_schema_does_not_allow_is_refused(schemas: str, changes: dict[str, Any], why: str) -> None:
    read = decoder("sales", "json", "Sale", "", schemas, "")
    with pytest.raises(Refused) as refused:
        read(record(json.dumps(AS_JSON | changes).encode()))
    assert f"{refused.value.reason}: {refused.value.detail}" == why


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ({"name": "f", "type": ["string", "long"]}, "another union"),
        ({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}, "Avro's fixed"),
        ({"name": "type", "type": "string"}, "a field type"),
    ],
)
def test_a_schema_that_json_cannot_have_is_refused_at_the_start(
    tmp_path: Path, field: dict[str, Any], problem: str
) -> None:
    (tmp_path / "Odd.avsc").write_text(json.dumps({"type": "record", "name": "Odd", "fields": [field]}))
    with pytest.raises(ConfigError, match=problem):
        decoder("odd", "json", "Odd", "", str(tmp_path), "")


def test_a_decimal_default_in_json_is_a_number(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    fields = [
        {"name": "fee", "type": decimal, "default": "\x00\xfa"},
        {"name": "tip", "type": [decimal, "null"], "default": "\x05"},
        {"name": "tax", "type": ["null", decimal], "default": None},
    ]
    (tmp_path / "Fees.avsc").write_text(json.dumps({"type": "record", "name": "Fees", "fields": fields}))
    read = decoder("fees", "json", "Fees", "", str(tmp_path), "")
    assert read(record(b'{"type":"Fees"}')) == Put({"fee": Decimal("2.50"), "tip": Decimal("0.05"), "tax": None})


def test_avro_without_schemas_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected the schemas of the records"):
        decoder("sales", "avro", "Sale", "", "", "")

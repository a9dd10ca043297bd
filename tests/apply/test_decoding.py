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
from moneystate.apply.decoding import decoder, schema_of
from moneystate.apply.records import HEARTBEAT, OTHER_TYPE, Delete, Ignored, Put, Record, Refused
from moneystate.apply.value_types import Day, Time
from moneystate.errors import ConfigError
from moneystate.kafka.formats.schemas import fingerprint_of
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
    return b"\xc3\x01" + fingerprint_of(schema) + body(schema, value)


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
    source = schema_of("Sale", "", schemas)
    assert source is not None
    types = {f["name"]: wanted(f["type"], {}) for f in source["fields"]}
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

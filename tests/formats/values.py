"""Values for the tests, encoded by fastavro: an implementation of Avro other than the one under test."""

from __future__ import annotations

import struct
from decimal import Decimal
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer
from hypothesis import strategies as st

from moneystate.engine.processor import Rejected
from moneystate.records.schema_set import SchemaSet, TypeSchema
from moneystate.runtime.json_topic import JsonTopic
from moneystate.schemas.topic_schemas import schema_set
from tests.enrichment import topics
from tests.enrichment.jobs import SERVICE

SET = schema_set(SERVICE)
BY_NAME = {t.name: t for t in SET.by_fingerprint.values()}
NAMES = sorted(BY_NAME)
JSON = JsonTopic(topics.PLAN, "wallet-events")  # it knows the types of all topics
DECIMAL_LIMIT = 10**20 - 1
LONG = st.integers(-(2**63), 2**63 - 1)
EDGES = st.sampled_from([sign * 2**bits + step for bits in range(65) for sign in (-1, 1) for step in (-1, 0, 1)])

PAYMENT: dict[str, Any] = {
    "id": "m-1",
    "userId": "u-1",
    "userSessionId": None,
    "processedAt": 1_608_076_800_123,
    "amount": Decimal("12.5"),
    "currency": "EUR",
    "openingBalance": Decimal(100),
    "closingBalance": Decimal("-0.0001"),
    "moneyType": "CARD",
    "paymentRelatedThing": "käse ✓",
    "isOldMoneyEvent": False,
}


def shortest(unscaled: int) -> bytes:
    """Two's complement in as few bytes as hold it. fastavro takes bytes for a decimal as they are."""
    size = next(n for n in range(1, 20) if -(1 << 8 * n - 1) <= unscaled < 1 << 8 * n - 1)
    return unscaled.to_bytes(size, "big", signed=True)


def any_datum(type_schema: TypeSchema) -> st.SearchStrategy[Any]:
    return datums(parse_schema(type_schema.source))


def datums(schema: Any) -> st.SearchStrategy[Any]:
    """Any value of a schema as parse_schema returns it."""
    if isinstance(schema, list):
        return st.one_of([datums(branch) for branch in schema])
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    if schema["type"] == "record":
        return st.fixed_dictionaries({field["name"]: datums(field["type"]) for field in schema["fields"]})
    if schema["type"] == "enum":
        return st.sampled_from(schema["symbols"])
    if schema.get("logicalType") == "decimal":
        return (st.integers(-DECIMAL_LIMIT, DECIMAL_LIMIT) | EDGES).map(shortest)
    return datums(schema["type"])


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": LONG,
    "string": st.text(),
}


def body_of(schema: Any, datum: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), datum)
    return out.getvalue()


def canonical(type_schema: TypeSchema, datum: Any) -> bytes:
    return type_schema.prefix + body_of(type_schema.source, datum)


def named(schemas: SchemaSet, name: str) -> TypeSchema:
    return next(t for t in schemas.by_fingerprint.values() if t.name == name)


def payment(schemas: SchemaSet, **changes: Any) -> bytes:
    return canonical(named(schemas, "PaymentEvent"), PAYMENT | changes)


def framed(schema_id: int, body: bytes) -> bytes:
    """A value as Confluent's serializers write it."""
    return b"\x00" + struct.pack(">I", schema_id) + body


def reason(call: Any, value: bytes | None) -> str:
    """Why `call` refuses the value, "" if it does not."""
    try:
        call(value)
    except Rejected as refused:
        return refused.reason
    return ""

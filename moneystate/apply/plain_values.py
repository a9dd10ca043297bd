"""Avro bodies as the plain values that rows and handlers take."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader

from moneystate.apply.column_types import full_name
from moneystate.apply.value_types import Day, Time
from moneystate.engine.avro import HEADER_BYTES
from moneystate.kafka.formats.schemas import TypeSchema

Convert = Callable[[Any], Any]


class PlainReader:
    """Reads values of one schema. fastavro reads the underlying types, because its own times and decimals fail for
    values that Avro allows; the meaning is added here."""

    def __init__(self, schema: TypeSchema) -> None:
        self._raw = schema.raw
        self._convert = converter(schema.parsed, {})

    def read(self, value: bytes) -> dict[str, Any]:
        """The fields of a value in canonical form, which has been checked."""
        fields: Any = schemaless_reader(BytesIO(value[HEADER_BYTES:]), self._raw, None)
        plain: dict[str, Any] = fields if self._convert is None else self._convert(fields)
        return plain


def converter(schema: Any, named: dict[str, Convert | None]) -> Convert | None:
    """Returns what makes plain values of raw ones; None: they are plain already. Records may contain themselves."""
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return named.get(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        scale = schema.get("scale", 0)
        return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale)
    if logical == "timestamp-millis":
        return Time
    if logical == "date":
        return Day
    if kind == "record":
        return _record(schema, named)
    if kind == "array":
        item = converter(schema["items"], named)
        return None if item is None else _list(item)
    if kind == "map":
        item = converter(schema["values"], named)
        return None if item is None else _map(item)
    return None if isinstance(kind, str) else converter(kind, named)


def _union(branches: list[Any], named: dict[str, Convert | None]) -> Convert | None:
    others = [branch for branch in branches if branch != "null"]
    inner = converter(others[0], named) if len(others) == 1 else None
    return None if inner is None else _nullable(inner)


def _list(item: Convert) -> Convert:
    return lambda raw: [item(one) for one in raw]


def _map(item: Convert) -> Convert:
    return lambda raw: {name: item(one) for name, one in raw.items()}


def _nullable(inner: Convert) -> Convert:
    return lambda raw: None if raw is None else inner(raw)


def _record(schema: Any, named: dict[str, Convert | None]) -> Convert:
    parts: list[tuple[str, Convert]] = []

    def convert(raw: Any) -> Any:
        for name, part in parts:
            raw[name] = part(raw[name])
        return raw

    named[schema["name"]] = named[full_name(schema)] = convert
    for field in schema["fields"]:
        part = converter(field["type"], named)
        if part is not None:
            parts.append((field["name"], part))
    return convert

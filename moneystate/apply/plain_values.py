"""Avro bodies as the plain values that rows and handlers take."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader

from moneystate.apply.value_types import Day, Time
from moneystate.engine.avro import HEADER_BYTES
from moneystate.records.avro_types import (
    ArrayType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    Type,
    UnionType,
    canonical_form,
)

Convert = Callable[[Any], Any]


class PlainReader:
    """Reads values of one schema. fastavro reads the underlying types, because its own times and decimals fail for
    values that Avro allows; the meaning is added here."""

    def __init__(self, schema_type: Type) -> None:
        self._raw = parse_schema(json.loads(canonical_form(schema_type)))  # it has no logical types
        self._convert = _Converters().of(schema_type)

    def read(self, value: bytes) -> Any:
        """The fields of a value in canonical form, which has been checked."""
        return self.read_body(value[HEADER_BYTES:])

    def read_body(self, body: bytes) -> Any:
        raw: Any = schemaless_reader(BytesIO(body), self._raw, None)
        return raw if self._convert is None else self._convert(raw)


class _Converters:
    """What makes plain values of raw ones; None: they are plain already."""

    def __init__(self) -> None:
        self.records: dict[int, Convert] = {}  # by the identity of the type: records may contain themselves

    def of(self, one: Type) -> Convert | None:
        if isinstance(one, UnionType):
            return self._union(one)
        if isinstance(one, RecordType):
            return self._record(one)
        if isinstance(one, ArrayType):
            item = self.of(one.items)
            return None if item is None else lambda raw: [item(part) for part in raw]
        if isinstance(one, MapType):
            value = self.of(one.values)
            return None if value is None else lambda raw: {name: value(part) for name, part in raw.items()}
        return _leaf(one) if isinstance(one, (PrimitiveType, FixedType)) else None

    def _union(self, union: UnionType) -> Convert | None:
        others = [branch for branch in union.branches if branch.kind != "null"]
        inner = self.of(others[0]) if len(others) == 1 else None
        return None if inner is None else lambda raw: None if raw is None else inner(raw)

    def _record(self, record: RecordType) -> Convert:
        if id(record) in self.records:
            return self.records[id(record)]
        parts: list[tuple[str, Convert]] = []

        def convert(raw: Any) -> Any:
            for name, part in parts:
                raw[name] = part(raw[name])
            return raw

        self.records[id(record)] = convert
        for f in record.fields:
            part = self.of(f.type)
            if part is not None:
                parts.append((f.name, part))
        return convert


def _leaf(one: PrimitiveType | FixedType) -> Convert | None:
    if one.logical == "decimal":
        return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-one.scale)
    return {"timestamp-millis": Time, "date": Day}.get(one.logical)

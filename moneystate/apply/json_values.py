"""JSON objects as the plain values that rows and handlers take, by an Avro schema.

The rules are those of services' topics (docs/model.md, section 4): unknown members are ignored, a field with a default
may be absent, and a decimal is exact.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from functools import partial
from typing import Any, Final

from moneystate.apply.plain_values import PlainReader
from moneystate.apply.value_types import Day, Time
from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError
from moneystate.records import json_parts
from moneystate.records.avro_types import (
    ArrayType,
    EnumType,
    MapType,
    PrimitiveType,
    RecordField,
    RecordType,
    Type,
    UnionType,
)
from moneystate.records.member_runs import OTHER, Member, read_members
from moneystate.records.rewriting import default_bytes

Read = Callable[[Any], Any]
"""A plain value from one of a parsed document. Raises Malformed."""


def _float_in(value: Any) -> float:
    number = json_parts.double_in(value)
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Malformed("a number out of range") from None
    return number


_PLAIN: Final[dict[str, Read]] = {
    "string": json_parts.string_in,
    "boolean": json_parts.boolean_in,
    "int": json_parts.int_in,
    "long": json_parts.long_in,
    "float": _float_in,
    "double": json_parts.double_in,
    "bytes": json_parts.bytes_in,
}


def json_reader(record: RecordType) -> Read:
    """Raises ConfigError for a schema with a type that JSON cannot hold."""
    return _Readers().of(record)


class _Readers:
    def __init__(self) -> None:
        self.records: dict[int, Read] = {}  # by the identity of the type: records may contain themselves

    def of(self, one: Type) -> Read:
        if isinstance(one, UnionType):
            others = [branch for branch in one.branches if branch.kind != "null"]
            if len(others) != 1 or len(one.branches) != 2:
                raise _unfit("unions of null and one type", "another union")
            return json_parts.maybe_in(self.of(others[0]))
        if isinstance(one, RecordType):
            return self._record(one)
        if isinstance(one, ArrayType):
            return json_parts.array_in(self.of(one.items))
        if isinstance(one, MapType):
            return json_parts.table_in(self.of(one.values))
        if isinstance(one, EnumType):
            return json_parts.symbol_in(one.symbols)
        if not isinstance(one, PrimitiveType) or one.kind == "null":
            raise _unfit("types that JSON can hold", f"Avro's {one.kind}")
        return _leaf(one)

    def _record(self, record: RecordType) -> Read:
        if id(record) in self.records:
            return self.records[id(record)]
        members: list[Member] = []

        def read(document: Any) -> dict[str, Any]:
            if type(document) is not dict:
                raise Malformed("not an object")
            values: dict[str, Any] = {}
            read_members(values, document, members)
            return values

        self.records[id(record)] = read
        members += [(f.name, f.name, OTHER, self.of(f.type), _default(f), ()) for f in record.fields]
        return read


def _leaf(one: PrimitiveType) -> Read:
    if one.logical == "decimal":
        read = json_parts.unscaled_in(one.precision, one.scale)
        return lambda value: Decimal(int.from_bytes(read(value), "big", signed=True)).scaleb(-one.scale)
    if one.logical == "timestamp-millis":
        return lambda value: Time(json_parts.millis_in(value))
    if one.logical == "date":
        return lambda value: Day(json_parts.int_in(value))
    return _PLAIN[one.kind]


def _default(f: RecordField) -> Callable[[], Any] | None:
    if not f.has_default:
        return None
    return partial(deepcopy, PlainReader(f.type).read_body(default_bytes(f.type, f.default)))


def _unfit(expected: str, kind: str) -> ConfigError:
    return ConfigError(f"format json: expected {expected}, found {kind}.", "leave the topic in plain Avro.")

"""The value format `json`: one object with `type` and the fields of the schema (docs/model.md, section 4)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import ConfigError
from moneystate.kafka.formats.base import Undecodable
from moneystate.kafka.formats.json_fields import Carrier, record_carrier
from moneystate.kafka.formats.schemas import SchemaSet, TypeSchema
from moneystate.records.json_text import decoded

_WHITESPACE = " \t\n\r"  # JSON's, which is less than Python's


class JsonFormat:
    """Objects such as `{"type":"Heartbeat","processedAt":"2020-12-16T00:00:00.000Z"}` in UTF-8.

    Reading: members that the schema does not name are ignored, because producers may be newer than this program. A
    field with a default may be absent. Null is valid only where the schema allows it. Times are ISO-8601 text with an
    offset, never numbers. Decimals are exact: a number that does not fit into four places and 20 digits does not
    decode; zeros at the end are harmless (1.50000 is 1.5). A name twice in one object, NaN and half of a surrogate pair
    do not decode. A byte order mark is skipped.

    Writing: `type` first, then all fields in the schema's order. Times are in UTC to the millisecond, decimals have all
    of their places.
    """

    name = "json"

    def __init__(self, schemas: SchemaSet) -> None:
        self._schemas = schemas
        self._by_name = schemas.by_name()
        self._carriers = {name: _top_level(type_schema) for name, type_schema in self._by_name.items()}

    def __reduce__(self) -> tuple[type[JsonFormat], tuple[SchemaSet]]:
        return JsonFormat, (self._schemas,)

    def to_canonical(self, value: bytes | None) -> bytes:
        document = _parse(value)
        if type(document) is not dict:
            raise Undecodable("malformed", "not an object")
        type_name = document.get("type")
        if type(type_name) is not str:
            raise Undecodable("malformed", "type: not a text" if "type" in document else "type: missing")
        type_schema = self._by_name.get(type_name)
        if type_schema is None:
            raise Undecodable("unknown_schema", f"type {type_name[:100]!r}")
        out = bytearray(type_schema.prefix)
        try:
            self._carriers[type_name].encode(document, out)
        except Malformed as error:
            raise Undecodable("malformed", str(error)) from None
        return bytes(out)

    def from_canonical(self, value: bytes) -> bytes:
        type_schema = self._schemas.open(value)
        text, _ = self._carriers[type_schema.name].render(value, HEADER_BYTES)
        return text.encode()


def _top_level(type_schema: TypeSchema) -> Carrier:
    if any(field["name"] == "type" for field in type_schema.parsed["fields"]):
        raise ConfigError(
            f"{type_schema.name}: expected no field named type, which the format json needs, found one.",
            "rename the field.",
        )
    return record_carrier(type_schema.parsed, {}, type_schema.name)


def _parse(value: bytes | None) -> object:
    if value is None:
        raise Undecodable("null_value")
    try:
        text = decoded(value).strip(_WHITESPACE)
    except Malformed as error:
        raise Undecodable("malformed", str(error)) from None
    try:
        document, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        raise Undecodable("malformed", f"not JSON: {error.msg} at character {error.pos}") from None
    except Malformed as error:
        raise Undecodable("malformed", f"not JSON: {error}") from None
    except (ValueError, ArithmeticError):  # from int and Decimal
        raise Undecodable("malformed", "a number beyond all bounds") from None
    except RecursionError:
        raise Undecodable("malformed", "nested too deeply") from None
    if end != len(text):
        raise Undecodable("trailing_bytes", "more text after the object")
    return document


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Rejects objects with a name twice: parsers differ in which of the two members counts."""
    unique = dict(members)
    if len(unique) != len(members):
        raise Malformed("a name stands twice in one object")
    return unique


def _no_constant(name: str) -> None:
    raise Malformed(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal, parse_int=int, parse_constant=_no_constant)

"""Values of Debezium's change events, as the fields of a record take them.

Debezium encodes columns: a time is a number of days, milli-, micro- or nanoseconds, a decimal is base64 of a number
without its scale, JSON is a text. Only the schema of the event, if it has one, says which (https://debezium.io,
"Data type mappings"). Here a value becomes the JSON that a field of its type is read from. What could mean several
things without the schema is refused.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.records import iso_time
from moneystate.records.json_number import Number
from moneystate.records.json_parts import inside, long_in
from moneystate.records.json_text import parse
from moneystate.records.shapes import MILLIS_KIND, Array, Exact, Maybe, Plain, Record, Shape, Table

ROWS: Final = ("before", "after")
MAX_SCALE: Final = 1_000
DAY_MS: Final = 86_400_000

_CONNECT: Final = "org.apache.kafka.connect.data."
_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
# Converts its units to ms: multiply by the first number, divide by the second.
_UNITS: Final = {
    f"{_TIME}Date": (DAY_MS, 1), f"{_TIME}Time": (1, 1), f"{_TIME}MicroTime": (1, 1_000),
    f"{_TIME}NanoTime": (1, 1_000_000), f"{_TIME}Timestamp": (1, 1), f"{_TIME}MicroTimestamp": (1, 1_000),
    f"{_TIME}NanoTimestamp": (1, 1_000_000), f"{_CONNECT}Date": (DAY_MS, 1), f"{_CONNECT}Time": (1, 1),
    f"{_CONNECT}Timestamp": (1, 1),
}  # fmt: skip
# Times as texts: what makes an ISO-8601 time of them. A time of the day is one of 1970-01-01, as numbers of it are
_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    f"{_TIME}ZonedTimestamp": str,
    f"{_TIME}IsoTimestamp": str,
    f"{_TIME}ZonedTime": "1970-01-01T{}".format,
    f"{_TIME}IsoTime": "1970-01-01T{}".format,
    f"{_TIME}IsoDate": lambda text: f"{text.removesuffix('Z')}T00:00:00Z",
}
_DECIMALS: Final = (f"{_CONNECT}Decimal", f"{_DATA}VariableScaleDecimal")
_ENVELOPE: Final = {"ts_ms": (1, 1), "ts_us": (1, 1_000), "ts_ns": (1, 1_000_000)}  # Debezium's own times, by name
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
Schema = Mapping[str, Any]  # of Kafka Connect, in JSON; empty: the event has none for the value


def converted(record: Record, payload: Any, schema: Any) -> Any:
    """The members of a change event, as `record` reads them. Raises Malformed, which names the field."""
    if type(payload) is not dict:
        return payload
    schemas = _fields(schema)
    members = dict(payload)
    for f in record.fields:
        value = payload.get(f.column)
        if value is not None:
            unit = None if f.name in ROWS else _ENVELOPE.get(f.name)
            members[f.column] = _member(f.name, f.shape, value, schemas.get(f.column, {}), f.name in ROWS, unit)
    return members


def row_converted(record: Record, row: Any, schema: Any) -> Any:
    """Works like `converted`, for a row alone. `schema`: of the row."""
    return _record(record, row, schema if isinstance(schema, dict) else {}, True)


def _member(name: str, shape: Shape, value: Any, schema: Any, in_row: bool, unit: tuple[int, int] | None) -> Any:
    try:
        return _value(shape, value, schema if isinstance(schema, dict) else {}, in_row, unit)
    except Malformed as e:
        raise inside(name, e) from None


def _value(shape: Shape, value: Any, schema: Schema, in_row: bool, unit: tuple[int, int] | None = None) -> Any:
    if value is None:
        return None
    if isinstance(shape, Maybe):
        return _value(shape.inner, value, schema, in_row, unit)
    if isinstance(shape, Record):
        return _record(shape, value, schema, in_row)
    if isinstance(shape, Array) and type(value) is list:
        return [_value(shape.inner, item, _part(schema, "items"), in_row) for item in value]
    if isinstance(shape, Table) and type(value) is dict:
        values = _part(schema, "values")
        return {name: _value(shape.inner, item, values, in_row) for name, item in value.items()}
    name = schema.get("name")
    if isinstance(shape, Exact):
        return _decimal(value, schema)
    if not isinstance(shape, Plain):
        return value
    if shape.kind == MILLIS_KIND:
        return _millis(value, schema, in_row, unit)
    if shape.kind == "json":
        return _json(value, schema, in_row)
    if name in _DECIMALS:
        return _decimal_as(shape.kind, value, schema)
    if name == f"{_DATA}Bits":
        return _bits_as(shape.kind, value)
    return value


def _record(shape: Record, value: Any, schema: Schema, in_row: bool) -> Any:
    if type(value) is not dict:
        return value
    schemas = _fields(schema)
    members = dict(value)
    for f in shape.fields:
        if value.get(f.column) is not None:
            unit = None if in_row else _ENVELOPE.get(f.name)
            members[f.column] = _member(f.name, f.shape, value[f.column], schemas.get(f.column, {}), in_row, unit)
    return members


def _fields(schema: Any) -> dict[str, Any]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}


def _part(schema: Schema, name: str) -> Schema:
    part = schema.get(name)
    return part if isinstance(part, dict) else {}


# Times


def _millis(value: Any, schema: Schema, in_row: bool, unit: tuple[int, int] | None) -> Any:
    name = schema.get("name")
    if isinstance(name, str):
        if name in _TEXTS:
            return _in_range(iso_time.to_ms(_TEXTS[name](_text(value))))
        if name not in _UNITS:
            raise Malformed(f"{name} is not a point in time; declare the column as str or int")
        unit = _UNITS[name]
    if type(value) is str:
        return value  # ISO-8601
    if unit is None and not schema and in_row:
        raise Malformed("a time as a number needs the schema, which has its unit; let the converter write schemas")
    if unit is None and not schema:
        raise Malformed("a time as a number of an unknown unit; declare it as int")
    multiplier, divisor = unit or (1, 1)
    return _in_range(long_in(value) * multiplier // divisor)


def _in_range(time_ms: int) -> Number:
    if not MIN_EVENT_TIME <= time_ms <= MAX_EVENT_TIME:
        raise Malformed("a time outside the years 1 to 9999")
    return Number(time_ms)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Malformed("not a text")
    return value


# Numbers


def _decimal(value: Any, schema: Schema) -> Any:
    """The number as JSON writes it: from base64 and a scale, from an object of both, or from a text of digits."""
    if type(value) is dict and value.keys() == {"scale", "value"}:
        return _scaled(value["value"], long_in(value["scale"]))
    if type(value) is not str:
        return value
    if schema.get("name") == f"{_CONNECT}Decimal":
        scale = _part(schema, "parameters").get("scale")
        return _scaled(value, _scale(scale))
    if not schema:
        raise Malformed("a decimal as a text needs the schema, which has its scale; let the converter write schemas")
    if schema.get("type") != "string" or not _NUMBER.fullmatch(value):
        raise Malformed("not a number")
    return Number(value)


def _scale(text: Any) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        raise Malformed("a decimal without a scale") from None


def _scaled(encoded: Any, scale: int) -> Number:
    if abs(scale) > MAX_SCALE:
        raise Malformed(f"a decimal of more than {MAX_SCALE:,} places")
    unscaled = int.from_bytes(_bytes(encoded), "big", signed=True)
    try:
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
    except ValueError:  # Python's limit
        raise Malformed("a decimal of too many digits") from None
    return Number(format(decimal.Decimal((int(unscaled < 0), digits, -scale)), "f"))


def _bytes(encoded: Any) -> bytes:
    try:
        return base64.b64decode(_text(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("not base64") from None


def _decimal_as(kind: str, value: Any, schema: Schema) -> Any:
    """A decimal in a field of another type."""
    number = _decimal(value, schema)
    if type(number) is not Number or kind == "double":
        return number
    if kind == "string":
        return str(number)
    if kind == "long":
        whole, _, places = number.partition(".")
        if places.strip("0"):
            raise Malformed("a decimal with places; declare ms.Decimal")
        return Number(whole)
    raise Malformed("a decimal; declare ms.Decimal")


def _bits_as(kind: str, value: Any) -> Any:
    """A bit string, whose first byte has the lowest bits."""
    if kind not in ("long", "boolean"):
        return value
    number = int.from_bytes(_bytes(value), "little")
    if kind == "long":
        return Number(number)
    if number > 1:
        raise Malformed("more than one bit; declare int")
    return number == 1


# JSON


def _json(value: Any, schema: Schema, in_row: bool) -> Any:
    if schema.get("name") == f"{_DATA}Json":
        return parse(_text(value))
    if type(value) is str and not schema and in_row:
        raise Malformed("a text without a schema, which would tell a text from JSON; declare str")
    return value

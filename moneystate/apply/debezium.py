"""Debezium's change events as rows: `after` and `op`, with the types that the event's schema gives the columns.

Debezium encodes columns: a time is a number of some unit, a decimal base64 without its scale. Only the schema in the
event says which. Without it (`schemas.enable=false`) such columns become dead letters where a column needs the meaning.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from moneystate.apply.records import EMPTY, HEARTBEAT, Decoded, Delete, Fields, Ignored, Put, Refused
from moneystate.apply.value_types import KEPT, Day, Time, Unitless
from moneystate.records.json_number import Number
from moneystate.records.types import Unavailable
from moneystate.runtime.unavailable import Placeholder

_CONNECT: Final = "org.apache.kafka.connect.data."
_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
_HEARTBEAT: Final = "io.debezium.connector.common.Heartbeat"
_WRAPPER: Final = {"schema", "payload"}
PUTS: Final = ("c", "u", "r")
NO_ROW: Final = ("m",)  # a logical decoding message


class ChangeReader:
    """Reads change events in JSON, with or without their schema. `document`: the parsed value."""

    def __init__(self, placeholder: str = Unavailable().placeholder) -> None:
        self._placeholder = Placeholder(placeholder)

    def read(self, document: Any, key: Any) -> Decoded:
        """`key`: the parsed Kafka key. Raises Refused."""
        payload, schema = unwrapped(document)
        if payload is None:
            return Ignored(EMPTY)  # a tombstone in a wrapper; the event of the deletion stands before it
        if type(payload) is not dict:
            raise Refused("malformed", "not an object")
        op = payload.get("op")
        if op is None:
            if payload.keys() == {"ts_ms"} or (type(schema) is dict and schema.get("name") == _HEARTBEAT):
                return Ignored(HEARTBEAT)
            raise Refused("malformed", "op: missing")
        if op in PUTS:
            return Put(self._row(payload.get("after"), _part_of(schema, "after")))
        if op == "d":
            return Delete(self.key_fields(key))
        if op in NO_ROW:
            return Ignored("message")
        if op == "t":
            raise Refused("truncated", "the table was truncated; empty the target's table by hand, or rebuild it")
        raise Refused("malformed", "op: none of c, u, r, d, t, m")

    def key_fields(self, key: Any) -> Fields | None:
        """The columns of the Kafka key; None: it is not an object."""
        payload, schema = unwrapped(key)
        return self._row(payload, schema) if type(payload) is dict else None

    def _row(self, row: Any, schema: Any) -> Fields:
        if type(row) is not dict:
            raise Refused("malformed", "after: not an object")
        types = _fields(schema)
        return {name: self._value(name, value, types.get(name)) for name, value in row.items()}

    def _value(self, name: str, value: Any, schema: Mapping[str, Any] | None) -> Any:
        if value is None:
            return None
        if self._placeholder.is_in(value):
            return KEPT
        if schema is None:
            return Unitless(value) if type(value) is Number else value
        try:
            return typed(value, schema)
        except (ValueError, TypeError, KeyError, ArithmeticError):
            raise Refused("malformed", f"{name}: not as its schema says") from None


def unwrapped(document: Any) -> tuple[Any, Any]:
    """The payload and its schema; None: it has none."""
    if type(document) is dict and "payload" in document and document.keys() <= _WRAPPER:
        return document["payload"], document.get("schema")
    return document, None


def typed(value: Any, schema: Mapping[str, Any]) -> Any:
    """A column's value with the meaning that its schema gives it. Raises ValueError and its like."""
    name, kind = schema.get("name"), schema.get("type")
    if name in _TYPED:
        return _TYPED[name](value, schema)
    if kind == "bytes":
        return _bytes(value)
    if kind == "array" and type(value) is list:
        items = schema.get("items") or {}
        return [None if item is None else typed(item, items) for item in value]
    return value


def _part_of(schema: Any, name: str) -> Any:
    return _fields(schema).get(name)


def _fields(schema: Any) -> dict[str, Any]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}


def _time(multiplier: int, divisor: int) -> Callable[[Any, Mapping[str, Any]], Any]:
    return lambda value, _: Time(int(value) * multiplier // divisor)


def _day(value: Any, _: Mapping[str, Any]) -> Day:
    return Day(int(value))


def _decimal(value: Any, schema: Mapping[str, Any]) -> Decimal:
    if type(value) is not str:
        return Decimal(value)  # decimal.handling.mode=double
    return _scaled(value, int(schema["parameters"]["scale"]))


def _own_scale(value: Any, _: Mapping[str, Any]) -> Decimal:
    return _scaled(value["value"], int(value["scale"]))


def _scaled(encoded: Any, scale: int) -> Decimal:
    unscaled = int.from_bytes(_bytes(encoded), "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _bytes(encoded: Any) -> bytes:
    if type(encoded) is not str:
        raise ValueError("not base64")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


_TYPED: Final[dict[Any, Callable[[Any, Mapping[str, Any]], Any]]] = {
    f"{_TIME}Date": _day,
    f"{_CONNECT}Date": _day,
    f"{_TIME}Timestamp": _time(1, 1),
    f"{_CONNECT}Timestamp": _time(1, 1),
    f"{_TIME}MicroTimestamp": _time(1, 1_000),
    f"{_TIME}NanoTimestamp": _time(1, 1_000_000),
    f"{_CONNECT}Decimal": _decimal,
    f"{_DATA}VariableScaleDecimal": _own_scale,
}

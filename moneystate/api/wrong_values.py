"""Finds the field whose value cannot be encoded, after encoding has failed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from moneystate.api.avro_parts import LONG_MAX, LONG_MIN, Unencodable, unscaled
from moneystate.api.json_value import Json
from moneystate.api.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

_PYTHON: Final[dict[str, type]] = {
    "string": str, "long": int, "millis": int, "double": float, "boolean": bool, "bytes": bytes, "json": Json,
}  # fmt: skip


def wrong_value(record: Record, value: Any) -> str | None:
    """The error line: record and field, what was expected, what was found. None: all values are valid."""
    return _wrong(record, value, record.cls.__name__)


def wrong_default(shape: Shape) -> str | None:
    """The same for the defaults of a record's fields, and for the records in it."""
    if isinstance(shape, Record):
        for f in shape.fields:
            where = f"{shape.cls.__name__}.{f.name}, its default"
            own_line = None if f.default is None else _wrong(f.shape, f.default(), where)
            if line := own_line or wrong_default(f.shape):
                return line
    return wrong_default(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else None


def _wrong(shape: Shape, value: Any, where: str) -> str | None:
    if isinstance(shape, Maybe):
        return None if value is None else _wrong(shape.inner, value, where)
    if isinstance(shape, Record):
        if type(value) is not shape.cls:
            return _line(where, shape.cls.__name__, value)
        inside = [_wrong(f.shape, getattr(value, f.name), f"{where}.{f.name}") for f in shape.fields]
        return next((line for line in inside if line is not None), None)
    if isinstance(shape, Array):
        if not isinstance(value, list):
            return _line(where, "list", value)
        inside = [_wrong(shape.inner, item, f"{where}[{n}]") for n, item in enumerate(value)]
        return next((line for line in inside if line is not None), None)
    if isinstance(shape, Table):
        if not isinstance(value, dict):
            return _line(where, "dict", value)
        keys = [_wrong(Plain("string"), key, f"a key of {where}") for key in value]
        inside = [*keys, *(_wrong(shape.inner, item, f"{where}[{key!r}]") for key, item in value.items())]
        return next((line for line in inside if line is not None), None)
    return _wrong_part(shape, value, where)


def _wrong_part(shape: Shape, value: Any, where: str) -> str | None:
    if isinstance(shape, Symbols):
        return None if value in shape.symbols else _line(where, f"one of {', '.join(shape.symbols)}", value)
    if isinstance(shape, Exact):
        if not isinstance(value, Decimal):
            return _line(where, "Decimal", value)
        try:
            unscaled(value, shape.digits.precision, shape.digits.scale)
        except Unencodable as e:
            digits = f"at most {shape.digits.precision} digits, {shape.digits.scale} of them after the point"
            return f"{_line(where, digits, value)} ({e})"
        return None
    assert isinstance(shape, Plain)
    expected = _PYTHON[shape.kind]
    if not isinstance(value, expected) and not (expected is float and isinstance(value, int)):
        return _line(where, expected.__name__, value)
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        return _line(where, "a number of at most 64 bits", value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return _line(where, "a string that UTF-8 can encode", value)
    return None


def _line(where: str, expected: str, value: Any) -> str:
    shown = repr(value)
    return f"{where}: expected {expected}, found {shown if len(shown) <= 60 else shown[:57] + '...'}."

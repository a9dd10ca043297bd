"""Finds the field whose value cannot be encoded, after encoding has failed."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from operator import index
from typing import Any, Final

from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.records.avro_parts import (
    BOOLEANS,
    INT_MAX,
    INT_MIN,
    Unencodable,
    bytes_of,
    double_of,
    items_of,
    long_of,
    members_of,
    unscaled,
)
from moneystate.records.json_value import Json
from moneystate.records.shapes import MILLIS_KIND, Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

_PYTHON: Final[dict[str, type]] = {
    "string": str, "long": int, "millis": int, "double": float, "boolean": bool, "bytes": bytes, "json": Json,
}  # fmt: skip


def wrong_value(record: Record, value: Any, in_json: bool = False) -> str | None:
    """The error line: record and field, what was expected, what was found. None: all values are valid. `in_json`: they
    must have a form in JSON."""
    return _wrong(record, value, record.cls.__name__, in_json)


def wrong_default(shape: Shape) -> str | None:
    """Does the same for the defaults of a record's fields, and for the records in it."""
    if isinstance(shape, Record):
        for f in shape.fields:
            where = f"{shape.cls.__name__}.{f.name}, its default"
            own_line = None if f.default is None else _wrong(f.shape, f.default(), where)
            if line := own_line or wrong_default(f.shape):
                return line
    return wrong_default(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else None


def _wrong(shape: Shape, value: Any, where: str, in_json: bool = False) -> str | None:
    if isinstance(shape, Maybe):
        return None if value is None else _wrong(shape.inner, value, where, in_json)
    if isinstance(shape, Record):
        if not isinstance(value, shape.cls):
            return _line(where, shape.cls.__name__, value)
        inside = [_wrong(f.shape, getattr(value, f.name), f"{where}.{f.name}", in_json) for f in shape.fields]
        return next((line for line in inside if line is not None), None)
    if isinstance(shape, Array):
        if not _takes(items_of, value):
            return _line(where, "list", value)
        inside = [_wrong(shape.inner, item, f"{where}[{n}]", in_json) for n, item in enumerate(value)]
        return next((line for line in inside if line is not None), None)
    if isinstance(shape, Table):
        if not _takes(members_of, value):
            return _line(where, "dict", value)
        keys = [_wrong(Plain("string"), key, f"a key of {where}") for key in value]
        inside = [*keys, *(_wrong(shape.inner, item, f"{where}[{key!r}]", in_json) for key, item in value.items())]
        return next((line for line in inside if line is not None), None)
    line = _wrong_part(shape, value, where)
    return _wrong_in_json(shape, value, where) if line is None and in_json else line


def _wrong_in_json(shape: Shape, value: Any, where: str) -> str | None:
    if shape == Plain("double") and not math.isfinite(value):
        return _line(where, "a finite number, because the output is JSON", value)
    if shape == Plain(MILLIS_KIND) and not MIN_EVENT_TIME <= value <= MAX_EVENT_TIME:
        return _line(where, "a time in the years 1 to 9999, because the output is JSON", value)
    return None


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
    if shape.kind == "string":
        return _wrong_string(value, where)
    if _takes(_WRITERS[shape.kind], value):
        fits = shape.bits == 64 or INT_MIN <= value <= INT_MAX
        return None if fits else _line(where, "a number of at most 32 bits", value)
    too_large = shape.kind in ("long", "millis", "double") and _takes(index, value)
    return _line(where, "a number of at most 64 bits" if too_large else _PYTHON[shape.kind].__name__, value)


def _wrong_string(value: Any, where: str) -> str | None:
    if not isinstance(value, str):
        return _line(where, "str", value)
    return None if _takes(str.encode, value) else _line(where, "a string that UTF-8 can encode", value)


def _json_of(value: Any) -> Json:
    if not isinstance(value, Json):
        raise TypeError
    return value


# These encode a value of a kind as the generated codecs do.
_WRITERS: Final[dict[str, Callable[[Any], Any]]] = {
    "long": long_of, "millis": long_of, "double": double_of, "boolean": BOOLEANS.__getitem__, "bytes": bytes_of,
    "json": _json_of,
}  # fmt: skip


def _takes(convert: Callable[[Any], Any], value: Any) -> bool:
    try:
        convert(value)
    except (Unencodable, TypeError, ValueError, LookupError):
        return False
    return True


def _line(where: str, expected: str, value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        shown = "a number with too many digits"
    return f"{where}: expected {expected}, found {shown if len(shown) <= 60 else shown[:57] + '...'}."

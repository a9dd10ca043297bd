"""Runtime helpers that generated JSON codecs and `transcoder` call for single values. They are as strict on types as
the Avro schema."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records import iso_time
from moneystate.records.avro_parts import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Unencodable, unscaled, whole_bytes
from moneystate.records.json_number import Number
from moneystate.records.json_text import quote
from moneystate.records.json_value import Json, json_in_record

MISSING: Final = object()
_DIGITS_OF_A_LONG: Final = 19
_SYMBOL: Final = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)


def string_in(value: Any) -> str:
    if type(value) is not str:
        raise Malformed("not a text")
    return value


def long_in(value: Any) -> int:
    if type(value) is not Number or not value.lstrip("-").isdigit() or len(value) > _DIGITS_OF_A_LONG + 1:
        raise Malformed("not a whole number of at most 64 bits")
    number = int(value)
    if number < LONG_MIN or number > LONG_MAX:
        raise Malformed("not a whole number of at most 64 bits")
    return number


def int_in(value: Any) -> int:
    number = long_in(value)
    if number < INT_MIN or number > INT_MAX:
        raise Malformed("not a whole number of at most 32 bits")
    return number


def millis_in(value: Any) -> int:
    """ISO-8601 or integer milliseconds."""
    if type(value) is str:
        return iso_time.to_ms(value)
    if type(value) is not Number:
        raise Malformed("neither an ISO-8601 time nor milliseconds")
    return long_in(value)


def double_in(value: Any) -> float:
    if type(value) is not Number:
        raise Malformed("not a number")
    number = float(value)
    if math.isinf(number):
        raise Malformed("a number out of range")
    return number


def boolean_in(value: Any) -> bool:
    if type(value) is not bool:
        raise Malformed("neither true nor false")
    return value


def bytes_in(value: Any) -> bytes:
    """Base64."""
    try:
        return base64.b64decode(string_in(value), validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("not base64") from None


def json_in(value: Any) -> Json:
    return json_in_record(value)


def exact_in(precision: int, scale: int) -> Callable[[Any], Decimal]:
    return lambda value: _number_in(value, precision, scale)[0]


def unscaled_in(precision: int, scale: int) -> Callable[[Any], bytes]:
    return lambda value: whole_bytes(_number_in(value, precision, scale)[1])


def _number_in(value: Any, precision: int, scale: int) -> tuple[Decimal, int]:
    """The number, and its unscaled value."""
    if type(value) is not Number:
        raise Malformed("not a number")
    try:
        number = Decimal(value)
        return number, unscaled(number, precision, scale)
    except ArithmeticError:
        raise Malformed("a number out of range") from None
    except Unencodable as e:
        raise Malformed(str(e)) from None


def symbol_in(symbols: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if type(value) is not str or value not in symbols:
            raise unknown_symbol(value, symbols)
        return value

    return read


def unknown_symbol(value: Any, symbols: Sequence[str]) -> Malformed:
    """Names the value if it looks like a symbol: other texts may be personal."""
    shown = f", but {value}" if type(value) is str and _SYMBOL.fullmatch(value) else ""
    return Malformed("not one of " + ", ".join(symbols) + shown)


def maybe_in(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def array_in(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Malformed("not an array")
        return [convert(item) for item in value]

    return read


def table_in(convert: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Malformed("not an object")
        return {key: convert(item) for key, item in value.items()}

    return read


def long_out(value: int) -> str:
    if value < LONG_MIN or value > LONG_MAX:
        raise Unencodable("a number of more than 64 bits")
    return int.__repr__(value)


def millis_out(value: int) -> str:
    long_out(value)
    return f'"{iso_time.from_ms(value)}"'


def double_out(value: float) -> str:
    if not math.isfinite(value):
        raise Unencodable("JSON cannot represent this number")
    return float.__repr__(value)


def double_shown(value: float) -> str:
    """A number in an answer, where a topic would not take it: as protobuf's JSON has infinite numbers."""
    if math.isfinite(value):
        return float.__repr__(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def boolean_out(value: bool) -> str:
    return "true" if value else "false"


def bytes_out(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def json_out(value: Json) -> str:
    return value.text


def exact_out(precision: int, scale: int) -> Callable[[Decimal], str]:
    """The number with all of its decimal places."""
    return lambda value: _number_out(unscaled(value, precision, scale), scale)


def unscaled_out(scale: int) -> Callable[[bytes], str]:
    """The number whose unscaled value the bytes are, with all of its decimal places. It may have more digits than the
    schema says: Avro's readers do not count them."""
    return lambda value: _number_out(int.from_bytes(value, "big", signed=True), scale)


def _number_out(whole: int, scale: int) -> str:
    digits = str(Decimal(abs(whole))).rjust(scale + 1, "0")  # an int's text is limited in its length
    sign = "-" if whole < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def symbol_out(symbols: tuple[str, ...]) -> Callable[[str], str]:
    texts = {symbol: quote(symbol) for symbol in symbols}

    def write(value: str) -> str:
        if value not in texts:
            raise Unencodable(f"expected one of {', '.join(symbols)}, found {value!r}")
        return texts[value]

    return write


def inside(name: str, error: Malformed) -> Malformed:
    """The error, with the name of the field in front."""
    text = str(error)
    return Malformed(f"{name}.{text}" if ": " in text and not text.startswith("not ") else f"{name}: {text}")

"""Maps Avro types to JSON: one pair of closures for each part of a schema, made once.

    string            text                                          enum        its symbol as text
    int, long         number without point or exponent              record      object
    timestamp-millis  ISO-8601 text (`iso_time`), nothing else      [null, T]   null, or as T
    decimal           number, exact                                 boolean     true, false

A schema with any other type is refused when the format is created.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from moneystate.engine.avro import Malformed, read_long, skip_bytes, write_bytes, write_long
from moneystate.errors import ConfigError
from moneystate.kafka.formats.body import INT_MAX, INT_MIN
from moneystate.records import iso_time
from moneystate.records.avro_parts import whole_bytes
from moneystate.records.json_parts import inside, unknown_symbol, unscaled_out


class Carrier(NamedTuple):
    """`encode(value, out)` appends the Avro bytes of a parsed JSON value, or raises Malformed. `render(buf, pos)` gives
    the JSON text of the value at `pos` and the position after it; the bytes have been checked before."""

    encode: Callable[[Any, bytearray], None]
    render: Callable[[bytes, int], tuple[str, int]]


def record_carrier(schema: Any, named: dict[str, Carrier], type_name: str = "") -> Carrier:
    """A record, written with `type` as its first member if `type_name` is given.

    `schema` is as parse_schema returns it; `named` collects the named types on the way. Raises ConfigError for an Avro
    type that has no form in JSON here.
    """
    fields = []
    for field in schema["fields"]:
        carrier = _carrier(field["type"], named)
        absent = _default_bytes(field["type"], field["default"], carrier) if "default" in field else None
        fields.append((field["name"], _quote(field["name"]) + ":", carrier, absent))
    opening = [f'"type":{_quote(type_name)}'] if type_name else []

    def encode(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise Malformed("not an object")
        for name, _, carrier, absent in fields:
            if name in value:
                try:
                    carrier.encode(value[name], out)
                except Malformed as error:
                    raise inside(name, error) from None
            elif absent is not None:
                out += absent
            else:
                raise Malformed(f"{name}: missing")

    def render(buf: bytes, pos: int) -> tuple[str, int]:
        parts = opening.copy()
        for _, label, carrier, _ in fields:
            text, pos = carrier.render(buf, pos)
            parts.append(label + text)
        return "{" + ",".join(parts) + "}", pos

    named[schema["name"]] = record = Carrier(encode, render)
    return record


def _carrier(schema: Any, named: dict[str, Carrier]) -> Carrier:
    if isinstance(schema, list):
        return _nullable(schema, named)
    if isinstance(schema, str):
        known = _PLAIN.get(schema) or named.get(schema)
        if known is None:
            raise ConfigError(
                f"format json: expected types that JSON can hold, found Avro's {schema}.",
                "leave the topic in plain Avro.",
            )
        return known
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return record_carrier(schema, named)
    if kind == "enum":
        named[schema["name"]] = enum = _enum(schema["symbols"])
        return enum
    if (kind, logical) == ("long", "timestamp-millis"):
        return Carrier(_encode_time, _render_time)
    if (kind, logical) == ("bytes", "decimal"):
        return _decimal(schema["precision"], schema.get("scale", 0))
    return _carrier(kind, named)


def _default_bytes(schema: Any, default: Any, carrier: Carrier) -> bytes:
    """A field's default in Avro bytes. A decimal's default is text that stands for bytes, not a number."""
    out = bytearray()
    first = schema[0] if isinstance(schema, list) else schema  # a default belongs to a union's first branch
    if isinstance(first, dict) and first["type"] == "bytes":
        out += b"\0" if isinstance(schema, list) else b""
        write_bytes(out, default.encode("latin-1"))
    else:
        carrier.encode(default, out)
    return bytes(out)


def _nullable(branches: list[Any], named: dict[str, Carrier]) -> Carrier:
    if len(branches) != 2 or "null" not in branches:
        raise ConfigError(
            "format json: expected unions of null and one type, found another union.", "leave the topic in plain Avro."
        )
    null_index = branches.index("null")
    carrier = _carrier(branches[1 - null_index], named)
    null_byte, value_byte = bytes([null_index << 1]), bytes([(1 - null_index) << 1])

    def encode(value: Any, out: bytearray) -> None:
        if value is None:
            out += null_byte
        else:
            out += value_byte
            carrier.encode(value, out)

    def render(buf: bytes, pos: int) -> tuple[str, int]:
        index, pos = read_long(buf, pos)
        return ("null", pos) if index == null_index else carrier.render(buf, pos)

    return Carrier(encode, render)


def _enum(symbols: list[str]) -> Carrier:
    index_of = {symbol: index for index, symbol in enumerate(symbols)}

    def encode(value: Any, out: bytearray) -> None:
        if type(value) is not str or value not in index_of:
            raise unknown_symbol(value, symbols)
        write_long(out, index_of[value])

    def render(buf: bytes, pos: int) -> tuple[str, int]:
        index, pos = read_long(buf, pos)
        return _quote(symbols[index]), pos

    return Carrier(encode, render)


def _decimal(precision: int, scale: int) -> Carrier:
    """A decimal. It is written in the fewest bytes, so one of more bytes comes back from JSON as the same number,
    shorter."""
    text = unscaled_out(scale)

    def encode(value: Any, out: bytearray) -> None:
        write_bytes(out, whole_bytes(unscaled_of(value, precision, scale)))

    def render(buf: bytes, pos: int) -> tuple[str, int]:
        start, end = skip_bytes(buf, pos)
        return text(buf[start:end]), end

    return Carrier(encode, render)


def unscaled_of(value: object, precision: int, scale: int) -> int:
    """A JSON number (int or Decimal) times 10**scale, exactly, or Malformed: nothing is ever rounded.

    Only the number counts, not its spelling: `1.50000` and `15e-1` are 1.5 and fit four places, `1.00001` does not. The
    digits are checked before any power is computed, so that `1e999999999` costs nothing.
    """
    if type(value) is not int and type(value) is not Decimal:
        raise Malformed("not a number")
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return 0
    places = int(exponent) + len(digits) - len(text)
    if places < -scale:
        raise Malformed(f"more than {scale} places")
    if len(text) + places + scale > precision:
        raise Malformed(f"more than {precision} digits")
    unscaled = int(text + "0" * (places + scale))
    return -unscaled if sign else unscaled


def _encode_string(value: Any, out: bytearray) -> None:
    if type(value) is not str:
        raise Malformed("not a text")
    try:
        write_bytes(out, value.encode())
    except UnicodeEncodeError:  # JSON can name half of a surrogate pair, UTF-8 cannot
        raise Malformed("a text with half of a surrogate pair") from None


def _render_string(buf: bytes, pos: int) -> tuple[str, int]:
    start, end = skip_bytes(buf, pos)
    return _quote(buf[start:end].decode()), end


def _encode_boolean(value: Any, out: bytearray) -> None:
    if type(value) is not bool:
        raise Malformed("neither true nor false")
    out.append(value)


def _render_boolean(buf: bytes, pos: int) -> tuple[str, int]:
    return "true" if buf[pos] else "false", pos + 1


def _integer(low: int, high: int) -> Carrier:
    def encode(value: Any, out: bytearray) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Malformed(f"not a whole number from {low} to {high}")
        write_long(out, value)

    def render(buf: bytes, pos: int) -> tuple[str, int]:
        value, pos = read_long(buf, pos)
        return str(value), pos

    return Carrier(encode, render)


def _encode_time(value: Any, out: bytearray) -> None:
    if type(value) is not str:
        raise Malformed("not an ISO-8601 text")
    write_long(out, iso_time.to_ms(value))


def _render_time(buf: bytes, pos: int) -> tuple[str, int]:
    value, pos = read_long(buf, pos)
    return f'"{iso_time.from_ms(value)}"', pos


_quote = json.JSONEncoder(ensure_ascii=False).encode
_PLAIN = {
    "string": Carrier(_encode_string, _render_string),
    "boolean": Carrier(_encode_boolean, _render_boolean),
    "int": _integer(INT_MIN, INT_MAX),
    "long": _integer(-(2**63), 2**63 - 1),
}

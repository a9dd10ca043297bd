"""The wire format as the reference model understands it (docs/model.md section 4): single-object encoding of known
schemas.

Written on fastavro alone, without anything of `moneystate` or `services`, so that the real codecs have something to
differ from.
fastavro is lenient where the Avro specification is not: a negative union branch or enum index picks from the list's
end, and a number of more than 64 bits is cut. `body_end` therefore walks every body by the specification first.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

Json = dict[str, Any]
Schema = Any  # an Avro schema as JSON: a name, a list (union) or an object

AVRO = Path(__file__).resolve().parents[2] / "avro" / "money-enrichment" / "events"
MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
SCALE = Decimal(10) ** 4


class Malformed(ValueError):
    """A body that is no value of its writer schema by the Avro specification."""


def _load() -> dict[str, Schema]:
    return {path.stem: json.loads(path.read_text()) for path in AVRO.glob("*.avsc")}


def _without_logical_types(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    return schema


RAW = _load()
WRITER = {name: fastavro.parse_schema(raw) for name, raw in RAW.items()}
READER = {name: fastavro.parse_schema(_without_logical_types(raw)) for name, raw in RAW.items()}
HEADER = {  # the fingerprint comes as the hexadecimal text of its little-endian bytes
    name: MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")) for name, raw in RAW.items()
}
TYPE_OF_HEADER = {header: name for name, header in HEADER.items()}


def encode(event_type: str, event: Json) -> bytes:
    """`event` (times as milliseconds, decimals as bytes or `Decimal`) in single-object encoding, canonical Avro."""
    out = BytesIO()
    out.write(HEADER[event_type])
    fastavro.schemaless_writer(out, WRITER[event_type], event)
    return out.getvalue()


def decode(value: bytes) -> tuple[str, Json]:
    """The type and the fields (without logical types) of a value of a known schema.

    Raises `KeyError` for an unknown fingerprint and `Malformed` for a bad body or one with bytes left over.
    """
    event_type = TYPE_OF_HEADER[value[:HEADER_BYTES]]
    event, end = read_body(event_type, value)
    if end != len(value):
        raise Malformed(f"{len(value) - end} bytes left over after the body of {event_type}")
    return event_type, event


def read_body(event_type: str, value: bytes) -> tuple[Json, int]:
    """The fields of the body that begins after the header, and the position at which it ends. Raises `Malformed`."""
    end = body_end(RAW[event_type], value, HEADER_BYTES)
    body = BytesIO(value[HEADER_BYTES:end])
    event = fastavro.schemaless_reader(body, READER[event_type], None)
    assert isinstance(event, dict)
    return event, end


def body_end(schema: Schema, data: bytes, pos: int) -> int:
    """Where the Avro value of `schema` that begins at `pos` ends, by the Avro specification. Raises `Malformed`."""
    if isinstance(schema, list):
        branch, pos = read_number(data, pos, 64)
        return body_end(_choice(schema, branch), data, pos)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        for field in schema["fields"]:
            pos = body_end(field["type"], data, pos)
        return pos
    if kind == "enum":
        symbol, pos = read_number(data, pos, 32)
        _choice(schema["symbols"], symbol)
        return pos
    if kind in ("string", "bytes"):
        return _end_of_text(data, pos, utf8=kind == "string")
    if kind in ("int", "long"):
        return read_number(data, pos, 32 if kind == "int" else 64)[1]
    return _inside(data, pos + {"null": 0, "boolean": 1}[kind])


def _end_of_text(data: bytes, pos: int, *, utf8: bool) -> int:
    length, pos = read_number(data, pos, 64)
    if length < 0:
        raise Malformed(f"a length of {length}")
    end = _inside(data, pos + length)
    if utf8:
        try:
            data[pos:end].decode()
        except UnicodeDecodeError as error:
            raise Malformed(str(error)) from error
    return end


def read_number(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """A zig-zag variable-length number of `bits` bits and where it ends; padding is allowed up to the widest form."""
    number = shift = 0
    while True:
        _inside(data, pos + 1)
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
        if shift >= bits:
            raise Malformed(f"a number of more than {shift // 7} bytes")
    if number >> bits:
        raise Malformed(f"a number of more than {bits} bits")
    return (number >> 1) ^ -(number & 1), pos


def _choice(options: list[Any], index: int) -> Any:
    if not 0 <= index < len(options):
        raise Malformed(f"index {index} of {len(options)}")
    return options[index]


def _inside(data: bytes, end: int) -> int:
    if end > len(data):
        raise Malformed(f"ends at byte {len(data)} of at least {end}")
    return end


def to_ms(iso_time: str) -> int:
    """An ISO-8601 time with its offset from UTC, in milliseconds."""
    return (datetime.fromisoformat(iso_time) - EPOCH) // MILLISECOND


def from_json(event: Json) -> tuple[str, Json]:
    """The type and the Avro fields (no logical types) of an event in JSON form: an object with `type` and ISO times."""
    fields = dict(event)
    event_type = fields.pop("type")
    for field in RAW[event_type]["fields"]:
        logical = field["type"].get("logicalType") if isinstance(field["type"], dict) else None
        if field["name"] in fields and logical == "timestamp-millis":
            fields[field["name"]] = to_ms(fields[field["name"]])
        elif field["name"] in fields and logical == "decimal":
            fields[field["name"]] = to_decimal_bytes(fields[field["name"]])
    return event_type, fields


def to_decimal_bytes(number: int | str | Decimal) -> bytes:
    """The decimal with 4 places as fastavro writes it: the unscaled number, big-endian, in two's complement."""
    unscaled = Decimal(number) * SCALE
    if unscaled != int(unscaled):
        raise ValueError(f"{number} has more than 4 places")
    return int(unscaled).to_bytes((int(unscaled).bit_length() + 8) // 8, "big", signed=True)

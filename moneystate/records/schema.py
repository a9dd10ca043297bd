"""Avro schemas of records: as JSON, in canonical form, and as fingerprint (CRC-64-AVRO).

Avro 1.12, "Schema Fingerprints" and "Parsing Canonical Form for Schemas".
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from moneystate.engine.avro import MAGIC
from moneystate.records.json_value import Json
from moneystate.records.shapes import Array, Exact, Field, Maybe, Plain, Record, Shape, Symbols, Table

_PRIMITIVE: Final = {"json": "string"}
_NO_DEFAULT: Final = object()
_EMPTY: Final = 0xC15D213AA4D7A795
_ORDER: Final = ("name", "type", "fields", "symbols", "items", "values", "size")


def schema_of(record: Record) -> dict[str, Any]:
    """The schema as the JSON of an `.avsc` file. A named type is defined at its first use."""
    schema = _schema(record, set())
    assert isinstance(schema, dict)
    return schema


def fingerprint_of(schema: Any) -> str:
    """The fingerprint in the form of the list of releases: hex, little-endian."""
    return fingerprint(canonical_form(schema)).to_bytes(8, "little").hex()


def header_of(record: Record) -> bytes:
    """The first bytes of a value in single-object encoding: magic and fingerprint."""
    return MAGIC + fingerprint(canonical_form(schema_of(record))).to_bytes(8, "little")


def _schema(shape: Shape, defined: set[str]) -> Any:
    if isinstance(shape, Record):
        if shape.name in defined:
            return shape.name
        defined.add(shape.name)
        namespace, _, name = shape.name.rpartition(".")
        fields = [_field(f, defined) for f in shape.fields]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if isinstance(shape, Symbols):
        return _enum(shape, defined)
    if isinstance(shape, Maybe):
        return ["null", _schema(shape.inner, defined)]
    if isinstance(shape, Array):
        return {"type": "array", "items": _schema(shape.inner, defined), **_marked(shape)}
    if isinstance(shape, Table):
        return {"type": "map", "values": _schema(shape.inner, defined), **_marked(shape)}
    assert isinstance(shape, (Plain, Exact))
    digits = shape.digits
    if digits is not None:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits.precision, "scale": digits.scale}
    assert isinstance(shape, Plain)
    if shape.kind == "millis":
        return {"type": "long", "logicalType": "timestamp-millis"}
    if shape.bits == 32:
        return "int"
    return _PRIMITIVE.get(shape.kind, shape.kind)


def _marked(shape: Array | Table) -> dict[str, Any]:
    return {"personal": True} if shape.personal else {}


def _enum(shape: Symbols, defined: set[str]) -> Any:
    if not shape.name:
        return "string"
    if shape.name in defined:
        return shape.name
    defined.add(shape.name)
    namespace, _, name = shape.name.rpartition(".")
    return {"type": "enum", "name": name, "namespace": namespace, "symbols": list(shape.symbols)}


def _field(f: Field, defined: set[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"name": f.wire, "type": _schema(f.shape, defined)}
    if f.aliases:
        schema["aliases"] = list(f.aliases)
    if f.default is not None:
        default = default_json(f.shape, f.default())
        if default is not _NO_DEFAULT:
            schema["default"] = default
    if f.personal:
        schema["personal"] = True
    return schema


def default_json(shape: Shape, value: Any) -> Any:
    """A default as Avro writes it, or `_NO_DEFAULT` if Avro cannot: a union's default must belong to its first
    branch."""
    if isinstance(shape, Maybe):
        return None if value is None else _NO_DEFAULT
    if isinstance(shape, Record):
        fields = {f.wire: default_json(f.shape, getattr(value, f.name)) for f in shape.fields}
        return _NO_DEFAULT if _NO_DEFAULT in fields.values() else fields
    if isinstance(shape, (Array, Table)):
        return value if not value else _NO_DEFAULT
    if isinstance(value, Json):
        return value.text
    if isinstance(value, Decimal) or isinstance(shape, Exact):
        return _NO_DEFAULT
    return value.decode("latin-1") if isinstance(value, bytes) else value


def canonical_form(schema: Any, namespace: str = "") -> str:
    """Parsing Canonical Form."""
    if isinstance(schema, str):
        return json.dumps(schema)
    if isinstance(schema, list):
        return "[" + ",".join([canonical_form(branch, namespace) for branch in schema]) + "]"
    kind = schema["type"]
    if set(schema) <= {"type", "logicalType", "precision", "scale"}:
        return canonical_form(kind, namespace)
    parts = []
    for name in _ORDER:
        if name not in schema:
            continue
        value = schema[name]
        if name == "name":
            text = json.dumps(f"{schema['namespace']}.{value}" if schema.get("namespace") else value)
        elif name == "fields":
            text = "[" + ",".join([_canonical_field(f) for f in value]) + "]"
        elif name in ("items", "values"):
            text = canonical_form(value)
        else:
            text = json.dumps(value, separators=(",", ":"))
        parts.append(f'"{name}":{text}')
    return "{" + ",".join(parts) + "}"


def _canonical_field(f: Any) -> str:
    return f'{{"name":{json.dumps(f["name"])},"type":{canonical_form(f["type"])}}}'


def fingerprint(canonical: str) -> int:
    """CRC-64-AVRO."""
    crc = _EMPTY
    for byte in canonical.encode():
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (_EMPTY & -(n & 1))
        table.append(n)
    return table


_TABLE: Final = _table()

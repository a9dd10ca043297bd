"""The Avro schemas of records, as JSON and as fingerprint."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from moneystate.engine.avro import MAGIC
from moneystate.records.avro_types import fingerprint, parse
from moneystate.records.json_value import Json
from moneystate.records.shapes import Array, Exact, Field, Maybe, Plain, Record, Shape, Symbols, Table

_PRIMITIVE: Final = {"json": "string"}
_NO_DEFAULT: Final = object()


def schema_of(record: Record) -> dict[str, Any]:
    """The schema as the JSON of an `.avsc` file. A named type is defined at its first use."""
    schema = _schema(record, set())
    assert isinstance(schema, dict)
    return schema


def fingerprint_of(schema: Any) -> str:
    """The fingerprint in the form of the list of releases: hex, little-endian."""
    return fingerprint(parse(schema)).hex()


def header_of(record: Record) -> bytes:
    """The first bytes of a value in single-object encoding: magic and fingerprint."""
    return MAGIC + bytes.fromhex(fingerprint_of(schema_of(record)))


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

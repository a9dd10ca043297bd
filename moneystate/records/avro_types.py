"""Avro schemas as types with resolved names (Avro 1.12, "Schema Declaration"), their canonical form and fingerprint.

Types have aliases, defaults and logical types. They are not part of the canonical form, but decide how a reader
understands the bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.records.json_fields import MARK

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EMPTY: Final = 0xC15D213AA4D7A795
_BASES: Final[dict[str, tuple[str, ...]]] = {  # of logical types
    "decimal": ("bytes", "fixed"), "date": ("int",), "time-millis": ("int",), "time-micros": ("long",),
    "timestamp-millis": ("long",), "timestamp-micros": ("long",), "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",), MARK: ("string",),
}  # fmt: skip
_LARGEST: Final = {"float": 3.4028234e38, "double": 1.7976931348623157e308}


class BadSchema(Exception):
    """A schema that Avro does not allow. `args[0]` says where and why."""


@dataclass(eq=False)
class Type:
    """An Avro type."""

    kind: str  # name of a primitive, or record, enum, fixed, array, map, union


@dataclass(eq=False)
class PrimitiveType(Type):
    """A primitive type, perhaps with a logical type."""

    logical: str = ""  # the logical type; "": none
    precision: int = 0  # of a decimal
    scale: int = 0  # of a decimal


@dataclass(eq=False)
class NamedType(Type):
    """A type with a name."""

    name: str  # full name
    aliases: tuple[str, ...] = ()  # full names

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class RecordField:
    """A field of a record."""

    name: str
    type: Type
    aliases: tuple[str, ...]  # earlier names
    has_default: bool
    default: Any


@dataclass(eq=False)
class RecordType(NamedType):
    fields: list[RecordField] = field(default_factory=list)


@dataclass(eq=False)
class EnumType(NamedType):
    symbols: tuple[str, ...] = ()
    default: str | None = None


@dataclass(eq=False)
class FixedType(NamedType):
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(eq=False)
class ArrayType(Type):
    items: Type


@dataclass(eq=False)
class MapType(Type):
    values: Type


@dataclass(eq=False)
class UnionType(Type):
    branches: list[Type]


def parse(schema: Any, *, foreign: bool = False) -> Type:
    """Parses a schema from JSON. Raises BadSchema. `foreign`: values with it are only read. So its names may be ones
    that Avro does not allow, and its defaults, which only a reader needs, are not checked."""
    try:
        return _Parser(foreign).type(schema, "")
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as e:
        raise BadSchema(f"not an Avro schema: {type(e).__name__} {e}") from None


class _Parser:
    def __init__(self, foreign: bool) -> None:
        self.foreign = foreign
        self.named: dict[str, NamedType] = {}

    def type(self, schema: Any, namespace: str) -> Type:
        if isinstance(schema, list):
            return self._union([self.type(branch, namespace) for branch in schema])
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.type(kind, namespace)
        if kind == "array":
            return ArrayType(kind, self.type(schema["items"], namespace))
        if kind == "map":
            return MapType(kind, self.type(schema["values"], namespace))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(schema, namespace)
        if kind in PRIMITIVES:
            return PrimitiveType(kind, *self._logical(schema))
        return self._by_name(kind, namespace)

    def _union(self, branches: list[Type]) -> UnionType:
        if not branches or any(isinstance(branch, UnionType) for branch in branches):
            raise BadSchema("a union without branches, or of unions")
        return UnionType("union", branches)

    def _logical(self, schema: dict[str, Any]) -> tuple[str, int, int]:
        """The logical type, precision and scale. As Avro asks, one that does not fit its base is ignored."""
        logical, precision, scale = schema.get("logicalType", ""), schema.get("precision", 0), schema.get("scale", 0)
        if schema["type"] not in _BASES.get(logical, (schema["type"],)) or (self.foreign and logical == MARK):
            return "", 0, 0
        if logical != "decimal":
            return str(logical), 0, 0
        if type(precision) is type(scale) is int and 0 <= scale <= precision > 0:
            return logical, precision, scale
        if self.foreign:
            return "", 0, 0
        raise BadSchema(f"a decimal of precision {precision!r} and scale {scale!r}")

    def _size(self, size: Any) -> int:
        if type(size) is not int or size < 0:
            raise BadSchema(f"a fixed of size {size!r}")
        return size

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return PrimitiveType(name)
        full = _full(name, namespace)
        named_type = self.named.get(full) or self.named.get(name)
        if named_type is None:
            raise BadSchema(f"there is no type {full}")
        return named_type

    def _define(self, schema: dict[str, Any], namespace: str) -> NamedType:
        name = _full(schema["name"], schema.get("namespace", namespace))
        self._check_name(name, *name.split("."))
        inside = name.rpartition(".")[0]
        aliases = tuple(_full(alias, inside) for alias in schema.get("aliases", ()))
        if name in self.named:
            raise BadSchema(f"the name {name} is defined twice")
        if schema["type"] == "enum":
            self.named[name] = EnumType("enum", name, aliases, *self._symbols(schema, name))
        elif schema["type"] == "fixed":
            self.named[name] = FixedType("fixed", name, aliases, self._size(schema["size"]), *self._logical(schema))
        else:
            record = RecordType(schema["type"], name, aliases)
            self.named[name] = record  # before its fields, which may refer to it
            record.fields.extend(self._field(f, name, inside) for f in schema["fields"])
            if len({f.name for f in record.fields}) < len(record.fields):
                raise BadSchema(f"{name}: two fields have the same name")
        return self.named[name]

    def _symbols(self, schema: dict[str, Any], name: str) -> tuple[tuple[str, ...], str | None]:
        symbols, default = tuple(schema["symbols"]), schema.get("default")
        self._check_name(name, *symbols)
        if len(set(symbols)) < len(symbols):
            raise BadSchema(f"{name}: a symbol occurs twice")
        if default is not None and default not in symbols and not self.foreign:
            raise BadSchema(f"{name}: its default {default!r} is not one of its symbols")
        return symbols, default

    def _field(self, f: dict[str, Any], record: str, namespace: str) -> RecordField:
        self._check_name(record, f["name"])
        field_type = self.type(f["type"], namespace)
        parsed_field = RecordField(f["name"], field_type, tuple(f.get("aliases", ())), "default" in f, f.get("default"))
        if parsed_field.has_default and not self.foreign and not fits(field_type, parsed_field.default):
            first = " of the union's first branch" if isinstance(field_type, UnionType) else ""
            raise BadSchema(f"{record}.{parsed_field.name}: its default {parsed_field.default!r} is not a value{first}")
        return parsed_field

    def _check_name(self, where: str, *names: str) -> None:
        bad = next((name for name in names if not _NAME.fullmatch(name)), None)
        if bad is not None and not self.foreign:
            raise BadSchema(f"{where}: Avro does not allow the name {bad!r}")


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def canonical_form(schema_type: Type) -> str:
    """Parsing Canonical Form (Avro 1.12, "Parsing Canonical Form for Schemas")."""
    return json.dumps(_canonical(schema_type, set()), separators=(",", ":"))


def _canonical(schema_type: Type, defined: set[str]) -> Any:
    if isinstance(schema_type, UnionType):
        return [_canonical(branch, defined) for branch in schema_type.branches]
    if isinstance(schema_type, ArrayType):
        return {"type": "array", "items": _canonical(schema_type.items, defined)}
    if isinstance(schema_type, MapType):
        return {"type": "map", "values": _canonical(schema_type.values, defined)}
    if not isinstance(schema_type, NamedType):
        return schema_type.kind
    if schema_type.name in defined:
        return schema_type.name
    defined.add(schema_type.name)
    content: dict[str, Any] = {"name": schema_type.name, "type": schema_type.kind}
    if isinstance(schema_type, RecordType):
        content["fields"] = [{"name": f.name, "type": _canonical(f.type, defined)} for f in schema_type.fields]
    elif isinstance(schema_type, EnumType):
        content["symbols"] = list(schema_type.symbols)
    elif isinstance(schema_type, FixedType):
        content["size"] = schema_type.size
    return content


def fingerprint(schema_type: Type) -> bytes:
    """CRC-64-AVRO of the canonical form, little-endian as in headers (Avro 1.12, "Schema Fingerprints")."""
    crc = _EMPTY
    for byte in canonical_form(schema_type).encode():
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc.to_bytes(8, "little")


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (_EMPTY & -(n & 1))
        table.append(n)
    return table


_TABLE: Final = _table()


def fits(schema_type: Type, default: Any) -> bool:
    """Whether a default, as JSON, is a value of the type; for a union only its first branch counts."""
    if isinstance(schema_type, UnionType):
        return fits(schema_type.branches[0], default)
    if isinstance(schema_type, RecordType):
        return isinstance(default, dict) and all(
            fits(f.type, default[f.name]) if f.name in default else f.has_default for f in schema_type.fields
        )
    if isinstance(schema_type, ArrayType):
        return isinstance(default, list) and all(fits(schema_type.items, item) for item in default)
    if isinstance(schema_type, MapType):
        return isinstance(default, dict) and all(fits(schema_type.values, value) for value in default.values())
    if isinstance(schema_type, EnumType):
        return default in schema_type.symbols
    if isinstance(schema_type, FixedType):
        return isinstance(default, str) and len(default) == schema_type.size and _are_bytes(default)
    return _fits_primitive(schema_type.kind, default)


def _fits_primitive(kind: str, default: Any) -> bool:
    if kind == "null":
        return default is None
    if kind == "boolean":
        return isinstance(default, bool)
    if isinstance(default, bool):
        return False
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return isinstance(default, int) and -(1 << bits) <= default < 1 << bits
    if kind in ("float", "double"):
        return isinstance(default, (int, float)) and -_LARGEST[kind] <= default <= _LARGEST[kind]
    return isinstance(default, str) and (kind == "string" or _are_bytes(default))


def _are_bytes(default: str) -> bool:
    """Whether a default is valid for bytes: in JSON each byte is the character with its number."""
    return all(ord(character) < 256 for character in default)


def shown(schema_type: Type) -> str:
    """Describes a type in a few words."""
    if isinstance(schema_type, UnionType):
        return "[" + ", ".join(shown(branch) for branch in schema_type.branches) + "]"
    if isinstance(schema_type, ArrayType):
        return f"array of {shown(schema_type.items)}"
    if isinstance(schema_type, MapType):
        return f"map of {shown(schema_type.values)}"
    if isinstance(schema_type, NamedType):
        size = f"({schema_type.size})" if isinstance(schema_type, FixedType) else ""
        return f"{schema_type.kind}{size} {schema_type.short}"
    assert isinstance(schema_type, PrimitiveType)
    if schema_type.logical == "decimal":
        return f"decimal({schema_type.precision}, {schema_type.scale})"
    return f"{schema_type.kind} ({schema_type.logical})" if schema_type.logical else schema_type.kind

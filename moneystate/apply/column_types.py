"""The types of a table's columns: as the catalogue has them, and as a record's schema asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

INTEGERS: Final = {"int2": 16, "int4": 32, "int8": 64}
TEXTS: Final = ("text", "varchar", "bpchar", "name", "citext")
# names in DDL
_SHOWN: Final = {
    "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
    "bool": "boolean", "timestamptz": "timestamp with time zone", "varchar": "character varying", "bpchar": "character",
}  # fmt: skip


@dataclass(frozen=True)
class ColumnType:
    """A type, of which the writers of values know as much as can be checked without the database."""

    name: str  # as in pg_type; of a domain, its base type
    length: int | None = None  # most characters of a varchar or bpchar
    precision: int | None = None  # of a numeric; None: any
    scale: int | None = None  # of a numeric; of a time: digits of a second, None: six
    labels: tuple[str, ...] | None = None  # of an enum
    item: ColumnType | None = None  # of an array

    @property
    def shown(self) -> str:
        """The name of the type in DDL."""
        if self.item is not None:
            return f"{self.item.shown}[]"
        base = _SHOWN.get(self.name, self.name)
        if self.precision is not None:
            return f"{base}({self.precision},{self.scale or 0})"
        return f"{base}({self.length})" if self.length is not None else base


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True
    has_default: bool = False


def wanted(schema: Any, named: dict[str, Any]) -> tuple[ColumnType, bool]:
    """The column type for an Avro schema, and whether it may be null. `named`: the named types that are known, to which
    it adds."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        inner = wanted(branches[0], named)[0] if len(branches) == 1 else ColumnType("jsonb")
        return inner, "null" in schema
    return _type(schema, named), False


def _type(schema: Any, named: dict[str, Any]) -> ColumnType:
    if isinstance(schema, str):
        if schema in named:
            return _type(named[schema], named)
        return ColumnType(_PRIMITIVES.get(schema, "jsonb"))
    if "name" in schema:
        named[schema["name"]] = schema
        named[full_name(schema)] = schema
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return ColumnType("numeric", precision=schema["precision"], scale=schema.get("scale", 0))
    if logical in _LOGICAL:
        return ColumnType(_LOGICAL[logical])
    if kind == "array":
        inner = _type_or_json(schema["items"], named)
        return ColumnType("jsonb") if inner is None else ColumnType(f"_{inner.name}", item=inner)
    return ColumnType(_PRIMITIVES.get(kind, "jsonb")) if isinstance(kind, str) else _type(kind, named)


def _type_or_json(items: Any, named: dict[str, Any]) -> ColumnType | None:
    """The type of an array's items; None: they have parts, so the array is JSON."""
    inner = wanted(items, named)[0]
    return None if inner.name == "jsonb" or inner.item is not None else inner


def full_name(schema: dict[str, Any]) -> str:
    """The full name of a named type."""
    name, namespace = schema["name"], schema.get("namespace", "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


_PRIMITIVES: Final = {
    "string": "text", "int": "int4", "long": "int8", "float": "float4", "double": "float8", "boolean": "bool",
    "bytes": "bytea", "fixed": "bytea", "enum": "text",
}  # fmt: skip
_LOGICAL: Final = {
    "timestamp-millis": "timestamptz", "timestamp-micros": "timestamptz", "date": "date", "uuid": "uuid",
}  # fmt: skip

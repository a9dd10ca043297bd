"""The types of a table's columns: as the catalogue has them, and as a record's schema asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moneystate.records.avro_types import ArrayType, FixedType, PrimitiveType, Type, UnionType

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


def wanted(one: Type) -> tuple[ColumnType, bool]:
    """The column type for an Avro type, and whether it may be null."""
    if isinstance(one, UnionType):
        branches = [branch for branch in one.branches if branch.kind != "null"]
        inner = wanted(branches[0])[0] if len(branches) == 1 else ColumnType("jsonb")
        return inner, len(branches) < len(one.branches)
    return _type(one), False


def _type(one: Type) -> ColumnType:
    if isinstance(one, (PrimitiveType, FixedType)):
        if one.logical == "decimal":
            return ColumnType("numeric", precision=one.precision, scale=one.scale)
        if one.logical in _LOGICAL:
            return ColumnType(_LOGICAL[one.logical])
    if isinstance(one, ArrayType):
        inner = wanted(one.items)[0]
        has_parts = inner.name == "jsonb" or inner.item is not None
        return ColumnType("jsonb") if has_parts else ColumnType(f"_{inner.name}", item=inner)
    return ColumnType(_PRIMITIVES.get(one.kind, "jsonb"))


_PRIMITIVES: Final = {
    "string": "text", "int": "int4", "long": "int8", "float": "float4", "double": "float8", "boolean": "bool",
    "bytes": "bytea", "fixed": "bytea", "enum": "text",
}  # fmt: skip
_LOGICAL: Final = {
    "timestamp-millis": "timestamptz", "timestamp-micros": "timestamptz", "date": "date", "uuid": "uuid",
}  # fmt: skip

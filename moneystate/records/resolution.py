"""Decides whether a reader of one schema can read records of another (Avro 1.12, "Schema Resolution").

It is stricter than Avro where the same bytes would silently change their meaning: a decimal of another scale, a time in
another unit, text as a number with a logical type.
"""

from __future__ import annotations

from typing import Final

from moneystate.records.avro_types import (
    ArrayType,
    EnumType,
    FixedType,
    MapType,
    NamedType,
    PrimitiveType,
    RecordField,
    RecordType,
    Type,
    UnionType,
)
from moneystate.records.json_fields import MARK

PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}

Known = dict[tuple[int, int], bool]  # what is known of a reader and a writer, by the identities of both


def reads(reader: Type, writer: Type, known: Known | None = None) -> bool:
    """Whether every value of `writer` can be read as a value of `reader`. Recursive pairs count as readable."""
    known = {} if known is None else known
    pair = (id(reader), id(writer))
    if pair not in known:
        known[pair] = True
        known[pair] = _reads(reader, writer, known)
    return known[pair]


def _reads(reader: Type, writer: Type, known: Known) -> bool:
    if isinstance(writer, UnionType):
        return all(reads(reader, branch, known) for branch in writer.branches)
    if isinstance(reader, UnionType):
        return any(reads(branch, writer, known) for branch in candidates(reader, writer))
    if isinstance(reader, RecordType) and isinstance(writer, RecordType):
        return same_name(reader, writer) and _reads_fields(reader, writer, known)
    if isinstance(reader, ArrayType) and isinstance(writer, ArrayType):
        return reads(reader.items, writer.items, known)
    if isinstance(reader, MapType) and isinstance(writer, MapType):
        return reads(reader.values, writer.values, known)
    if isinstance(reader, EnumType) and isinstance(writer, EnumType):
        has_symbols = reader.default is not None or set(writer.symbols) <= set(reader.symbols)
        return same_name(reader, writer) and has_symbols
    if isinstance(reader, FixedType) and isinstance(writer, FixedType):
        return same_fixed(reader, writer) and same_meaning(reader, writer)
    if isinstance(reader, PrimitiveType) and isinstance(writer, PrimitiveType):
        promoted = reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ())
        return promoted and same_meaning(reader, writer)
    return False


def _reads_fields(reader: RecordType, writer: RecordType, known: Known) -> bool:
    written = written_fields(reader, writer)
    for f in reader.fields:
        if f.name not in written:
            if not f.has_default:
                return False
        elif not reads(f.type, written[f.name].type, known):
            return False
    return True


def written_fields(reader: RecordType, writer: RecordType) -> dict[str, RecordField]:
    """The writer's fields by the names of the reader's: those of the same name, then those of an alias. A field of the
    writer is one of the reader's."""
    by_name = {written.name: written for written in writer.fields}
    written = {f.name: by_name.pop(f.name) for f in reader.fields if f.name in by_name}
    for f in reader.fields:
        alias = next((alias for alias in f.aliases if alias in by_name), None)
        if f.name not in written and alias is not None:
            written[f.name] = by_name.pop(alias)
    return written


def candidates(reader: UnionType, writer: Type) -> list[Type]:
    """The branches as which a value of `writer` may be read. If a branch has its own kind, it is the only one, as in
    Avro's library for Java: promotion must not give a number another meaning."""
    own = [branch for branch in reader.branches if of_one_kind(branch, writer)]
    return own or reader.branches


def of_one_kind(reader: Type, writer: Type) -> bool:
    """Whether two branches are the same alternative of their unions."""
    if isinstance(reader, NamedType) and isinstance(writer, NamedType):
        return reader.kind == writer.kind and same_name(reader, writer)
    return reader.kind == writer.kind


def same_name(reader: NamedType, writer: NamedType) -> bool:
    """Whether the names are equal without their namespaces."""
    shorts = [alias.rpartition(".")[2] for alias in reader.aliases]
    return writer.short in (reader.short, *shorts)


def same_fixed(reader: FixedType, writer: FixedType) -> bool:
    return same_name(reader, writer) and reader.size == writer.size


def same_meaning(reader: PrimitiveType | FixedType, writer: PrimitiveType | FixedType) -> bool:
    """Whether the logical types fit. A decimal's precision may grow, but its scale must not change."""
    is_wide_enough = not reader.logical == "decimal" == writer.logical or reader.precision >= writer.precision
    return same_unit(reader, writer) and is_wide_enough


def same_unit(reader: PrimitiveType | FixedType, writer: PrimitiveType | FixedType) -> bool:
    """Whether the logical types fit, but for the digits of a decimal, which each value has its own number of. A reader
    without one reads the plain value; a plain number gets the reader's meaning. A text and JSON are never each other:
    as a value in JSON they have another form."""
    if MARK in (reader.logical, writer.logical):
        return reader.logical == writer.logical
    if not reader.logical:
        return True
    if not writer.logical:
        return writer.kind != "string"
    return reader.logical == writer.logical and reader.scale == writer.scale

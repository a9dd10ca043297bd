"""Resolves a body of a foreign writer schema to canonical form. Stricter than Avro where values could change their
meaning.

fastavro resolves the underlying types. Logical types are compared here beforehand, since neither the canonical form of
a schema nor a resolution of underlying types looks at them: an amount written with two places, or a time in
microseconds, has the same bytes as ours and would silently mean something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, parse_schema, to_parsing_canonical_form

from moneystate.kafka.formats.base import Undecodable
from moneystate.kafka.formats.body import Skip, check_body, compile_skip
from moneystate.kafka.formats.misfit import misfit
from moneystate.kafka.formats.schemas import SchemaSet, TypeSchema, strip_logical_types

Reader = Callable[[bytes, int], bytes]
"""`read(value, pos)`: the value in canonical form, of a body that reaches from `pos` to the end. Raises Undecodable."""

# fastavro raises these for a schema that it cannot take; it has no class of its own for most of it.
UNREADABLE = (SchemaParseException, LookupError, TypeError, ValueError, AttributeError, RecursionError)


def reader_for(schemas: SchemaSet, writer_text: str) -> Reader:
    """Returns how to read bodies of this writer schema. Raises Undecodable("unknown_schema") if the project cannot."""
    try:
        source = json.loads(writer_text)
        writer: Any = parse_schema(source)
        raw_writer: Any = parse_schema(strip_logical_types(source))
    except UNREADABLE as error:
        raise Undecodable("unknown_schema", f"its writer schema cannot be read: {type(error).__name__}") from None
    full_name = str(writer["name"]) if isinstance(writer, dict) and writer["type"] == "record" else ""
    type_schema = schemas.of_full_name(full_name)
    if type_schema is None:
        raise Undecodable("unknown_schema", f"no type {full_name[:100]!r}" if full_name else "not a record")
    conflict = next(_conflicts(writer, type_schema), "")
    if conflict:
        raise Undecodable("unknown_schema", conflict)
    if to_parsing_canonical_form(writer) == type_schema.canonical_form:
        return _plain(type_schema)
    return _resolving(type_schema, raw_writer, compile_skip(raw_writer))


def naming(schema: str, read: Reader) -> Reader:
    """Returns the same reader, whose refusals name the writer's schema."""

    def named(value: bytes, pos: int) -> bytes:
        try:
            return read(value, pos)
        except Undecodable as refusal:
            raise Undecodable(refusal.reason, f"{schema}: {refusal.detail}") from None

    return named


def _plain(type_schema: TypeSchema) -> Reader:
    """The writer's bytes are ours."""

    def read(value: bytes, pos: int) -> bytes:
        check_body(type_schema.skip, value, pos)
        return type_schema.prefix + value[pos:]

    return read


def _resolving(type_schema: TypeSchema, raw_writer: Any, skip: Skip) -> Reader:
    def read(value: bytes, pos: int) -> bytes:
        check_body(skip, value, pos)
        out = BytesIO()
        try:
            schemaless_writer(
                out, type_schema.raw, schemaless_reader(BytesIO(value[pos:]), raw_writer, type_schema.raw)
            )
        except SchemaResolutionError:
            raise Undecodable("unknown_schema", misfit(raw_writer, type_schema.raw, value[pos:])) from None
        except UnicodeDecodeError:
            raise Undecodable("malformed", "bytes that are to be read as a text are not UTF-8") from None
        body = out.getvalue()
        check_body(type_schema.skip, body, 0)  # a decimal within the writer's bounds may be beyond ours
        return type_schema.prefix + body

    return read


def _conflicts(writer: Any, type_schema: TypeSchema) -> Iterator[str]:
    """Returns where a logical type of ours would be read from something else, as text with the field's path."""
    walk = _MeaningWalk(writer["__named_schemas"], type_schema.parsed["__named_schemas"])
    return walk.conflicts(writer, type_schema.parsed, type_schema.name)


class _MeaningWalk:
    """Both schemas side by side. A union's branches are compared with all that they could be resolved to: it may refuse
    more than needed, never less."""

    def __init__(self, writer_names: dict[str, Any], reader_names: dict[str, Any]) -> None:
        self._writer_names = writer_names
        self._reader_names = reader_names
        self._seen: set[tuple[str, str]] = set()

    def conflicts(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        for written in _branches(writer, self._writer_names):
            for wanted in _branches(reader, self._reader_names):
                yield from self._pair(written, wanted, path)

    def _pair(self, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Iterator[str]:
        kinds = (written["type"], wanted["type"])
        if kinds == ("record", "record"):
            yield from self._records(written, wanted, path)
        elif kinds == ("array", "array"):
            yield from self.conflicts(written["items"], wanted["items"], path)
        elif kinds == ("map", "map"):
            yield from self.conflicts(written["values"], wanted["values"], path)
        elif written["type"] in _PROMOTED.get(wanted["type"], ()) and not _same_meaning(written, wanted):
            yield f"{path}: written as {_meaning(written)}, read as {_meaning(wanted)}"

    def _records(self, written: dict[str, Any], wanted: dict[str, Any], path: str) -> Iterator[str]:
        pair = (written["name"], wanted["name"])
        if pair in self._seen:
            return
        self._seen.add(pair)
        written_types = {field["name"]: field["type"] for field in written["fields"]}
        for field in wanted["fields"]:
            for name in (field["name"], *field.get("aliases", ())):
                if name in written_types:
                    yield from self.conflicts(written_types[name], field["type"], f"{path}.{field['name']}")


# Names the types from which Avro lets types be read that bear a logical type (Avro 1.12, "Schema Resolution").
_PROMOTED = {
    "int": ("int",),
    "long": ("int", "long"),
    "bytes": ("bytes", "string"),
}


def _branches(schema: Any, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a type, each as an object with its `type`."""
    if isinstance(schema, list):
        return [branch for alternative in schema for branch in _branches(alternative, names)]
    if isinstance(schema, str):
        return [names.get(schema, {"type": schema})]
    return [schema]


def _same_meaning(written: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """No logical type on our side takes anything. None on the writer's side leaves the meaning to us, as long as text
    does not become a number. Of decimals only the scale counts: the digits are checked in each value."""
    ours: str | None = wanted.get("logicalType")
    theirs: str | None = written.get("logicalType")
    if ours is None:
        return True
    if theirs is None:
        return str(written["type"]) != "string"
    return theirs == ours and int(written.get("scale", 0)) == int(wanted.get("scale", 0))


def _meaning(schema: dict[str, Any]) -> str:
    logical = schema.get("logicalType")
    if logical is None:
        return f"plain {schema['type']}"
    return f"{logical} of scale {schema.get('scale', 0)}" if logical == "decimal" else str(logical)

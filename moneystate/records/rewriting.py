"""Rewrites an Avro body of one schema as a body of another (Avro 1.12, "Schema Resolution").

It is stricter than Avro where values could change their meaning. An amount written with two places, or a time in
microseconds, has the same bytes as ours and would silently mean something else. The rules are those of `resolution`.

Every byte of the body is checked. Rewriting runs for every record of another schema, so it is compiled to closures, one
for each part of the schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from moneystate.engine.avro import Malformed, long_bytes, read_bytes, read_long, string_bytes
from moneystate.records.avro_bodies import SKIPS, SkipCompiler, digits_check, read_blocks, read_branch, skip_of
from moneystate.records.avro_types import (
    ArrayType,
    EnumType,
    FixedType,
    MapType,
    NamedType,
    PrimitiveType,
    RecordType,
    Type,
    UnionType,
)
from moneystate.records.json_parts import inside
from moneystate.records.resolution import (
    PROMOTIONS,
    candidates,
    reads,
    same_fixed,
    same_name,
    same_unit,
    written_fields,
)

Rewrite = Callable[[bytes, int, bytearray], int]
"""`rewrite(buf, pos, out)` appends the value at `pos` as the reader has it, and returns the position after the value.
Raises Malformed, and Misfit for a value that the reader cannot have."""

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NUMBERS: Final = ("float", "double")
_WITH_UNITS: Final = ("int", "long", "bytes", "fixed")  # the same bytes may mean something else


class Misfit(Exception):
    """The reader's schema cannot have the value. `args[0]` says which field, and why."""


def rewriter(reader: RecordType, writer: Type) -> Rewrite:
    """Raises Misfit for a writer whose values would change their meaning, wherever they are in it."""
    return _Compiler().rewrite(reader, writer, reader.short)


class _Compiler:
    def __init__(self) -> None:
        self.records: dict[tuple[int, int], Rewrite] = {}  # by the identities of both types
        self.skips = SkipCompiler(any_digits=True)  # for the writer's fields that the reader does not have

    def rewrite(self, reader: Type, writer: Type, path: str) -> Rewrite:
        if isinstance(writer, UnionType):
            return _written_union([self.rewrite(reader, branch, path) for branch in writer.branches])
        if isinstance(reader, UnionType):
            return self._in_union(reader, writer, path)
        if isinstance(reader, RecordType) and isinstance(writer, RecordType):
            return self._record(reader, writer, path)
        if isinstance(reader, ArrayType) and isinstance(writer, ArrayType):
            return _blocks(self.rewrite(reader.items, writer.items, f"{path}[]"))
        if isinstance(reader, MapType) and isinstance(writer, MapType):
            key = PrimitiveType("string")
            return _blocks(self.rewrite(key, key, path), self.rewrite(reader.values, writer.values, f"{path}[]"))
        if isinstance(reader, EnumType) and isinstance(writer, EnumType) and same_name(reader, writer):
            return _enum(reader, writer, path)
        if isinstance(reader, (PrimitiveType, FixedType)) and isinstance(writer, (PrimitiveType, FixedType)):
            return _leaf(reader, writer, path)
        return _refusing(reader, writer, path)

    def _in_union(self, reader: UnionType, writer: Type, path: str) -> Rewrite:
        """As the first branch that can have all values of the writer, else as the first one that may have some."""
        possible = candidates(reader, writer)
        some = [one for one in possible if one.kind != "null"] or possible
        branch = next((one for one in possible if reads(one, writer)), some[0])
        index, rewrite = long_bytes(reader.branches.index(branch)), self.rewrite(branch, writer, path)

        def in_union(buf: bytes, pos: int, out: bytearray) -> int:
            out += index
            return rewrite(buf, pos, out)

        return in_union

    def _record(self, reader: RecordType, writer: RecordType, path: str) -> Rewrite:
        pair = (id(reader), id(writer))
        if pair in self.records:  # a record may contain itself, so it is looked up when used
            return lambda buf, pos, out: self.records[pair](buf, pos, out)
        if not same_name(reader, writer):
            return _refusing(reader, writer, path)
        self.records[pair] = _refusing(reader, writer, path)
        slots: dict[str, int] = {}  # of the reader's fields, by the names of the writer's
        defaults: list[bytes] = []
        parts: dict[str, Rewrite] = {}
        by_field = written_fields(reader, writer)
        for n, f in enumerate(reader.fields):
            written = by_field.get(f.name)
            if written is None and not f.has_default:
                self.records[pair] = _missing(f"{path}.{f.name}")
                return self.records[pair]
            defaults.append(b"" if written is not None else default_bytes(f.type, f.default))
            if written is not None:
                slots[written.name] = n
                parts[written.name] = self.rewrite(f.type, written.type, f"{path}.{f.name}")
        nowhere = len(defaults)
        steps = []
        for f in writer.fields:
            part = parts.get(f.name) or self._skipping(f.type)
            steps.append((f.name, slots.get(f.name, nowhere), part))
        self.records[pair] = _fields(steps, [*defaults, b""])
        return self.records[pair]

    def _skipping(self, schema_type: Type) -> Rewrite:
        skip = self.skips.skip(schema_type)
        return lambda buf, pos, out: skip(buf, pos)


def _fields(steps: list[tuple[str, int, Rewrite]], defaults: list[bytes]) -> Rewrite:
    """A record. `steps`: the writer's fields, with their places in the reader's record. `defaults`: of the others."""

    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        values = [bytearray(default) for default in defaults]
        for name, slot, part in steps:
            try:
                pos = part(buf, pos, values[slot])
            except Malformed as error:
                raise inside(name, error) from None
        out += b"".join(values)
        return pos

    return rewrite


def _written_union(branches: list[Rewrite]) -> Rewrite:
    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        index, pos = read_branch(buf, pos, len(branches))
        return branches[index](buf, pos, out)

    return rewrite


def _blocks(*parts: Rewrite) -> Rewrite:
    """An array or map, as one block."""

    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        items = bytearray()

        def item(at: int) -> int:
            for part in parts:
                at = part(buf, at, items)
            return at

        count, pos = read_blocks(buf, pos, item)
        out += _block(count, items)
        return pos

    return rewrite


def _enum(reader: EnumType, writer: EnumType, path: str) -> Rewrite:
    skip = skip_of(writer)
    default = None if reader.default is None else reader.symbols.index(reader.default)
    index_of = {symbol: n for n, symbol in enumerate(reader.symbols)}

    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        end = skip(buf, pos)
        symbol = writer.symbols[read_long(buf, pos)[0]]
        index = index_of.get(symbol, default)
        if index is None:
            raise Misfit(f"{path}: the symbol {symbol} is not one of {', '.join(reader.symbols)}")
        out += long_bytes(index)
        return end

    return rewrite


def _leaf(reader: PrimitiveType | FixedType, writer: PrimitiveType | FixedType, path: str) -> Rewrite:
    if isinstance(reader, FixedType) and isinstance(writer, FixedType) and not same_fixed(reader, writer):
        return _refusing(reader, writer, path)
    if reader.kind != writer.kind and writer.kind not in PROMOTIONS.get(reader.kind, ()):
        return _refusing(reader, writer, path)
    if reader.kind in _WITH_UNITS and not same_unit(reader, writer):
        raise Misfit(f"{path}: written as {_meaning(writer)}, read as {_meaning(reader)}")
    if reader.kind in ("string", "bytes"):
        return _text(reader, writer)
    if reader.kind in ("int", "long"):
        return _number(writer.kind, long_bytes)
    if reader.kind in _NUMBERS and writer.kind != reader.kind:
        return _number(writer.kind, _FLOAT.pack if reader.kind == "float" else _DOUBLE.pack)
    return _as_it_is(skip_of(writer))


def _as_it_is(skip: Callable[[bytes, int], int]) -> Rewrite:
    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        end = skip(buf, pos)
        out += buf[pos:end]
        return end

    return rewrite


def _number(written: str, encode: Callable[[Any], bytes]) -> Rewrite:
    skip = SKIPS[written]

    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        end = skip(buf, pos)
        out += encode(_FLOAT.unpack_from(buf, pos)[0] if written == "float" else read_long(buf, pos)[0])
        return end

    return rewrite


def _text(reader: PrimitiveType | FixedType, writer: PrimitiveType | FixedType) -> Rewrite:
    """A string or bytes. A decimal has at most the digits of the reader's schema."""
    check = digits_check(reader.precision) if reader.logical == "decimal" else None
    is_text = "string" in (reader.kind, writer.kind)
    not_text = "a text is not UTF-8"
    if writer.kind == "bytes":
        not_text = "bytes that are to be read as a text are not UTF-8"

    def rewrite(buf: bytes, pos: int, out: bytearray) -> int:
        content, end = read_bytes(buf, pos)
        if check is not None:
            check(content)
        if is_text and not _is_utf8(content):
            raise Malformed(not_text)
        out += string_bytes(content)
        return end

    return rewrite


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refusing(reader: Type, writer: Type, path: str) -> Rewrite:
    return _raising(f"{path}: written as {_kind(writer, reader)}, read as {_kind(reader, writer)}")


def _missing(path: str) -> Rewrite:
    return _raising(f"{path}: not in the writer's schema, and without a default")


def _raising(problem: str) -> Rewrite:
    def refuse(buf: bytes, pos: int, out: bytearray) -> NoReturn:
        raise Misfit(problem)

    return refuse


def _kind(one: Type, other: Type) -> str:
    """The kind, with the name and size where both are of one kind."""
    if not isinstance(one, NamedType) or one.kind != other.kind:
        return one.kind
    return f"{one.kind} {one.short}" + (f" of {one.size} bytes" if isinstance(one, FixedType) else "")


def _meaning(one: PrimitiveType | FixedType) -> str:
    if not one.logical:
        return f"plain {one.kind}"
    return f"decimal of scale {one.scale}" if one.logical == "decimal" else one.logical


def default_bytes(schema_type: Type, default: Any) -> bytes:
    """The default of a field, which a schema has as JSON, in Avro. In JSON, each byte is the character with its
    number."""
    if isinstance(schema_type, UnionType):
        return b"\0" + default_bytes(schema_type.branches[0], default)
    if isinstance(schema_type, RecordType):
        return b"".join([default_bytes(f.type, default.get(f.name, f.default)) for f in schema_type.fields])
    if isinstance(schema_type, ArrayType):
        return _block(len(default), b"".join([default_bytes(schema_type.items, item) for item in default]))
    if isinstance(schema_type, MapType):
        values = schema_type.values
        items = [string_bytes(key.encode()) + default_bytes(values, item) for key, item in default.items()]
        return _block(len(items), b"".join(items))
    if isinstance(schema_type, EnumType):
        return long_bytes(schema_type.symbols.index(default))
    if isinstance(schema_type, FixedType):
        return bytes(default.encode("latin-1"))
    return _DEFAULTS[schema_type.kind](default)


def _block(count: int, items: bytes | bytearray) -> bytes:
    """An array or map of so many items, as one block."""
    return (long_bytes(count) + items if count else b"") + b"\0"


_DEFAULTS: Final[dict[str, Callable[[Any], bytes]]] = {
    "null": lambda default: b"",
    "boolean": lambda default: bytes([default]),
    "int": long_bytes,
    "long": long_bytes,
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "bytes": lambda default: string_bytes(default.encode("latin-1")),
    "string": lambda default: string_bytes(default.encode()),
}

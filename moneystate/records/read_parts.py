"""Reads a record's Avro body: one part for each shape, which reads the value at a position.

Compiled parts take less time than generated code, which cannot be compiled where a service runs. Parts raise Malformed,
IndexError where the body is cut off, and UnicodeDecodeError.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from moneystate.engine.avro import Malformed, read_long, skip_bytes
from moneystate.records.avro_parts import (
    INT_MAX,
    INT_MIN,
    read_count,
    read_double,
    read_exact,
    read_json,
    read_named,
    read_own_json,
    read_symbol,
    read_text,
)
from moneystate.records.construction import has_dict
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64

# The kinds of fields that a record reads itself.
STRING: Final = 0
BYTES: Final = 1
LONG: Final = 2
BOOLEAN: Final = 3
MAYBE: Final = 4  # added to another kind: a union with null
OTHER: Final = 8  # the field's part reads it
MOST_SHIFT: Final = 56  # of the last seven bits of a number that surely has at most 63
NO_BRANCH: Final = "a union branch that the schema does not have"
TOO_LONG: Final = "a text or bytes field reaches beyond the record"

KINDS: Final = {"string": STRING, "bytes": BYTES, "long": LONG, "millis": LONG, "boolean": BOOLEAN}
new: Final = object.__new__


class Part(ABC):
    @abstractmethod
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        """The value at `pos`, and the position after it."""
        ...


class TextPart(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        n: i64 = buf[pos]
        start: i64 = pos + 1
        end: i64 = start + (n >> 1)
        if n & 0x81:  # a length of more than one byte, or a negative one
            first, after = skip_bytes(buf, pos)
            start = first
            end = after
        elif end > len(buf):
            raise Malformed(TOO_LONG)
        return buf[start:end].decode(), end


class BytesPart(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        start, end = skip_bytes(buf, pos)
        return buf[start:end], end


class LongPart(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        n, after = read_long(buf, pos)
        return n, after


class Int32Part(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        n, after = read_long(buf, pos)
        if not INT_MIN <= n <= INT_MAX:
            raise Malformed("a number of more than 32 bits")
        return n, after


class BooleanPart(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        return buf[pos] != 0, pos + 1


class DoublePart(Part):
    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        value, after = read_double(buf, pos)
        return value, after


class JsonPart(Part):
    def __init__(self, own: bool) -> None:
        self.own = own  # this program wrote it, so it is canonical

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        value, after = read_own_json(buf, pos) if self.own else read_json(buf, pos)
        return value, after


class ExactPart(Part):
    def __init__(self, shape: Exact) -> None:
        self.precision: int = shape.digits.precision
        self.scale: int = shape.digits.scale

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        value, after = read_exact(buf, pos, self.precision, self.scale)
        return value, after


class SymbolPart(Part):
    def __init__(self, shape: Symbols) -> None:
        self.symbols: tuple[str, ...] = shape.symbols
        self.is_enum = bool(shape.name)

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        value, after = read_symbol(self.symbols, buf, pos) if self.is_enum else read_named(self.symbols, buf, pos)
        return value, after


class MaybePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        branch, after = read_long(buf, pos)
        if branch == 1:
            return self.inner.read(buf, after)
        if branch != 0:
            raise Malformed(NO_BRANCH)
        return None, after


class ArrayPart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        items: list[Any] = []
        while True:
            count, after = read_count(buf, pos)
            pos = after
            if count == 0:
                return items, pos
            for _ in range(count):
                item, pos = self.inner.read(buf, pos)
                items.append(item)


class TablePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        members: dict[str, Any] = {}
        while True:
            count, after = read_count(buf, pos)
            pos = after
            if count == 0:
                return members, pos
            for _ in range(count):
                key, after = read_text(buf, pos)
                if key in members:
                    raise Malformed("a key occurs twice in a map")
                value, pos = self.inner.read(buf, after)
                members[key] = value


class RecordPart(Part):
    def __init__(self, record: Record, own: bool, made: dict[str, RecordPart]) -> None:
        made[record.name] = self
        self.cls: Any = record.cls
        self.has_dict = has_dict(record)
        self.by_name = any(f.kw_only for f in dataclasses.fields(record.cls))
        self.names: list[str] = []
        self.kinds: list[int] = []
        self.parts: list[Part] = []
        for f in record.fields:
            kind = kind_of(f.shape)
            self.names.append(f.name)
            self.kinds.append(OTHER if kind is None else kind)
            self.parts.append(part_of(f.shape, own, made))

    def read(self, buf: bytes, pos: i64) -> tuple[Any, i64]:
        if self.has_dict:
            made = new(self.cls)
            return made, self._fields(made.__dict__, buf, pos)
        values: dict[str, Any] = {}
        pos = self._fields(values, buf, pos)
        return self.cls(**values) if self.by_name else self.cls(*values.values()), pos

    def _fields(self, values: dict[str, Any], buf: bytes, pos: i64) -> i64:
        """Reads the fields into `values`. Returns the position after them."""
        size: i64 = len(buf)
        kinds, names = self.kinds, self.names
        field: i64
        for field in range(len(kinds)):
            kind: i64 = kinds[field]
            name = names[field]
            if kind == OTHER:
                values[name], pos = self.parts[field].read(buf, pos)
                continue
            n: i64 = buf[pos]
            if kind >= MAYBE:
                kind -= MAYBE
                if n != 2:
                    branch, after = read_long(buf, pos)
                    if branch == 0:
                        values[name] = None
                        pos = after
                        continue
                    if branch != 1:
                        raise Malformed(NO_BRANCH)
                    pos = after - 1
                pos += 1
                n = buf[pos]
            if kind == BOOLEAN:
                values[name] = n != 0
                pos += 1
                continue
            if n < 0x80:
                pos += 1
                n = (n >> 1) ^ -(n & 1)
            else:
                number, after = read_long(buf, pos)
                if kind == LONG:
                    values[name] = number
                    pos = after
                    continue
                n = number
                pos = after
            if kind == LONG:
                values[name] = n
                continue
            end = pos + n
            if n < 0 or end > size:
                raise Malformed(TOO_LONG)
            text = buf[pos:end]
            values[name] = text.decode() if kind == STRING else text
            pos = end
        return pos


def kind_of(shape: Shape) -> int | None:
    """The kind of a field that a record reads itself; None: its part reads it."""
    if isinstance(shape, Maybe):
        inner = kind_of(shape.inner)
        return None if inner is None or inner >= MAYBE else MAYBE + inner
    return KINDS.get(shape.kind) if isinstance(shape, Plain) and shape.bits == 64 else None


INT32: Final = Int32Part()
PLAIN: Final[dict[str, Part]] = {
    "string": TextPart(),
    "bytes": BytesPart(),
    "long": LongPart(),
    "millis": LongPart(),
    "boolean": BooleanPart(),
    "double": DoublePart(),
}


def part_of(shape: Shape, own: bool, made: dict[str, RecordPart]) -> Part:
    """`own`: for values that this program wrote. `made`: the parts of records, by their names."""
    if isinstance(shape, Plain):
        if shape.bits == 32:
            return INT32
        return JsonPart(own) if shape.kind == "json" else PLAIN[shape.kind]
    if isinstance(shape, Exact):
        return ExactPart(shape)
    if isinstance(shape, Symbols):
        return SymbolPart(shape)
    if isinstance(shape, Maybe):
        return MaybePart(part_of(shape.inner, own, made))
    if isinstance(shape, Array):
        return ArrayPart(part_of(shape.inner, own, made))
    if isinstance(shape, Table):
        return TablePart(part_of(shape.inner, own, made))
    assert isinstance(shape, Record)
    return made[shape.name] if shape.name in made else RecordPart(shape, own, made)

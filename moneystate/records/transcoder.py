"""Turns a record's Avro body into JSON text without creating the record: one part for each shape, which reads the
value at a position, adds its text and returns the position after it.

The bodies are those that this program wrote: their JSON fields are canonical. The texts are those of `generate_json`.
Parts raise Malformed, IndexError where the body is cut off, UnicodeDecodeError, and Unencodable for a value that JSON
cannot represent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moneystate.engine.avro import Malformed, read_bytes, read_long, skip_bytes
from moneystate.records.avro_parts import read_count, read_double, read_exact, read_named, read_symbol, read_text
from moneystate.records.generate_json import type_member
from moneystate.records.json_parts import bytes_out, double_out, exact_out, millis_out, symbol_out, unscaled_out
from moneystate.records.json_text import quote
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64


class Part(ABC):
    @abstractmethod
    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64: ...


class TextPart(Part):
    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        n: i64 = buf[pos]
        start: i64 = pos + 1
        end: i64 = start + (n >> 1)
        if n & 0x81:  # a length of more than one byte, or a negative one
            first, after = skip_bytes(buf, pos)
            start = first
            end = after
        elif end > len(buf):
            raise Malformed("a text or bytes field reaches beyond the record")
        out.append(quote(buf[start:end].decode()))
        return end


class LongPart(Part):
    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        n, after = read_long(buf, pos)
        out.append(str(n))
        return after


class BooleanPart(Part):
    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        out.append("true" if buf[pos] else "false")
        return pos + 1


class ReadPart(Part):
    """A value that is read and then turned into text. The parts above do both at once: they are the most frequent."""

    def __init__(self, read: Callable[[bytes, int], tuple[Any, int]], text: Callable[[Any], str]) -> None:
        self.read = read  # the value at a position, and the position after it
        self.text = text

    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        value, after = self.read(buf, pos)
        out.append(self.text(value))
        return after


class MaybePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        branch, after = read_long(buf, pos)
        if branch == 1:
            return self.inner.add(buf, after, out)
        if branch != 0:
            raise Malformed("a union branch that the schema does not have")
        out.append("null")
        return after


class ArrayPart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        before = "["
        while True:
            count, after = read_count(buf, pos)
            pos = after
            if count == 0:
                out.append("[]" if before == "[" else "]")
                return pos
            for _ in range(count):
                out.append(before)
                pos = self.inner.add(buf, pos, out)
                before = ","


class TablePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        members: dict[str, str] = {}
        while True:
            count, after = read_count(buf, pos)
            pos = after
            if count == 0:
                break
            for _ in range(count):
                key, after = read_text(buf, pos)
                if key in members:
                    raise Malformed("a key occurs twice in a map")
                value: list[str] = []
                pos = self.inner.add(buf, after, value)
                members[key] = "".join(value)
        out.append("{" + ",".join([f"{quote(key)}:{members[key]}" for key in sorted(members)]) + "}")
        return pos


class RecordPart(Part):
    def __init__(self, record: Record, with_type: bool, made: dict[str, RecordPart]) -> None:
        made[record.name] = self
        before = "{" + type_member(record) if with_type else "{"
        self.befores: list[str] = []  # what stands before each field's value
        self.parts: list[Part] = []
        for f in record.fields:
            self.befores.append(f"{before}{quote(f.label)}:")
            self.parts.append(part_of(f.shape, made))
            before = ","
        self.after: str = "}" if record.fields else before.rstrip(",") + "}"

    def add(self, buf: bytes, pos: i64, out: list[str]) -> i64:
        for n in range(len(self.parts)):
            out.append(self.befores[n])
            pos = self.parts[n].add(buf, pos, out)
        out.append(self.after)
        return pos


PLAIN: Final[dict[str, Part]] = {
    "string": TextPart(),
    "long": LongPart(),
    "millis": ReadPart(read_long, millis_out),
    "boolean": BooleanPart(),
    "double": ReadPart(read_double, double_out),
    "bytes": ReadPart(read_bytes, bytes_out),
    "json": ReadPart(read_text, str),
}


def part_of(shape: Shape, made: dict[str, RecordPart]) -> Part:
    """`made`: the parts of records, by their names."""
    if isinstance(shape, Plain):
        return PLAIN[shape.kind] if shape.digits is None else ReadPart(read_bytes, unscaled_out(shape.digits.scale))
    if isinstance(shape, Exact):
        precision, scale = shape.digits.precision, shape.digits.scale
        return ReadPart(partial(read_exact, precision=precision, scale=scale), exact_out(precision, scale))
    if isinstance(shape, Symbols):
        return ReadPart(partial(read_symbol if shape.name else read_named, shape.symbols), symbol_out(shape.symbols))
    if isinstance(shape, Maybe):
        return MaybePart(part_of(shape.inner, made))
    if isinstance(shape, Array):
        return ArrayPart(part_of(shape.inner, made))
    if isinstance(shape, Table):
        return TablePart(part_of(shape.inner, made))
    assert isinstance(shape, Record)
    return made[shape.name] if shape.name in made else RecordPart(shape, False, made)


class Transcoder:
    """Turns the Avro of a record into JSON. The text begins with the type, unless the record has a field of that
    name."""

    def __init__(self, record: Record) -> None:
        self.part = RecordPart(record, True, {})

    def read(self, buf: bytes, pos: int) -> tuple[str, int]:
        """The text of the body at a position, and the position after it."""
        out: list[str] = []
        after: int = self.part.add(buf, pos, out)
        return "".join(out), after

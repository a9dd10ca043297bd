"""Writes a record as Avro: one part for each shape, which appends the bytes of a value. `read_parts` reads them.

Parts take any object that has the fields of a record, and any number or text that Python takes for one. They raise
Unencodable, TypeError, AttributeError, ValueError or LookupError for a value that the shape cannot hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index
from typing import Any, Final

from moneystate.engine.avro import long_bytes, string_bytes
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.records.avro_parts import (
    BOOLEANS,
    INT_MAX,
    INT_MIN,
    SMALL,
    bytes_of,
    double_of,
    exact_bytes,
    finite_of,
    items_of,
    json_bytes,
    long_of,
    members_of,
    no_int32,
    no_json,
    symbol_number,
)
from moneystate.records.read_parts import BYTES, KINDS, LONG, MAYBE, OTHER, STRING, kind_of
from moneystate.records.shapes import MILLIS_KIND, Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

END: Final = b"\x00"  # of an array or a map
NULL: Final = b"\x00"
NOT_NULL: Final = b"\x02"


class Part(ABC):
    @abstractmethod
    def write(self, value: Any, out: list[bytes]) -> None: ...


class PlainPart(Part):
    """A text, bytes, a whole number or a boolean."""

    def __init__(self, kind: int) -> None:
        self.kind = kind  # of `read_parts`

    def write(self, value: Any, out: list[bytes]) -> None:
        write_plain(self.kind, value, out)


class Int32Part(Part):
    def write(self, value: Any, out: list[bytes]) -> None:
        if not INT_MIN <= value <= INT_MAX:
            no_int32()
        out.append(long_of(value))


class JsonMillisPart(Part):
    def write(self, value: Any, out: list[bytes]) -> None:
        if not MIN_EVENT_TIME <= value <= MAX_EVENT_TIME:
            no_json(value)
        out.append(long_of(value))


class DoublePart(Part):
    def __init__(self, for_json: bool) -> None:
        self.for_json = for_json

    def write(self, value: Any, out: list[bytes]) -> None:
        out.append(finite_of(value) if self.for_json else double_of(value))


class JsonPart(Part):
    def write(self, value: Any, out: list[bytes]) -> None:
        out.append(json_bytes(value))


class ExactPart(Part):
    def __init__(self, shape: Exact) -> None:
        self.precision: int = shape.digits.precision
        self.scale: int = shape.digits.scale

    def write(self, value: Any, out: list[bytes]) -> None:
        out.append(exact_bytes(value, self.precision, self.scale))


class SymbolPart(Part):
    def __init__(self, shape: Symbols) -> None:
        self.numbers: dict[str, bytes] = {
            symbol: long_bytes(n) if shape.name else string_bytes(symbol.encode())
            for n, symbol in enumerate(shape.symbols)
        }

    def write(self, value: Any, out: list[bytes]) -> None:
        out.append(symbol_number(self.numbers, value))


class MaybePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def write(self, value: Any, out: list[bytes]) -> None:
        if value is None:
            out.append(NULL)
        else:
            out.append(NOT_NULL)
            self.inner.write(value, out)


class ArrayPart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def write(self, value: Any, out: list[bytes]) -> None:
        items = value if type(value) is list else items_of(value)
        if items:
            out.append(long_bytes(len(items)))
        for item in items:
            self.inner.write(item, out)
        out.append(END)


class TablePart(Part):
    def __init__(self, inner: Part) -> None:
        self.inner = inner

    def write(self, value: Any, out: list[bytes]) -> None:
        members = value if type(value) is dict else members_of(value)
        if members:
            out.append(long_bytes(len(members)))
        for key in sorted(members):
            write_plain(STRING, key, out)
            self.inner.write(members[key], out)
        out.append(END)


class RecordPart(Part):
    def __init__(self, record: Record, for_json: bool, made: dict[str, RecordPart]) -> None:
        made[record.name] = self
        self.names: list[str] = [f.name for f in record.fields]
        self.parts: list[Part] = [part_of(f.shape, for_json, made) for f in record.fields]
        self.kinds: list[int] = []
        for f in record.fields:
            kind = kind_of(f.shape)
            is_checked = for_json and f.shape in (Plain(MILLIS_KIND), Maybe(Plain(MILLIS_KIND)))
            self.kinds.append(OTHER if kind is None or is_checked else kind)

    def write(self, value: Any, out: list[bytes]) -> None:
        names, kinds = self.names, self.kinds
        for n in range(len(names)):
            one = getattr(value, names[n])
            kind = kinds[n]
            if kind == OTHER:
                self.parts[n].write(one, out)
                continue
            if kind >= MAYBE:
                if one is None:
                    out.append(NULL)
                    continue
                out.append(NOT_NULL)
                kind -= MAYBE
            write_plain(kind, one, out)

    def body(self, value: Any) -> bytes:
        out: list[bytes] = []
        self.write(value, out)
        return b"".join(out)


def write_plain(kind: int, value: Any, out: list[bytes]) -> None:
    if kind == STRING:
        text: bytes = value.encode() if isinstance(value, str) else encoded(value)
        write_bytes(text, out)
    elif kind == LONG:
        number: int = value if isinstance(value, int) else whole(value)
        out.append(SMALL[number] if 0 <= number < len(SMALL) else long_of(number))
    elif kind == BYTES:
        write_bytes(value if type(value) is bytes else bytes_of(value), out)
    else:
        out.append(BOOLEANS[value])


def encoded(value: Any) -> bytes:
    """The UTF-8 of an object that is no string, but has it."""
    text: bytes = value.encode()
    return text


def whole(value: Any) -> int:
    """A number of any other type."""
    return index(value)


def write_bytes(content: bytes, out: list[bytes]) -> None:
    size = len(content)
    out.append(SMALL[size] if size < len(SMALL) else long_bytes(size))
    out.append(content)


INT32: Final = Int32Part()
PLAIN: Final[dict[str, Part]] = {
    **{name: PlainPart(kind) for name, kind in KINDS.items()},
    "json": JsonPart(),
    "double": DoublePart(False),
}
FOR_JSON: Final[dict[str, Part]] = {**PLAIN, MILLIS_KIND: JsonMillisPart(), "double": DoublePart(True)}


def part_of(shape: Shape, for_json: bool, made: dict[str, RecordPart]) -> Part:
    """`for_json`: refuses what JSON cannot represent. `made`: the parts of records, by their names."""
    if isinstance(shape, Plain):
        if shape.bits == 32:
            return INT32
        return FOR_JSON[shape.kind] if for_json else PLAIN[shape.kind]
    if isinstance(shape, Exact):
        return ExactPart(shape)
    if isinstance(shape, Symbols):
        return SymbolPart(shape)
    if isinstance(shape, Maybe):
        return MaybePart(part_of(shape.inner, for_json, made))
    if isinstance(shape, Array):
        return ArrayPart(part_of(shape.inner, for_json, made))
    if isinstance(shape, Table):
        return TablePart(part_of(shape.inner, for_json, made))
    assert isinstance(shape, Record)
    return made[shape.name] if shape.name in made else RecordPart(shape, for_json, made)

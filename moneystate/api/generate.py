"""Generates the source code of Avro codecs from a record's shape: a reader and a writer for each record.

    def read_1(buf, pos): ...    returns the record and the position after it; raises Malformed, IndexError if cut off
    def write_1(r): ...          returns the bytes of the body
    def exact_1(r): ...          whether the record is the same as one that is read from its bytes; only without lists,
                                 dicts, decimals and records in it
    def copy_1(r): ...           returns a copy that shares no mutable object with the original

Most numbers and lengths have one byte. These are read inline; everything else calls `avro_parts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from moneystate.api import avro_parts, field_runs
from moneystate.api.json_value import Json
from moneystate.api.shapes import Array, Exact, Field, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.api.source_code import Source
from moneystate.engine import avro
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME

_PARTS: Final = {name: getattr(avro_parts, name) for name in dir(avro_parts) if not name.startswith("_")}
_KINDS: Final = {
    "string": field_runs.STRING,
    "bytes": field_runs.BYTES,
    "long": field_runs.LONG,
    "millis": field_runs.LONG,
    "boolean": field_runs.BOOLEAN,
}
_TYPES: Final = {
    "string": "str", "bytes": "bytes", "long": "int", "millis": "int", "double": "float", "boolean": "bool",
    "json": "Json",
}  # fmt: skip
_READERS: Final = {"boolean": "read_boolean", "double": "read_double", "json": "read_json"}


class AvroCode:
    """The generated code of a record and of the records in it. `for_json`: the writer refuses values that JSON cannot
    represent."""

    def __init__(self, for_json: bool = False) -> None:
        self.for_json = for_json
        self.source = Source()
        self.source.names.update(_PARTS)
        self.source.names["Json"] = Json
        self.source.names["Malformed"] = avro.Malformed
        self.source.names["read_long"] = avro.read_long
        self.source.names["skip_bytes"] = avro.skip_bytes
        self.source.names["read_fields"] = field_runs.read_fields
        self.ids: dict[str, int] = {}  # by record name: the number in the names of its functions

    def record(self, record: Record) -> int:
        """Generates the record's functions, after those of the records in it."""
        if record.name in self.ids:
            return self.ids[record.name]
        for f in record.fields:
            for part in _records(f.shape):
                self.record(part)
        number = self.ids[record.name] = len(self.ids) + 1
        self.source.names[f"cls_{number}"] = record.cls
        if has_dict(record):
            self._dict_reader(record, number)
        else:
            self._reader(record, number)
        self._writer(record, number)
        if has_dict(record) and all(_type_of(f.shape) for f in record.fields):
            self._exact(record, number)
        return number

    # Reading

    def _reader(self, record: Record, number: int) -> None:
        """Reads all fields, then constructs the record."""
        source = self.source
        source.line(0, f"def read_{number}(buf, pos):")
        names = [f"f{n}" for n in range(len(record.fields))]
        for name, f in zip(names, record.fields, strict=True):
            self._read(1, f.shape, name)
        # a slice beyond the end gives a shorter string and no error
        source.line(1, "if pos > len(buf): raise IndexError")
        source.line(1, f"r = cls_{number}({_arguments(record, names)})")
        source.line(1, "return r, pos")

    def _dict_reader(self, record: Record, number: int) -> None:
        """Reads the fields into the record's `__dict__`, as many as possible at once."""
        source = self.source
        source.line(0, f"def read_{number}(buf, pos):")
        source.names["new"] = object.__new__
        source.line(1, f"r = new(cls_{number})")
        source.line(1, "d = r.__dict__")
        for run, fields in groupby(record.fields, key=lambda f: _kind(f.shape) is not None):
            if run:
                source.line(1, f"pos = read_fields(d, buf, pos, {self._spec(fields)})")
                continue
            for f in fields:
                self._read(1, f.shape, "f")
                source.line(1, f"d[{f.name!r}] = f")
        source.line(1, "if pos > len(buf): raise IndexError")
        source.line(1, "return r, pos")

    def _spec(self, fields: Iterable[Field]) -> str:
        return self.source.constant("fields", [(f.name, _kind(f.shape)) for f in fields])

    def _read(self, depth: int, shape: Shape, into: str) -> None:
        line = self.source.line
        if isinstance(shape, Plain) and shape.kind in ("string", "bytes"):
            line(depth, "n = LENGTHS[buf[pos]]")
            line(depth, "pos += 1")
            line(depth, "if n >= 0: end = pos + n")
            line(depth, "else: pos, end = skip_bytes(buf, pos - 1)")
            line(depth, f"{into} = buf[pos:end]{'.decode()' if shape.kind == 'string' else ''}")
            line(depth, "pos = end")
        elif isinstance(shape, Plain) and shape.kind in ("long", "millis"):
            line(depth, "n = buf[pos]")
            line(depth, "if n < 128:")
            line(depth + 1, f"{into} = LONGS[n]; pos += 1")
            line(depth, "else:")
            line(depth + 1, f"{into}, pos = read_long(buf, pos)")
        elif isinstance(shape, Maybe):
            line(depth, "n = buf[pos]")
            line(depth, "if n > 2: n, pos = read_long(buf, pos); n <<= 1")
            line(depth, "else: pos += 1")
            line(depth, f"if n == 0: {into} = None")
            line(depth, "elif n == 2:")
            self._read(depth + 1, shape.inner, into)
            line(depth, "else: raise Malformed('a union branch that the schema does not have')")
        elif isinstance(shape, (Array, Table)):
            self._read_items(depth, shape, into)
        else:
            line(depth, f"{into}, pos = {self._read_call(shape)}")

    def _read_call(self, shape: Shape) -> str:
        if isinstance(shape, Record):
            return f"read_{self.ids[shape.name]}(buf, pos)"
        if isinstance(shape, Exact):
            return f"read_exact(buf, pos, {shape.digits.precision}, {shape.digits.scale})"
        if isinstance(shape, Symbols):
            symbols = self.source.constant("symbols", shape.symbols)
            return f"{'read_symbol' if shape.name else 'read_named'}({symbols}, buf, pos)"
        assert isinstance(shape, Plain)
        return f"{_READERS[shape.kind]}(buf, pos)"

    def _read_items(self, depth: int, shape: Array | Table, into: str) -> None:
        line, fresh = self.source.line, self.source.fresh
        item, items, count, key = fresh("item"), fresh("items"), fresh("count"), fresh("key")
        line(depth, f"{items} = {'[]' if isinstance(shape, Array) else '{}'}")
        line(depth, "while True:")
        line(depth + 1, f"{count}, pos = read_count(buf, pos)")
        line(depth + 1, f"if {count} == 0: break")
        line(depth + 1, f"for {count} in range({count}):")
        if isinstance(shape, Table):
            line(depth + 2, f"{key}, pos = read_text(buf, pos)")
            line(depth + 2, f"if {key} in {items}: raise Malformed('a key occurs twice in a map')")
            self._read(depth + 2, shape.inner, item)
            line(depth + 2, f"{items}[{key}] = {item}")
        else:
            self._read(depth + 2, shape.inner, item)
            line(depth + 2, f"{items}.append({item})")
        line(depth, f"{into} = {items}")

    # Writing

    def _writer(self, record: Record, number: int) -> None:
        source = self.source
        source.line(0, f"def write_{number}(r):")
        parts = [part for f in record.fields for part in self._write(1, f.shape, f"r.{f.name}")]
        if len(parts) < 3:
            source.line(1, "return " + (" + ".join([f"({part})" for part in parts]) or "b''"))
        else:
            source.line(1, f"return b''.join(({', '.join(parts)}))")

    def _exact(self, record: Record, number: int) -> None:
        tests = [f"type(r) is cls_{number}", f"len(r.__dict__) == {len(record.fields)}"]
        for f in record.fields:
            one = f"type(r.{f.name}) is {_type_of(f.shape)}"
            tests.append(f"(r.{f.name} is None or {one})" if isinstance(f.shape, Maybe) else one)
        self.source.line(0, f"def exact_{number}(r):")
        self.source.line(1, f"return {' and '.join(tests)}")

    def _write(self, depth: int, shape: Shape, value: str) -> list[str]:
        """The expressions whose values, concatenated, are the encoding. Writes the lines that they need."""
        line, fresh = self.source.line, self.source.fresh
        if isinstance(shape, Plain) and shape.kind in ("string", "bytes"):
            text, size = fresh("x"), fresh("n")
            if shape.kind == "string":
                line(depth, f"{text} = {value}.encode()")
            else:
                line(depth, f"{text} = {value}")
                line(depth, f"if type({text}) is not bytes: {text} = bytes_of({text})")
            line(depth, f"{size} = len({text})")
            return [f"SMALL[{size}] if {size} < 4096 else long_of({size})", text]
        if isinstance(shape, Plain) and shape.kind in ("long", "millis"):
            number = fresh("x")
            line(depth, f"{number} = {value}")
            if shape.bits == 32:
                line(depth, f"if not {avro_parts.INT_MIN} <= {number} <= {avro_parts.INT_MAX}: no_int32()")
            if self.for_json and shape.kind == "millis":
                line(depth, f"if not {MIN_EVENT_TIME} <= {number} <= {MAX_EVENT_TIME}: no_json({number})")
            return [f"SMALL[{number}] if 0 <= {number} < 4096 else long_of({number})"]
        if isinstance(shape, Plain) and shape.kind == "boolean":
            return [f"BOOLEANS[{value}]"]
        if isinstance(shape, Maybe):
            content, out = fresh("x"), fresh("out")
            line(depth, f"{content} = {value}")
            line(depth, f"if {content} is None: {out} = b'\\x00'")
            line(depth, "else:")
            parts = self._write(depth + 1, shape.inner, content)
            line(depth + 1, f"{out} = b'\\x02' + " + " + ".join([f"({part})" for part in parts]))
            return [out]
        if isinstance(shape, (Array, Table)):
            return [self._write_items(depth, shape, value)]
        return [self._write_call(shape, value)]

    def _write_call(self, shape: Shape, value: str) -> str:
        if isinstance(shape, Record):
            return f"write_{self.ids[shape.name]}({value})"
        if isinstance(shape, Exact):
            return f"exact_bytes({value}, {shape.digits.precision}, {shape.digits.scale})"
        if isinstance(shape, Symbols):
            numbers = {
                symbol: avro.long_bytes(n) if shape.name else avro.string_bytes(symbol.encode())
                for n, symbol in enumerate(shape.symbols)
            }
            return f"symbol_number({self.source.constant('numbers', numbers)}, {value})"
        assert isinstance(shape, Plain)
        if shape.kind == "double":
            return f"{'finite_of' if self.for_json else 'double_of'}({value})"
        return f"json_bytes({value})"

    def _write_items(self, depth: int, shape: Array | Table, value: str) -> str:
        line, fresh = self.source.line, self.source.fresh
        items, parts, item, key = fresh("x"), fresh("parts"), fresh("item"), fresh("key")
        line(depth, f"{items} = {value}")
        expected, convert = ("list", "items_of") if isinstance(shape, Array) else ("dict", "members_of")
        line(depth, f"if type({items}) is not {expected}: {items} = {convert}({items})")
        line(depth, f"{parts} = [long_of(len({items}))] if {items} else []")
        if isinstance(shape, Table):
            line(depth, f"for {key} in sorted({items}):")
            line(depth + 1, f"{item} = {items}[{key}]")
            for part in self._write(depth + 1, Plain("string"), key):
                line(depth + 1, f"{parts}.append({part})")
        else:
            line(depth, f"for {item} in {items}:")
        for part in self._write(depth + 1, shape.inner, item):
            line(depth + 1, f"{parts}.append({part})")
        line(depth, f"{parts}.append(b'\\x00')")
        return f"b''.join({parts})"


def _type_of(shape: Shape) -> str:
    """The name of the only type that a value has when it is read; empty: that depends on more than the type."""
    inner = shape.inner if isinstance(shape, Maybe) else shape
    if isinstance(inner, Symbols):
        return "str"
    return _TYPES[inner.kind] if isinstance(inner, Plain) else ""


def has_dict(record: Record) -> bool:
    """Whether setting `__dict__` does what the constructor does. A field with a slot, even of a base class, is not in
    `__dict__`. A class may have a constructor of its own, which `@dataclass` keeps."""
    cls: Any = record.cls
    params = cls.__dataclass_params__
    has_slots = any("__slots__" in vars(c) for c in cls.__mro__)
    sets_fields = params.frozen or cls.__setattr__ is object.__setattr__
    is_made = params.init and cls.__new__ is object.__new__ and cls.__init__.__code__.co_filename == "<string>"
    return is_made and sets_fields and not has_slots and not hasattr(cls, "__post_init__")


def runs_code(shape: Shape) -> bool:
    """Whether a record of the shape runs code of the service when it is read: a constructor or a `__post_init__`."""
    if not isinstance(shape, Record):
        return any(runs_code(record) for record in _records(shape))
    cls: Any = shape.cls
    is_made = cls.__new__ is object.__new__ and cls.__init__.__code__.co_filename == "<string>"
    return not is_made or hasattr(cls, "__post_init__") or any(runs_code(f.shape) for f in shape.fields)


def _kind(shape: Shape) -> int | None:
    """The field's kind for `field_runs`; None: it has none."""
    if isinstance(shape, Maybe):
        inner = _KINDS.get(shape.inner.kind) if isinstance(shape.inner, Plain) else None
        return None if inner is None else field_runs.MAYBE + inner
    return _KINDS.get(shape.kind) if isinstance(shape, Plain) else None


def _records(shape: Shape) -> list[Record]:
    if isinstance(shape, Record):
        return [shape]
    return _records(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else []


def _arguments(record: Record, values: list[str]) -> str:
    """The arguments of a constructor. By position, if possible, because that takes half the time."""
    if any(f.kw_only for f in dataclasses.fields(record.cls)):
        return ", ".join([f"{f.name}={value}" for f, value in zip(record.fields, values, strict=True)])
    return ", ".join(values)

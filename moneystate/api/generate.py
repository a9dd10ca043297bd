"""Generates the source code of Avro writers from a record's shape.

    def write_1(r): ...          returns the bytes of the body
    def exact_1(r): ...          whether the record is the same as one that is read from its bytes; only without lists,
                                 dicts, decimals and records in it

Most numbers and lengths have one byte. These are written inline; everything else calls `avro_parts`.
"""

from __future__ import annotations

from typing import Final

from moneystate.api import avro_parts
from moneystate.api.construction import has_dict, records_in
from moneystate.api.json_value import Json
from moneystate.api.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.api.source_code import Source
from moneystate.engine import avro
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME

_PARTS: Final = {name: getattr(avro_parts, name) for name in dir(avro_parts) if not name.startswith("_")}
_TYPES: Final = {
    "string": "str", "bytes": "bytes", "long": "int", "millis": "int", "double": "float", "boolean": "bool",
    "json": "Json",
}  # fmt: skip


class AvroCode:
    """The generated code of a record and of the records in it. `for_json`: the writer refuses values that JSON cannot
    represent."""

    def __init__(self, for_json: bool = False) -> None:
        self.for_json = for_json
        self.source = Source()
        self.source.names.update(_PARTS)
        self.source.names["Json"] = Json
        self.ids: dict[str, int] = {}  # by record name: the number in the names of its functions

    def record(self, record: Record) -> int:
        """Generates the record's functions, after those of the records in it."""
        if record.name in self.ids:
            return self.ids[record.name]
        for f in record.fields:
            for part in records_in(f.shape):
                self.record(part)
        number = self.ids[record.name] = len(self.ids) + 1
        self.source.names[f"cls_{number}"] = record.cls
        self._writer(record, number)
        if has_dict(record) and all(_type_of(f.shape) for f in record.fields):
            self._exact(record, number)
        return number

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

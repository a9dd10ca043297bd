"""Generates the source code of JSON codecs from a record's shape.

    def in_1(document): ...      reads a parsed document (`json_text.parse`); raises Malformed
    def out_1(r): ...            returns the JSON text; raises Unencodable, TypeError, AttributeError, ValueError

A record is a JSON object whose members have the field names of the schema. The reader ignores unknown members, because
producers may have a newer schema, and accepts the absence of a field with a default. The writer writes `type`, unless
the record has a field of that name, and then all fields in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moneystate.engine.avro import Malformed
from moneystate.records import json_parts
from moneystate.records.construction import has_dict
from moneystate.records.json_text import quote
from moneystate.records.member_runs import KINDS, MAYBE, OTHER, read_members
from moneystate.records.shapes import Array, Exact, Field, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.records.source_code import SourceText
from moneystate.records.type_names import TYPE, has_type_field


class JsonCode:
    """The generated code of a record and of the records in it."""

    def __init__(self, record: Record, by_name: bool = False) -> None:
        self.by_name = by_name  # members have the declared names of the fields, not those of the schema
        self.source = SourceText()
        self.source.names.update(Malformed=Malformed, new=object.__new__, read_members=read_members)
        self.ids: dict[str, int] = {}
        self.top = record
        self.texts = JsonTexts(self.source, lambda nested, value: f"out_{self._record(nested)}({value})")
        self.number = self._record(record)

    def functions(self) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
        functions = self.source.run(f"{self.top.name} as JSON")
        return functions[f"in_{self.number}"], functions[f"out_{self.number}"]

    def _record(self, record: Record) -> int:
        if record.name in self.ids:
            return self.ids[record.name]
        members = [self._member(f) for f in record.fields]
        text = self.texts.record_expression(record, [f"r.{f.name}" for f in record.fields], record is self.top)
        number = self.ids[record.name] = len(self.ids) + 1
        self.source.names[f"cls_{number}"] = record.cls
        self._reader(record, number, members)
        self.source.line(0, f"def out_{number}(r):")
        self.source.line(1, f"return {text}")
        return number

    def _reader(self, record: Record, number: int, members: list[str]) -> None:
        line = self.source.line
        line(0, f"members_{number} = [{', '.join(members)}]")
        line(0, f"def in_{number}(document):")
        line(1, "if type(document) is not dict: raise Malformed('not an object')")
        if has_dict(record):
            line(1, f"r = new(cls_{number})")
            line(1, f"read_members(r.__dict__, document, members_{number})")
            line(1, "return r")
            return
        line(1, "values = {}")
        line(1, f"read_members(values, document, members_{number})")
        line(1, f"return cls_{number}(**values)")

    def _member(self, f: Field) -> str:
        """The expression for a `member_runs.Member`. Writes the lines that it needs."""
        label = f.column if self.by_name else f.label
        shape = f.shape.inner if isinstance(f.shape, Maybe) else f.shape
        kind = OTHER
        if isinstance(shape, Plain) and shape.bits == 64 and shape.digits is None:
            kind = KINDS.get(shape.kind, OTHER)
        read = self._part(shape) if kind == OTHER else None
        default = None if f.default is None else self.source.constant("default", f.default)
        tagged = kind + MAYBE if isinstance(f.shape, Maybe) else kind
        others = () if self.by_name else f.also_in_json
        return f"({f.name!r}, {label!r}, {tagged}, {read}, {default}, {others!r})"

    def _part(self, shape: Shape) -> str:
        """The name of a function that reads the shape."""
        names = self.source.names
        if isinstance(shape, Record):
            return f"in_{self._record(shape)}"
        name = self.source.fresh("in_part")
        if isinstance(shape, (Maybe, Array, Table)):
            kind = {Maybe: "maybe", Array: "array", Table: "table"}[type(shape)]
            names[f"{kind}_in"] = getattr(json_parts, f"{kind}_in")
            self.source.line(0, f"{name} = {kind}_in({self._part(shape.inner)})")
        else:
            names[name] = reader_of(shape)
        return name


class JsonTexts:
    """Python expressions for the JSON text of values."""

    def __init__(self, source: SourceText, nested: Callable[[Record, str], str]) -> None:
        self.source = source
        self.nested = nested  # returns the expression for a record within another
        source.names["quote"] = quote

    def record_expression(self, record: Record, values: list[str], with_type: bool) -> str:
        """The expression for a record. `values`: expressions for its fields. `with_type`: the text begins with the
        type, unless the record has a field of that name."""
        parts: list[str] = []
        before = "{" + type_member(record) if with_type else "{"
        for f, value in zip(record.fields, values, strict=True):
            parts += [repr(f"{before}{quote(f.label)}:"), self.expression(f.shape, value)]
            before = ","
        parts.append(repr("}" if record.fields else before.rstrip(",") + "}"))
        return f"''.join(({', '.join(parts)},))"

    def expression(self, shape: Shape, value: str) -> str:
        if isinstance(shape, Record):
            return self.nested(shape, value)
        if isinstance(shape, Plain):
            if shape.kind == "string":
                return f"quote({value})"
            if shape.digits is not None:
                return f"{self.source.constant('unscaled', json_parts.unscaled_out(shape.digits.scale))}({value})"
            return f"{self._part('double_shown' if shape.kind == 'double' else f'{shape.kind}_out')}({value})"
        if isinstance(shape, Exact):
            write = json_parts.exact_out(shape.digits.precision, shape.digits.scale)
            return f"{self.source.constant('exact', write)}({value})"
        if isinstance(shape, Symbols):
            return f"{self.source.constant('symbol', json_parts.symbol_out(shape.symbols))}({value})"
        assert isinstance(shape, (Maybe, Array, Table))
        item = self.source.fresh("i")
        if isinstance(shape, Maybe):
            return f"('null' if ({item} := {value}) is None else {self.expression(shape.inner, item)})"
        if isinstance(shape, Array):
            return f"'[' + ','.join([{self.expression(shape.inner, item)} for {item} in {value}]) + ']'"
        name, table = self.source.fresh("k"), self.source.fresh("t")
        member = f"quote({name}) + ':' + {self.expression(shape.inner, f'{table}[{name}]')}"
        return f"'{{' + ','.join([{member} for {table} in ({value},) for {name} in sorted({table})]) + '}}'"

    def _part(self, name: str) -> str:
        self.source.names[name] = getattr(json_parts, name)
        return name


def reader_of(shape: Shape) -> Callable[[Any], Any]:
    """Reads a value without parts. Raises Malformed."""
    if isinstance(shape, Exact):
        return json_parts.exact_in(shape.digits.precision, shape.digits.scale)
    if isinstance(shape, Symbols):
        return json_parts.symbol_in(shape.symbols)
    assert isinstance(shape, Plain)
    if shape.digits is not None:
        return json_parts.unscaled_in(shape.digits.precision, shape.digits.scale)
    if shape.bits == 32:
        return json_parts.int_in
    read: Callable[[Any], Any] = getattr(json_parts, f"{shape.kind}_in")
    return read


def type_member(record: Record) -> str:
    """The member with which a record's text begins; empty if the record has a field of that name."""
    return "" if has_type_field(record) else f'"{TYPE}":{quote(record.type_name)},'

"""Generates the source code of JSON codecs from a record's shape.

An object with the fields as the schema names them. Read: members that the record does not have are ignored, as
producers may be ahead of this program; a field with a default may be absent. Written: all fields, in their order, after
`type` where the record has no field of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moneystate.api import json_parts
from moneystate.api.json_text import quote
from moneystate.api.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.api.source_code import Source
from moneystate.engine.avro import Malformed

TYPE: Final = "type"


class JsonCode:
    """`by_name`: members have the names of the fields as they are declared."""

    def __init__(self, record: Record, by_name: bool = False) -> None:
        self.by_name = by_name
        self.source = Source()
        self.source.names.update(MISSING=json_parts.MISSING, Malformed=Malformed, inside=json_parts.inside)
        self.ids: dict[str, int] = {}
        self.top = record
        self.number = self._record(record)

    def functions(self) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
        made = self.source.run(f"{self.top.name} as JSON")
        return made[f"in_{self.number}"], made[f"out_{self.number}"]

    def _record(self, record: Record) -> int:
        if record.name in self.ids:
            return self.ids[record.name]
        both = [(self._part(f.shape, "in"), self._part(f.shape, "out")) for f in record.fields]
        number = self.ids[record.name] = len(self.ids) + 1
        self.source.names[f"cls_{number}"] = record.cls
        self._reader(record, number, [read for read, _ in both])
        self._writer(record, number, [write for _, write in both])
        return number

    def _reader(self, record: Record, number: int, parts: list[str]) -> None:
        line = self.source.line
        line(0, f"def in_{number}(document):")
        line(1, "if type(document) is not dict: raise Malformed('not an object')")
        for n, (f, part) in enumerate(zip(record.fields, parts, strict=True)):
            label = f.name if self.by_name else f.wire
            line(1, f"v = document.get({label!r}, MISSING)")
            line(1, "if v is MISSING:")
            if f.default is None:
                line(2, f"raise Malformed({label + ': missing'!r})")
            else:
                line(2, f"f{n} = {self.source.constant('default', f.default)}()")
            line(1, "else:")
            line(2, f"try: f{n} = {part}(v)")
            line(2, f"except Malformed as e: raise inside({label!r}, e) from None")
        given = ", ".join([f"{f.name}=f{n}" for n, f in enumerate(record.fields)])
        line(1, f"return cls_{number}({given})")

    def _writer(self, record: Record, number: int, parts: list[str]) -> None:
        labels = [f"{quote(f.wire)}:" for f in record.fields]
        texts = [f"{label!r} + {part}(r.{f.name})" for label, part, f in zip(labels, parts, record.fields, strict=True)]
        if record is self.top and not has_type_field(record):
            texts.insert(0, repr(f'"{TYPE}":{quote(record.short)}'))
        line = self.source.line
        line(0, f"def out_{number}(r):")
        line(1, f"return '{{' + {' + chr(44) + '.join(texts) or repr('')} + '}}'")

    def _part(self, shape: Shape, way: str) -> str:
        """The name of a function for the shape."""
        names = self.source.names
        if isinstance(shape, Record):
            return f"{way}_{self._record(shape)}"
        if isinstance(shape, Plain):
            names[f"{shape.kind}_{way}"] = getattr(json_parts, f"{shape.kind}_{way}")
            return f"{shape.kind}_{way}"
        name = self.source.fresh(f"{way}_part")
        if isinstance(shape, Exact):
            names[name] = getattr(json_parts, f"exact_{way}")(shape.digits.precision, shape.digits.scale)
        elif isinstance(shape, Symbols):
            names[name] = getattr(json_parts, f"symbol_{way}")(shape.symbols)
        else:
            assert isinstance(shape, (Maybe, Array, Table))
            kind = {Maybe: "maybe", Array: "array", Table: "table"}[type(shape)]
            made = names[f"{kind}_{way}"] = getattr(json_parts, f"{kind}_{way}")
            assert callable(made)
            self.source.line(0, f"{name} = {kind}_{way}({self._part(shape.of, way)})")
        return name


def has_type_field(record: Record) -> bool:
    return any(f.wire == TYPE for f in record.fields)

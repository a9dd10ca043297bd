"""JSON Schemas of declared records, as requests may have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moneystate.records.shapes import Array, Exact, Field, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.records.type_names import TYPE, has_type_field

REFERENCE: Final = "#/components/schemas/"
_LONG: Final = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_PLAIN: Final[dict[str, dict[str, Any]]] = {
    "string": {"type": "string"},
    "long": _LONG,
    "millis": {
        "oneOf": [{"type": "string", "format": "date-time"}, _LONG],
        "description": "ISO-8601 with an offset, or milliseconds since 1970.",
    },
    "boolean": {"type": "boolean"},
    "double": {"type": "number"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "json": {"description": "Any JSON."},
}


class Schemas:
    """The schemas of records and of the records in them, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, Any]] = {}
        self._names: dict[int, str] = {}

    def of_topic(self, records: Sequence[Record]) -> dict[str, Any]:
        """One of the records; if they are several, each has its type."""
        if len(records) == 1:
            return self.reference(records[0])
        return {"oneOf": [self._typed(record) for record in records], "discriminator": {"propertyName": TYPE}}

    def reference(self, record: Record) -> dict[str, Any]:
        return {"$ref": REFERENCE + self._name(record)}

    def _typed(self, record: Record) -> dict[str, Any]:
        if has_type_field(record):
            return self.reference(record)
        of_type = {"properties": {TYPE: {"const": record.type_name}}, "required": [TYPE]}
        return {"allOf": [self.reference(record), of_type]}

    def _name(self, record: Record) -> str:
        if id(record) not in self._names:
            name = record.short if record.short not in self.by_name else record.name
            self._names[id(record)] = name
            self.by_name[name] = {}  # a record may contain itself
            self.by_name[name] = self._record(record)
        return self._names[id(record)]

    def _record(self, record: Record) -> dict[str, Any]:
        fields = [f for f in record.fields if not f.header]  # those of headers are not in the body
        schema: dict[str, Any] = {
            "type": "object",
            "title": record.type_name,
            "properties": {f.label: self._shape(f.shape) for f in fields},
        }
        required = [f.label for f in fields if is_required(f)]
        if required:
            schema["required"] = required
        return schema

    def _shape(self, shape: Shape) -> dict[str, Any]:
        if isinstance(shape, Plain):
            return _PLAIN[shape.kind]
        if isinstance(shape, Exact):
            digits = shape.digits
            text = f"At most {digits.precision} digits, {digits.scale} of them after the point."
            return {"type": "number", "description": text}
        if isinstance(shape, Symbols):
            return {"type": "string", "enum": list(shape.symbols)}
        if isinstance(shape, Maybe):
            return {"anyOf": [self._shape(shape.inner), {"type": "null"}]}
        if isinstance(shape, Array):
            return {"type": "array", "items": self._shape(shape.inner)}
        if isinstance(shape, Table):
            return {"type": "object", "additionalProperties": self._shape(shape.inner)}
        assert isinstance(shape, Record)
        return self.reference(shape)


def is_required(field: Field) -> bool:
    return field.default is None

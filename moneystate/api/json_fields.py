"""Which strings of a record's schema are `ms.Json`. Avro has texts and JSON alike, so the list of releases notes them.
A released schema is marked with the note before it is compared or read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from moneystate.api.shapes import Array, Maybe, Record, Shape, Table, is_json

NOTED: Final = "json"  # the fields of a version, in the list of releases and in a marked schema
MARK: Final = "json"  # the logical type of a marked string


def json_fields(record: Record) -> list[str]:
    """Their full names, such as `shop.Order.note`: of the record and of those in it."""
    found: set[str] = set()
    _collect(record, found, set())
    return sorted(found)


def marked(schema: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The schema with a logical type for the strings of these fields. All its other strings are texts."""
    made: dict[str, Any] = _marked(schema, fields, is_field=False)
    return {**made, NOTED: sorted(fields)}


def is_marked(schema: Mapping[str, Any]) -> bool:
    return NOTED in schema


def _collect(shape: Shape, found: set[str], seen: set[str]) -> None:
    if isinstance(shape, (Maybe, Array, Table)):
        _collect(shape.inner, found, seen)
    elif isinstance(shape, Record) and shape.name not in seen:
        seen.add(shape.name)
        for f in shape.fields:
            if is_json(f.shape):
                found.add(f"{shape.name}.{f.wire}")
            _collect(f.shape, found, seen)


def _marked(schema: Any, fields: Collection[str], *, is_field: bool) -> Any:
    """`is_field`: whether it is the type of one of these fields."""
    if isinstance(schema, list):
        return [_marked(branch, fields, is_field=is_field) for branch in schema]
    if isinstance(schema, str):
        return {"type": schema, "logicalType": MARK} if is_field and schema == "string" else schema
    if schema["type"] == "record":
        name = f"{schema['namespace']}.{schema['name']}" if schema.get("namespace") else schema["name"]
        inner = [
            {**f, "type": _marked(f["type"], fields, is_field=f"{name}.{f['name']}" in fields)}
            for f in schema["fields"]
        ]
        return {**schema, "fields": inner}
    parts = {part: _marked(schema[part], fields, is_field=is_field) for part in ("items", "values") if part in schema}
    return {**schema, **parts}

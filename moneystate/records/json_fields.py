"""Distinguishes JSON from ordinary strings in schemas. Avro has both as strings, so the list of releases records the
JSON fields of each version. Before a released schema is compared or read, these fields are marked in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from moneystate.records.shapes import Array, Maybe, Record, Shape, Table, is_json

NOTED: Final = "json"  # the member with the JSON fields of a version, in the list of releases and in a marked schema
MARK: Final = "json"  # the logical type of a marked string


def json_fields(record: Record) -> list[str]:
    """The full names of all JSON fields of a record and of the records in it, such as `shop.Order.note`."""
    names: set[str] = set()
    _collect(record, names, set())
    return sorted(names)


def marked(schema: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The schema, with a logical type for the strings of the JSON fields `fields`."""
    content: dict[str, Any] = _marked(schema, fields, is_field=False)
    return {**content, NOTED: sorted(fields)}


def is_marked(schema: Mapping[str, Any]) -> bool:
    return NOTED in schema


def _collect(shape: Shape, names: set[str], seen: set[str]) -> None:
    if isinstance(shape, (Maybe, Array, Table)):
        _collect(shape.inner, names, seen)
    elif isinstance(shape, Record) and shape.name not in seen:
        seen.add(shape.name)
        for f in shape.fields:
            if is_json(f.shape):
                names.add(f"{shape.name}.{f.wire}")
            _collect(f.shape, names, seen)


def _marked(schema: Any, fields: Collection[str], *, is_field: bool) -> Any:
    """`is_field`: `schema` is the type of one of `fields`."""
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

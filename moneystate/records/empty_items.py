"""Avro arrays whose items take no bytes. A few bytes of a record then name any number of items, and a reader makes them
all."""

from __future__ import annotations

from typing import Any


def has_empty_items(schema: Any) -> bool:
    """Whether an array of the schema, however deep, has items without bytes: null, a record of nothing, a fixed of size
    0. Entries of a map take bytes, at least those of their keys. `schema`: with full names, as fastavro parses it."""
    return _Walk().finds(schema)


class _Walk:
    def __init__(self) -> None:
        self.named: dict[str, Any] = {}

    def finds(self, schema: Any) -> bool:
        if isinstance(schema, list):
            return any(self.finds(branch) for branch in schema)
        if not isinstance(schema, dict):
            return False
        kind = schema["type"]
        if "name" in schema:
            self.named[schema["name"]] = schema
        if kind in ("record", "error"):
            return any(self.finds(field["type"]) for field in schema["fields"])
        if kind == "array":
            return self.finds(schema["items"]) or self.is_empty(schema["items"], frozenset())
        return self.finds(schema["values"] if kind == "map" else kind)

    def is_empty(self, schema: Any, within: frozenset[str]) -> bool:
        """Whether values take no bytes. `within`: the records around it; one that holds itself has no values."""
        if isinstance(schema, str):
            return schema == "null" or (schema in self.named and self.is_empty(self.named[schema], within))
        if not isinstance(schema, dict):
            return False  # a union's branch takes a byte
        kind = schema["type"]
        if kind in ("record", "error"):
            name = str(schema["name"])
            inner = within | {name}
            return name in within or all(self.is_empty(field["type"], inner) for field in schema["fields"])
        if kind == "fixed":
            return bool(schema["size"] == 0)
        return kind not in ("array", "map", "enum") and self.is_empty(kind, within)

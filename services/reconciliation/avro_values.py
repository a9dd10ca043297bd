"""Avro values whose writer may have another version of the schema.

A value of a Confluent topic names its schema, and the registry has it. One in single-object encoding has a fingerprint
alone. Schemas that the configuration lists, and released versions of inventory items, are known by it. A producer that
appends fields to a schema changes nothing before them. So a value of an unknown version is read as the beginning of a
known one, if that gives an item: an id, a source and a time of our days. All else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import parse_schema

import moneystate as ms
from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from moneystate.records.avro_types import fingerprint, parse
from moneystate.records.empty_items import has_empty_items
from moneystate.runtime.folders import avro_root

ITEM: Final = "reconciliation.InventoryItem"
CONFLUENT_BYTES: Final = 5  # before the body: a zero byte and the schema's id
_RELEASED: Final = "reconciliation/events"
_CACHED_SCHEMAS: Final = 1_000
Plausible = Callable[[Any], bool]


class Versions:
    """Reads values in single-object encoding. `schemas`: the known versions, the preferred one first."""

    def __init__(self, schemas: Sequence[Any], plausible: Plausible) -> None:
        self.schemas = [parse_schema(schema) for schema in schemas]
        headers = [MAGIC + fingerprint(parse(schema, foreign=True)) for schema in schemas]
        self.known = dict(zip(headers, self.schemas, strict=True))
        self.plausible = plausible

    def read(self, value: bytes) -> Any:
        """Raises Malformed and Reject."""
        header = value[:HEADER_BYTES]
        if header in self.known:
            return whole_body(value, HEADER_BYTES, self.known[header])
        if header.startswith(MAGIC) and len(header) == HEADER_BYTES:
            for schema in self.schemas:
                record = self._beginning(value, schema)
                if record is not None:
                    return record
        raise ms.Reject("unknown_schema", "no configured or released schema has this fingerprint")

    def _beginning(self, value: bytes, schema: Any) -> Any:
        """None: the value does not begin like a record of the schema."""
        try:
            record = _read(BytesIO(value[HEADER_BYTES:]), schema)
            return record if self.plausible(record) else None
        except (Malformed, ms.Reject):
            return None


def released_items() -> list[Any]:
    """The schemas of all released versions of inventory items, the newest first."""
    folder = avro_root() / _RELEASED
    later = sorted((folder / "InventoryItem").glob("v*.avsc"), key=lambda path: int(path.stem[1:]), reverse=True)
    return [json.loads(path.read_text()) for path in [*later, folder / "InventoryItem.avsc"]]


def confluent_record(message: ms.Message, value: bytes) -> tuple[str, Any]:
    """The full name of the record's type, and its fields. Raises Malformed and Reject."""
    schema = _parsed(message.schema())
    name = str(schema["name"]) if isinstance(schema, dict) and "name" in schema else ""
    return name, whole_body(value, CONFLUENT_BYTES, schema)


def whole_body(value: bytes, pos: int, schema: Any) -> Any:
    body = BytesIO(value[pos:])
    record = _read(body, schema)
    if body.read(1):
        raise ms.Reject("trailing_bytes", "bytes after the body")
    return record


def _read(body: BytesIO, schema: Any) -> Any:
    try:
        return fastavro.schemaless_reader(body, schema, None)
    except Exception as e:  # whatever the library raises for bytes that are no such record
        raise Malformed(f"not a record of its schema: {type(e).__name__}: {e}") from None


@lru_cache(_CACHED_SCHEMAS)
def _parsed(text: str) -> Any:
    try:
        schema = json.loads(text)
        known, parsed = parse(schema, foreign=True), parse_schema(schema)
    except Exception as e:  # whatever the library raises for a text that is no schema
        raise ms.Reject("unknown_schema", f"its schema cannot be read: {type(e).__name__}") from None
    if has_empty_items(known):
        raise ms.Reject("unknown_schema", "its schema has an array whose items take no bytes")
    return parsed

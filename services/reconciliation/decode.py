"""Any topic as one role of a store.

A CloudEvent says all in its headers, and its value is not decoded. Other records have id, source and time in fields of
their value; without `fields` they are inventory items that may leave out store and role.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, Final, TypeVar
from uuid import UUID

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

import moneystate as ms
from moneystate.api import json_parts
from moneystate.api.codec import Codec
from moneystate.api.json_number import Number
from moneystate.api.json_text import decoded, parse
from moneystate.api.reading import header_text, header_time
from moneystate.api.shapes import Shapes
from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from services.reconciliation.config import Fields, InputConfig
from services.reconciliation.records import InventoryItem, Role

T = TypeVar("T")
V = TypeVar("V")
Decode = Callable[[ms.Message], InventoryItem]
ITEM: Final = InventoryItem.__name__
CLOUD_EVENT: Final = ("ce_id", "ce_source", "ce_time")
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def decoder_of(given: InputConfig) -> Decode | None:
    """None: the records are inventory items that say everything."""
    if given.role is None:
        return None
    if given.fields is None:
        return _of_headers(given.store, given.role, _of_items(given))
    open_value = _json_value if given.format == "json" else _avro_values(given.schema)
    return _of_fields(given.store, given.role, given.fields, open_value)


def _of_headers(store: str, role: Role, otherwise: Decode) -> Decode:
    id, source, time = CLOUD_EVENT

    def decode(message: ms.Message) -> InventoryItem:
        headers = message.headers
        if id not in headers:
            return otherwise(message)
        return InventoryItem(
            store, header_text(headers, source), header_text(headers, id), role, header_time(headers, time)
        )

    return decode


def _of_items(given: InputConfig) -> Decode:
    codec = Codec(Shapes("reconciliation").record(InventoryItem, "the inputs"))
    known = {"store": given.store, "role": given.role}

    def decode(message: ms.Message) -> InventoryItem:
        value = _value_of(message)
        if given.format == "json":
            document = _json_value(value)
            if type(document) is not dict:
                raise Malformed("not an object")
            if document.get("type", ITEM) != ITEM:
                raise ms.Reject("unknown_schema", f"type {str(document['type'])[:100]!r}")
            return codec.from_json({**known, **document})  # type: ignore[no-any-return]
        if value[:HEADER_BYTES] != codec.header:
            raise ms.Reject("unknown_schema", "expected an inventory item or a CloudEvent")
        return codec.decode(value)  # type: ignore[no-any-return]

    return decode


def _of_fields(store: str, role: Role, fields: Fields, open_value: Callable[[bytes], Any]) -> Decode:
    def decode(message: ms.Message) -> InventoryItem:
        value = open_value(_value_of(message))
        return InventoryItem(
            store=store,
            source=_field(value, fields.source, _text),
            event_id=_field(value, fields.id, _text),
            role=role,
            event_time=_field(value, fields.time, _time),
            parts=_optional(value, fields.parts, _whole, 1),
            derived_from=_optional(value, fields.derived_from, _text, None),
            derived_from_source=_optional(value, fields.derived_from_source, _text, None),
            filtered=_optional(value, fields.filtered, json_parts.boolean_in, False),
        )

    return decode


# Values


def _value_of(message: ms.Message) -> bytes:
    if message.value is None:
        raise ms.Reject("null_value")
    return message.value


def _json_value(value: bytes) -> Any:
    return parse(decoded(value))


def _avro_values(schema_text: str) -> Callable[[bytes], Any]:
    """Of values in single-object encoding with one schema."""
    schema = parse_schema(json.loads(schema_text))
    header = MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))

    def value_of(value: bytes) -> Any:
        if value[:HEADER_BYTES] != header:
            raise ms.Reject("unknown_schema", "the configured schema has another fingerprint")
        body = BytesIO(value[HEADER_BYTES:])
        try:
            record = fastavro.schemaless_reader(body, schema, None)
        except Exception as e:  # whatever the library raises for bytes that are no such record
            raise Malformed(f"not a record of the configured schema: {e}") from None
        if body.read(1):
            raise ms.Reject("trailing_bytes", "bytes after the body")
        return record

    return value_of


# Fields


def _at(value: Any, path: str) -> Any:
    """What stands at a path of fields, None where there is none."""
    for name in path.split("."):
        value = value.get(name) if type(value) is dict else None
    return value


def _text(content: Any) -> str:
    if type(content) is str:
        return content
    if isinstance(content, UUID):  # an Avro string with this logical type
        return str(content)
    if type(content) is int or isinstance(content, Number):
        return str(_whole(content))
    raise Malformed("expected a text or a whole number")


def _field(value: Any, path: str, convert: Callable[[Any], V]) -> V:
    """Raises Malformed, which names the field."""
    try:
        return convert(_at(value, path))
    except Malformed as e:
        raise json_parts.inside(path, e) from None


def _optional(value: Any, path: str, convert: Callable[[Any], V], absent: T) -> V | T:
    if not path or _at(value, path) is None:
        return absent
    return _field(value, path, convert)


def _whole(content: Any) -> int:
    return content if type(content) is int else json_parts.long_in(content)


def _time(content: Any) -> int:
    if isinstance(content, datetime) and content.tzinfo is not None:
        return (content - _EPOCH) // timedelta(milliseconds=1)
    if type(content) is int:
        return content
    if type(content) is str or isinstance(content, Number):
        return json_parts.millis_in(content)
    raise Malformed("expected a time, ISO-8601 or milliseconds")

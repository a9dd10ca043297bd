"""Any topic as one role of a store.

A CloudEvent says all in its headers, and its value is not decoded. Other records have id, source and time in fields of
their value; without `fields` they are inventory items that may leave out store and role.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.records import json_parts
from moneystate.records.codec import Codec
from moneystate.records.json_number import Number
from moneystate.records.json_text import decoded, parse
from moneystate.records.reading import header_text, header_time
from moneystate.records.shapes import Shapes
from services.reconciliation import avro_values
from services.reconciliation.avro_values import Versions
from services.reconciliation.config import Fields, InputConfig
from services.reconciliation.records import InventoryItem, Role

T = TypeVar("T")
V = TypeVar("V")
Decode = Callable[[ms.Message], InventoryItem]
ITEM: Final = InventoryItem.__name__
CLOUD_EVENT: Final = ("ce_id", "ce_source", "ce_time")
_OUR_DAYS: Final = (631_152_000_000, 4_102_444_800_000)  # 1990 to 2099
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def decoder_of(given: InputConfig) -> Decode | None:
    """None: the records are inventory items that say everything."""
    if given.role is None:
        return None
    if given.fields is None:
        return _of_headers(given.store, given.role, _of_items(given))
    make = _made_of(given.store, given.role, given.fields)
    if given.format == "json":
        return lambda message: make(_json_value(_value_of(message)))
    if given.format == "confluent":
        return lambda message: make(avro_values.confluent_record(message, _value_of(message))[1])
    schemas = [json.loads(text) for text in (given.schema, *given.schemas)]
    versions = Versions(schemas, lambda value: _is_plausible(make(value)))
    return lambda message: make(versions.read(_value_of(message)))


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

    def item_of(record: Any) -> InventoryItem:
        if type(record) is not dict:
            raise Malformed("not an object")
        return codec.from_json({**known, **record})  # type: ignore[no-any-return]

    versions = Versions(avro_values.released_items(), lambda record: _is_plausible(item_of(_as_json(record))))

    def decode(message: ms.Message) -> InventoryItem:
        value = _value_of(message)
        if given.format == "json":
            document = _json_value(value)
            if type(document) is dict and document.get("type", ITEM) != ITEM:
                raise ms.Reject("unknown_schema", f"type {str(document['type'])[:100]!r}")
            return item_of(document)
        if given.format == "confluent":
            name, record = avro_values.confluent_record(message, value)
            if name != avro_values.ITEM:
                raise ms.Reject("unknown_schema", f"type {name[:100]!r}")
            return item_of(_as_json(record))
        if value[: len(codec.header)] == codec.header:
            return codec.decode(value)  # type: ignore[no-any-return]
        return item_of(_as_json(versions.read(value)))

    return decode


def _is_plausible(item: InventoryItem) -> bool:
    """Whether it can be an item that was read from a part of a value."""
    return bool(item.event_id and item.source) and _OUR_DAYS[0] <= item.event_time < _OUR_DAYS[1]


def _as_json(value: Any) -> Any:
    """Returns what Avro has read, as a parsed JSON document."""
    if isinstance(value, datetime):
        return Number(_time(value))
    if type(value) is int:
        return Number(value)
    return {name: _as_json(member) for name, member in value.items()} if type(value) is dict else value


def _made_of(store: str, role: Role, fields: Fields) -> Callable[[Any], InventoryItem]:
    def make(value: Any) -> InventoryItem:
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

    return make


# Values


def _value_of(message: ms.Message) -> bytes:
    if message.value is None:
        raise ms.Reject("null_value")
    return message.value


def _json_value(value: bytes) -> Any:
    return parse(decoded(value))


# Fields


def _at(value: Any, path: str) -> Any:
    """Returns what stands at a path of fields, None where there is none."""
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

"""The records of the topic `deliveries`, as the router writes them: this module alone knows their form.

They are in Avro's single-object encoding. A record is read with the schema that its first bytes name, so a worker also
reads records of earlier versions of the router, and of later ones whose schemas it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import Any, TypeVar

import fastavro

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.records.avro_types import fingerprint, parse

_Value = TypeVar("_Value", str, int, bytes)


class NotADelivery(Exception):
    """The record is no delivery. Its text says why, without a value of the record."""


@dataclass(frozen=True, slots=True, order=True)
class RowPlace:
    """Describes where the row of a table stands in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for a subscription."""

    delivery_id: str
    endpoint_id: str
    subscription_id: str
    owner: str
    endpoint_row: RowPlace
    subscription_row: RowPlace
    topic: str  # of the event, without the prefix
    partition: int
    offset: int
    time_ms: int  # when the broker received the event
    order_key: str
    sequence: str  # grows by subscription
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    content_type: str
    body: bytes  # the event's own
    extensions: Mapping[str, str] = field(default_factory=dict)
    record: bytes = field(default=b"", compare=False, repr=False)  # as the router wrote it


class DeliveryReader:
    """Reads deliveries. `schemas`: Avro schemas as decoded JSON, those of all versions of the record."""

    def __init__(self, schemas: Iterable[Any]) -> None:
        self._schemas = {header_of(schema): fastavro.parse_schema(schema) for schema in schemas}

    def read(self, value: bytes | None) -> Delivery:
        """Raises NotADelivery."""
        if value is None:
            raise NotADelivery("it has no value")
        if not value.startswith(MAGIC) or len(value) < HEADER_BYTES:
            raise NotADelivery("it is not Avro's single-object encoding")
        schema = self._schemas.get(value[:HEADER_BYTES])
        if schema is None:
            raise NotADelivery(f"its schema {value[len(MAGIC) : HEADER_BYTES].hex()} is not known")
        body = BytesIO(value)
        body.seek(HEADER_BYTES)
        try:
            fields = fastavro.schemaless_reader(body, schema, None)
        except Exception:  # fastavro raises many kinds for bytes that do not fit
            raise NotADelivery("its bytes do not fit its schema") from None
        return from_fields(fields, value)


def header_of(schema: Any) -> bytes:
    """The first bytes of the values that are written with an Avro schema."""
    return MAGIC + fingerprint(parse(schema))


def from_fields(fields: Any, record: bytes = b"") -> Delivery:
    """Makes a delivery from decoded Avro. Raises NotADelivery."""
    if not isinstance(fields, dict):
        raise NotADelivery("it is not a record")
    return Delivery(
        delivery_id=_text(fields, "deliveryId"),
        endpoint_id=_text(fields, "endpointId"),
        subscription_id=_text(fields, "subscriptionId"),
        owner=_text(fields, "owner"),
        endpoint_row=_row(fields, "endpointRow"),
        subscription_row=_row(fields, "subscriptionRow"),
        topic=_text(fields, "topic"),
        partition=_of(fields, "partition", int),
        offset=_of(fields, "offset", int),
        time_ms=_time(fields, "time"),
        order_key=_of(fields, "orderKey", str),
        sequence=_text(fields, "sequence"),
        event_id=_text(fields, "eventId"),
        source=_of(fields, "source", str),
        type=_text(fields, "type"),
        tenant=_optional(fields, "tenant"),
        department=_optional(fields, "department"),
        content_type=_text(fields, "contentType"),
        body=_of(fields, "body", bytes),
        extensions=fields.get("extensions") or {},
        record=record,
    )


def _of(fields: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise NotADelivery(f"its field {name} is absent or of another type")
    return value


def _time(fields: Mapping[str, Any], name: str) -> int:
    """fastavro reads a logical time as a datetime."""
    value = fields.get(name)
    return round(value.timestamp() * 1_000) if isinstance(value, datetime) else _of(fields, name, int)


def _row(fields: Mapping[str, Any], name: str) -> RowPlace:
    row = fields.get(name)
    if not isinstance(row, dict):
        raise NotADelivery(f"its field {name} is absent or of another type")
    return RowPlace(_of(row, "partition", int), _of(row, "offset", int))


def _text(fields: Mapping[str, Any], name: str) -> str:
    text = _of(fields, name, str)
    if not text:
        raise NotADelivery(f"its field {name} is empty")
    return text


def _optional(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else _of(fields, name, str)

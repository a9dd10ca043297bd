"""The records of the topic `deliveries`, as the router writes them: this module alone knows their form."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Value = TypeVar("_Value", str, int)


class NotADelivery(Exception):
    """The record is no delivery. Its text says why, without a value of the record."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for a subscription."""

    delivery_id: str
    subscription_id: str
    endpoint_id: str
    owner: str
    sequence: int  # grows by subscription
    topic: str  # of the event, without the prefix
    partition: int
    offset: int
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    routed_at_ms: int
    data: bytes  # the event's own
    endpoint_place: int  # offset of the endpoint's row, as of the event's place
    subscription_place: int


def delivery_of(value: bytes | None) -> Delivery:
    """Raises NotADelivery."""
    if value is None:
        raise NotADelivery("it has no value")
    try:
        return from_fields(json.loads(value))
    except (ValueError, RecursionError):
        raise NotADelivery("it is not JSON") from None


def from_fields(fields: Any) -> Delivery:
    """From decoded JSON or Avro. Raises NotADelivery."""
    if not isinstance(fields, dict):
        raise NotADelivery("it is not a record")
    return Delivery(
        delivery_id=_text(fields, "deliveryId"),
        subscription_id=_text(fields, "subscriptionId"),
        endpoint_id=_text(fields, "endpointId"),
        owner=_text(fields, "owner"),
        sequence=_of(fields, "sequence", int),
        topic=_text(fields, "topic"),
        partition=_of(fields, "partition", int),
        offset=_of(fields, "offset", int),
        event_id=_text(fields, "eventId"),
        source=_of(fields, "source", str),
        type=_text(fields, "type"),
        tenant=_optional(fields, "tenant"),
        department=_optional(fields, "department"),
        routed_at_ms=_of(fields, "routedAt", int),
        data=_bytes(fields, "data"),
        endpoint_place=_of(fields, "endpointPlace", int),
        subscription_place=_of(fields, "subscriptionPlace", int),
    )


def to_json(d: Delivery) -> bytes:
    fields = {
        "deliveryId": d.delivery_id, "subscriptionId": d.subscription_id, "endpointId": d.endpoint_id,
        "owner": d.owner, "sequence": d.sequence, "topic": d.topic, "partition": d.partition, "offset": d.offset,
        "eventId": d.event_id, "source": d.source, "type": d.type, "tenant": d.tenant, "department": d.department,
        "routedAt": d.routed_at_ms, "data": base64.b64encode(d.data).decode(),
        "endpointPlace": d.endpoint_place, "subscriptionPlace": d.subscription_place,
    }  # fmt: skip
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _of(fields: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise NotADelivery(f"its field {name} is absent or of another type")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    text = _of(fields, name, str)
    if not text:
        raise NotADelivery(f"its field {name} is empty")
    return text


def _optional(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else _of(fields, name, str)


def _bytes(fields: Mapping[str, Any], name: str) -> bytes:
    value = fields.get(name)
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(_of(fields, name, str), validate=True)
    except binascii.Error:
        raise NotADelivery(f"its field {name} is not Base64") from None

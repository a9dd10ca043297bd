"""Deliveries for tests."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from moneystate.deliver import pending
from moneystate.deliver.dispatcher import Changes
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery, DeliveryReader, RowPlace, header_of
from moneystate.deliver.requests import Message

ROOT = Path(__file__).resolve().parents[2]

DELIVERY = Delivery(
    "msg_1", "e1", "s1", "acme", RowPlace(0, 5), RowPlace(0, 6), "orders", 3, 41, 1_000, "t1", "0007", "order-1",
    "/shop", "order.placed", "t1", None, "application/json", b'{"id": 1,\n "total": 1.50}',
)  # fmt: skip
SCHEMA: dict[str, Any] = json.loads((ROOT / "avro" / "delivery" / "events" / "Delivery.avsc").read_text())
READER = DeliveryReader([SCHEMA])


def stored(one: Delivery) -> bytes:
    """As the router writes it."""
    return header_of(SCHEMA) + _body(one)


def _body(one: Delivery) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {
        "deliveryId": one.delivery_id, "endpointId": one.endpoint_id, "subscriptionId": one.subscription_id,
        "owner": one.owner, "endpointRow": asdict(one.endpoint_row), "subscriptionRow": asdict(one.subscription_row),
        "topic": one.topic, "partition": one.partition, "offset": one.offset, "time": one.time_ms,
        "orderKey": one.order_key, "sequence": one.sequence, "eventId": one.event_id, "source": one.source,
        "type": one.type, "tenant": one.tenant, "department": one.department, "contentType": one.content_type,
        "extensions": dict(one.extensions), "body": one.body,
    })  # fmt: skip
    return out.getvalue()


class Shelf:
    """`delivery-pending` in memory, and what a dispatcher reads of it."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def apply(self, changes: Changes) -> None:
        for key, value in changes.pending.items():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    def load(self, webhook_id: str) -> Message:
        return pending.from_records(webhook_id, self.records.get, READER).loaded

    def left(self) -> list[Queued]:
        return [pending.from_records(key, self.records.get, READER) for key in self.records if pending.is_first(key)]


def delivery(**changes: Any) -> Delivery:
    made = replace(DELIVERY, **changes)
    return replace(made, record=stored(made))

"""The deliveries of an event."""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring as quote

from services.delivery.records import Delivery, Endpoint, Event, RowPlace, Subscription


class Deliveries:
    """Makes them. `count`: how many."""

    def __init__(self, event: Event, time_ms: int) -> None:
        self.event = event
        self.time_ms = time_ms
        self.sequence = sequence_of(event, time_ms)
        self.rest_of_id = rest_of_id(event.topic, event.partition, event.offset, event.id)
        self.count = 0

    def to(self, id: str, subscription: Subscription, endpoint: Endpoint) -> Delivery:
        """`id`: of the subscription."""
        self.count += 1
        e = self.event
        return Delivery(
            delivery_id=delivery_id(id, self.rest_of_id),
            endpoint_id=endpoint.endpoint_id,
            subscription_id=id,
            owner=subscription.owner,
            endpoint_row=RowPlace(endpoint.partition, endpoint.offset),
            subscription_row=RowPlace(subscription.partition, subscription.offset),
            topic=e.topic,
            partition=e.partition,
            offset=e.offset,
            time=self.time_ms,
            order_key=e.key,
            sequence=self.sequence,
            event_id=e.id,
            source=e.source,
            type=e.type,
            tenant=e.tenant,
            department=e.department,
            content_type=e.content_type,
            extensions=e.extensions,
            body=e.body,
        )


def sequence_of(event: Event, time_ms: int) -> str:
    """The event's place in the router's order, in 46 digits that sort like it."""
    return f"{time_ms:012x}{event.input:03x}{event.number:015x}{event.offset:016x}"


def rest_of_id(topic: str, partition: int, offset: int, event_id: str) -> bytes:
    """Returns what the ids of an event's deliveries have in common."""
    return f",{quote(topic)},{partition},{offset},{quote(event_id)}]".encode()


def delivery_id(subscription_id: str, rest: bytes) -> str:
    return "msg_" + hashlib.sha256(f"[{quote(subscription_id)}".encode() + rest).hexdigest()

"""The records of the delivery: events, the rows of customers as the router needs them, and the deliveries that the
workers send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import moneystate as ms


@dataclass(frozen=True)
class Event:
    """`key`: what orders events: tenant, else Kafka key, else id; `identity`: what repeats have in common: topic,
    source, tenant and id as a JSON array; `input`: the number of its input in the configuration; `number`: that of its
    partition in the router's order; `topic` is without prefix, `body` are the record's own bytes, `extensions` are
    further CloudEvents attributes."""

    key: str
    identity: str
    input: int
    number: int
    topic: str
    partition: int
    offset: int
    id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    content_type: str
    body: bytes
    extensions: dict[str, str] = field(default_factory=dict)


# Rows: of the topics endpoints and subscriptions. The workers read other fields of the same records.


@dataclass(frozen=True)
class Endpoint:
    """`problem`: the rule that the row breaks; empty: it is valid. `partition`, `offset`: the row's place."""

    endpoint_id: str
    owner: str
    deleted: bool
    problem: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Subscription:
    """`types`: an array of texts; `scope`: None: all events, else an array of objects with `tenant` and perhaps
    `departments`; `filter`: an object; `problem`, `partition`, `offset`: as of an endpoint. A row with a problem has no
    more than its id."""

    subscription_id: str
    endpoint_id: str
    owner: str
    types: ms.Json
    scope: ms.Json | None
    filter: ms.Json | None
    active: bool
    problem: str
    partition: int
    offset: int


# Records of the topic deliveries. Records that are not frozen are made in a quarter of the time.


@dataclass
class RowPlace:
    """Describes where a row stands in the topic of its table."""

    partition: int
    offset: int


@dataclass
class Delivery:
    """An event for one subscription, in the topic `deliveries`, whose key is the endpoint.

    - `delivery_id`: `msg_` and the hexadecimal SHA-256 of the compact JSON array [subscriptionId, topic, partition,
      offset, eventId]. It is the same in each replay.
    - `owner`: of the endpoint and the subscription, which have the same one.
    - `endpoint_row`, `subscription_row`: the rows by which the event matched. Workers use these or newer ones.
    - `topic`, `partition`, `offset`: the event's place; the topic is without prefix.
    - `time`: when the broker received the event.
    - `order_key`: tenant, else Kafka key, else id. Deliveries of an endpoint with the same one are in order.
    - `sequence`: a text that grows by subscription (docs/delivery.md), also where `order_key` differs.
    - `extensions`: further CloudEvents attributes, by name without `ce_`.
    - `body`: the event's own bytes.
    """

    delivery_id: str
    endpoint_id: str
    subscription_id: str
    owner: str
    endpoint_row: RowPlace
    subscription_row: RowPlace
    topic: str
    partition: int
    offset: int
    time: ms.Millis
    order_key: str
    sequence: str
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    content_type: str
    extensions: dict[str, str]
    body: bytes


# State


@dataclass
class Routed:
    """An event that was routed, for `why`. `body`: what filters need, None if no subscription that matched has one."""

    topic: str
    partition: int
    offset: int
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    time: ms.Millis
    body: Annotated[bytes | None, ms.personal] = None


# Answers


@dataclass
class Verdict:
    """Holds what became of an event for one subscription. `outcome`: MATCHED, or the first condition that failed
    (docs/delivery.md); `detail`: the rule that a row breaks; `delivery_id`: empty unless it matched."""

    subscription_id: str
    endpoint_id: str
    outcome: str
    detail: str = ""
    delivery_id: str = ""


@dataclass
class Explained:
    """An event that was routed. `verdicts`: of the subscription that was asked for, else of those whose type and scope
    match."""

    topic: str
    partition: int
    offset: int
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    time: ms.Millis
    verdicts: list[Verdict]

"""The records of the delivery: events, the rows of customers, and the deliveries that the workers send.

The fields of rows that a rule restricts are plain texts and numbers (`services.delivery.rules` has the rules), so that
a row that breaks one is a row: it replaces the row before it and matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import moneystate as ms


@dataclass(frozen=True)
class Event:
    """`key`: what orders events: tenant, else Kafka key, else id; `identity`: what repeats have in common: topic,
    source, tenant and id as a JSON array; `topic` is without prefix, `body` are the record's own bytes, `extensions`
    are further CloudEvents attributes."""

    key: str
    identity: str
    topic: str
    id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    content_type: str
    body: bytes
    extensions: dict[str, str] = field(default_factory=dict)


# Rows: the topics endpoints and subscriptions


@dataclass(frozen=True)
class Endpoint:
    """Where an owner gets deliveries. `secrets`: names of those that sign each request; `auth`: none, bearer, basic or
    header; `auth_secret`: the name of its value, and `auth_header` the header with it, for `header`; `timeout_ms`: of a
    request; `rate_per_second`: None: as fast as it answers."""

    endpoint_id: str
    owner: str
    url: str
    secrets: list[str] = field(default_factory=list)
    auth: str = "none"
    auth_secret: str | None = None
    auth_header: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    max_in_flight: int = 4
    rate_per_second: float | None = None
    timeout_ms: int = 15_000
    paused: bool = False
    deleted: bool = False


@dataclass(frozen=True)
class TenantScope:
    """`departments`: None: all of them, and events without one."""

    tenant: str
    departments: list[str] | None = None


@dataclass(frozen=True)
class Subscription:
    """Which events an endpoint gets, and how. `types`: `order.placed`, `order.*` (any depth) or `*`; `scope`: None:
    events of all tenants and of none; `filter`: a JSON object, {top-level field: value or array of values}; `mode`:
    single or batch; `batch_format`: array or ndjson; `ordering`: none, all or tenant."""

    subscription_id: str
    endpoint_id: str
    owner: str
    types: list[str]
    scope: list[TenantScope] | None = None
    filter: ms.Json | None = None
    mode: str = "single"
    batch_format: str = "array"
    max_messages: int = 1_000
    max_bytes: int = 1_000_000
    max_wait_ms: int = 1_000
    ordering: str = "none"
    active: bool = True


# What goes out: the topic deliveries


@dataclass(frozen=True)
class RowPlace:
    """Where a row stands in the topic of its table."""

    partition: int
    offset: int


@dataclass(frozen=True)
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
class Last:
    """The last event of a key: its order time, and how many of this time came before it."""

    time: ms.Millis = -1
    number: int = 0


@dataclass
class Routed:
    """An event that was routed, for `why`. `body`: what filters need."""

    topic: str
    partition: int
    offset: int
    event_id: str
    type: str
    tenant: str | None
    department: str | None
    time: ms.Millis
    body: bytes

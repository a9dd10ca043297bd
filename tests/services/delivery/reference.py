"""An independent model of the router: what each log of events, endpoints and subscriptions must give.

It looks at all rows for each event, and shares no code with the service. Logs say themselves which rows are valid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Row:
    """A record of a table. `fields`: None: a tombstone."""

    key: str
    time: int
    partition: int
    offset: int
    fields: dict[str, Any] | None
    is_valid: bool = True


@dataclass(frozen=True)
class Sent:
    """An event that decodes. `input`: the number of its input; `rank`: the place of its topic among those of a
    pattern, 0 where there is one topic."""

    topic: str
    partition: int
    offset: int
    time: int
    id: str
    body: bytes
    source: str = ""
    type: str = ""
    tenant: str | None = None
    department: str | None = None
    kafka_key: str = ""
    input: int = 0
    rank: int = 0
    extensions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.tenant or self.kafka_key or self.id

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        return self.time, self.input, self.rank, self.partition, self.offset


class Delivered(NamedTuple):
    delivery_id: str
    endpoint_id: str
    subscription_id: str
    owner: str
    endpoint_row: tuple[int, int]
    subscription_row: tuple[int, int]
    topic: str
    partition: int
    offset: int
    time: int
    order_key: str
    event_id: str
    source: str
    type: str
    tenant: str | None
    department: str | None
    body: bytes


class Router:
    def __init__(self, endpoints: Iterable[Row], subscriptions: Iterable[Row], dedup_ms: int) -> None:
        self.endpoints = list(endpoints)
        self.subscriptions = list(subscriptions)
        self.dedup_ms = dedup_ms

    def routed(self, events: Iterable[Sent]) -> list[Sent]:
        """Those that repeat none, in the order of their places."""
        seen: dict[tuple[Any, ...], int] = {}
        first: list[Sent] = []
        for e in sorted(events, key=lambda e: e.place):
            identity = (e.input, e.key, e.topic, e.source, e.tenant, e.id)
            since = seen.get(identity)
            if since is None or e.time >= since + self.dedup_ms:
                seen[identity] = e.time
                first.append(e)
        return first

    def deliveries(self, events: Iterable[Sent]) -> list[Delivered]:
        return [made for e in self.routed(events) for made in self._of(e)]

    def _of(self, e: Sent) -> Iterator[Delivered]:
        for id in sorted({row.key for row in self.subscriptions}):
            if self.outcome(e, id) != "MATCHED":
                continue
            row = _row_at(self.subscriptions, id, e.time)
            assert row is not None
            assert row.fields is not None
            to = _row_at(self.endpoints, row.fields["endpointId"], e.time)
            assert to is not None
            yield Delivered(
                delivery_id_of(id, e), to.key, id, row.fields["owner"], (to.partition, to.offset),
                (row.partition, row.offset), e.topic, e.partition, e.offset, e.time, e.key, e.id, e.source,
                e.type or e.topic, e.tenant, e.department, e.body,
            )  # fmt: skip

    def outcome(self, e: Sent, id: str) -> str:
        """MATCHED, or the first condition that failed."""
        row = _row_at(self.subscriptions, id, e.time)
        if row is None or row.fields is None:
            return "NO_SUBSCRIPTION"
        if not row.is_valid:
            return "INVALID_SUBSCRIPTION"
        wanted = row.fields
        if not wanted.get("active", True):
            return "INACTIVE"
        if not any(_is_of_type(e.type or e.topic, one) for one in wanted["types"]):
            return "OTHER_TYPE"
        scope = wanted.get("scope", "all")
        if isinstance(scope, list):
            of_tenant = [part for part in scope if part["tenant"] == e.tenant]
            if not of_tenant:
                return "OTHER_TENANT"
            if not any(part.get("departments") is None or e.department in part["departments"] for part in of_tenant):
                return "OTHER_DEPARTMENT"
        if not _passes(wanted.get("filter"), e.body):
            return "FILTERED"
        return self._endpoint_outcome(e, wanted)

    def _endpoint_outcome(self, e: Sent, wanted: dict[str, Any]) -> str:
        to = _row_at(self.endpoints, wanted["endpointId"], e.time)
        if to is None or to.fields is None:
            return "NO_ENDPOINT"
        if not to.is_valid:
            return "INVALID_ENDPOINT"
        if to.fields.get("deleted", False):
            return "DELETED_ENDPOINT"
        return "MATCHED" if to.fields["owner"] == wanted["owner"] else "OTHER_OWNER"


def delivery_id_of(subscription: str, e: Sent) -> str:
    place = [subscription, e.topic, e.partition, e.offset, e.id]
    text = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
    return "msg_" + hashlib.sha256(text.encode()).hexdigest()


def _row_at(rows: Sequence[Row], key: str, time: int) -> Row | None:
    """The last one of the key up to the time. A row is before an event of its time."""
    mine = [row for row in rows if row.key == key and row.time <= time]
    return mine[-1] if mine else None


def _is_of_type(type: str, wanted: str) -> bool:
    return wanted in ("*", type) or (wanted.endswith(".*") and type.startswith(wanted[:-1]))


def _passes(filter: dict[str, Any] | None, body: bytes) -> bool:
    if not filter:
        return True
    fields = json.loads(body, parse_float=Decimal)
    if not isinstance(fields, dict):
        return False
    return all(
        name in fields and any(_equal(fields[name], one) for one in (its if isinstance(its, list) else [its]))
        for name, its in filter.items()
    )


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, (int, Decimal)) and isinstance(wanted, (int, float)):
        return Decimal(value) == Decimal(str(wanted))
    return type(value) is type(wanted) and bool(value == wanted) and not isinstance(value, (list, dict))

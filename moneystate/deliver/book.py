"""The newest rows of endpoints and subscriptions, as workers need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moneystate.deliver import rows
from moneystate.deliver.records import Delivery, RowPlace
from moneystate.deliver.rows import Endpoint, InvalidRow, Subscription, UrlRules
from moneystate.deliver.topics import Row

ENDPOINTS, SUBSCRIPTIONS = "endpoints", "subscriptions"
FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class KnownEndpoint:
    """`row` None: it is deleted or was never there. A row that breaks a rule pauses its endpoint: the router sends it
    nothing more, and what is pending waits for a better row."""

    row: Endpoint | None
    offset: int
    since_ms: int | None = None  # when it was written
    problem: str = ""


class Book:
    """`prefix`: of the topics."""

    def __init__(self, prefix: str, rules: UrlRules) -> None:
        self.prefix = prefix
        self.rules = rules
        self.endpoints: dict[str, KnownEndpoint] = {}
        self.subscriptions: dict[str, Subscription | None] = {}
        self.endpoint_of: dict[str, str] = {}  # by subscription, also of deleted ones
        self.places: dict[tuple[str, int], int] = {}  # offsets before which rows were read, by topic and partition

    def take(self, row: Row) -> tuple[str, str]:
        """Returns the endpoint, and the subscription if it is its row that has changed."""
        name = row.topic.removeprefix(self.prefix)
        if name == ENDPOINTS:
            self.endpoints[row.key] = self._endpoint(row)
            return row.key, ""
        its = self._subscription(row)
        self.subscriptions[row.key] = its
        if its is not None:
            self.endpoint_of[row.key] = its.endpoint_id
        return self.endpoint_of.get(row.key, ""), row.key

    def reached(self, positions: Mapping[tuple[str, int], int]) -> None:
        """All rows before these offsets have been taken, as far as compaction has left them."""
        self.places = {(topic.removeprefix(self.prefix), number): end for (topic, number), end in positions.items()}

    def has(self, delivery: Delivery) -> bool:
        """Whether the rows by which it was routed have been read."""
        return self._has(ENDPOINTS, delivery.endpoint_row) and self._has(SUBSCRIPTIONS, delivery.subscription_row)

    def _has(self, table: str, place: RowPlace) -> bool:
        return self.places.get((table, place.partition), 0) > place.offset

    def endpoint(self, endpoint_id: str) -> KnownEndpoint:
        return self.endpoints.get(endpoint_id, KnownEndpoint(None, FIRST))

    def _endpoint(self, row: Row) -> KnownEndpoint:
        if row.value is None:
            return KnownEndpoint(None, row.offset, row.time_ms)
        try:
            return KnownEndpoint(rows.endpoint(row.value, self.rules), row.offset, row.time_ms)
        except InvalidRow as e:
            paused = Endpoint(row.key, "", "", is_paused=True)
            return KnownEndpoint(paused, row.offset, row.time_ms, str(e))

    def _subscription(self, row: Row) -> Subscription | None:
        try:
            return None if row.value is None else rows.subscription(row.value)
        except InvalidRow:
            return self.subscriptions.get(row.key)  # what is pending goes on as it was

"""The query of the router, at any version or time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import moneystate as ms
from moneystate.api.tables import DeclaredTable, TableIndex
from services.delivery.config import Config
from services.delivery.deliveries import delivery_id, rest_of_id
from services.delivery.matching import candidates
from services.delivery.records import Endpoint, Explained, Routed, Subscription, Verdict
from services.delivery.verdicts import INVALID_ENDPOINT, INVALID_SUBSCRIPTION, MATCHED, outcome_of

LIMIT: Final = 1_000


def declare_queries(
    service: ms.Service[Config], routed: ms.Map[Routed], subscriptions: DeclaredTable[Subscription],
    endpoints: DeclaredTable[Endpoint], by_match: TableIndex[Subscription, str],
) -> None:  # fmt: skip
    queries = Queries(service, routed, subscriptions, endpoints, by_match)
    service.query(personal=False)(queries.why)  # the body decides about filters, and is not shown


class Queries:
    def __init__(
        self, service: ms.Service[Config], routed: ms.Map[Routed], subscriptions: DeclaredTable[Subscription],
        endpoints: DeclaredTable[Endpoint], by_match: TableIndex[Subscription, str],
    ) -> None:  # fmt: skip
        self.subscriptions, self.endpoints, self.by_match = subscriptions, endpoints, by_match
        self.by_event = service.index("by_event", routed, lambda its: (its.topic, its.event_id))

    def why(
        self, view: ms.View, topic: str, event_id: str, subscription: str = "", limit: int = LIMIT
    ) -> list[Explained]:
        """Returns why subscriptions got an event, or did not. Several events of a topic can have the same id. None: the
        router has not read the event, or has forgotten it."""
        events = (its for _, _, its in view.find(self.by_event, (topic, event_id)))
        return [
            explained(its, ms.first(self._verdicts(view, its, subscription), limit)) for its in ms.first(events, limit)
        ]

    def _verdicts(self, view: ms.View, event: Routed, id: str) -> Iterator[Verdict]:
        """`id`: of a subscription; empty: all whose type and scope match."""
        table = view.table(self.subscriptions)
        rows: list[tuple[str, Subscription | None]] = [(id, table.get(id, at=event.time))]
        if not id:
            rows = [*candidates(table, self.by_match, event.type, event.tenant, event.department, event.time)]
        rest = rest_of_id(event.topic, event.partition, event.offset, event.event_id)
        for its, row in rows:
            yield self._verdict(view, event, its, row, rest)

    def _verdict(self, view: ms.View, event: Routed, id: str, row: Subscription | None, rest: bytes) -> Verdict:
        to = "" if row is None else row.endpoint_id
        endpoint = view.table(self.endpoints).get(to, at=event.time) if to else None
        outcome = outcome_of(event, row, endpoint)
        problems = {
            INVALID_SUBSCRIPTION: "" if row is None else row.problem,
            INVALID_ENDPOINT: "" if endpoint is None else endpoint.problem,
        }
        return Verdict(
            id, to, outcome, problems.get(outcome, ""), delivery_id(id, rest) if outcome == MATCHED else ""
        )  # fmt: skip


def explained(event: Routed, verdicts: list[Verdict]) -> Explained:
    return Explained(
        event.topic, event.partition, event.offset, event.event_id, event.source, event.type, event.tenant,
        event.department, event.time, verdicts,
    )  # fmt: skip

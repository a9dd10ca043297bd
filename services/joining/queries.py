"""The queries of joining: an id, the open ids, and those that wait for a service."""

from __future__ import annotations

from collections.abc import Iterator

import moneystate as ms
from services.joining.config import Config
from services.joining.content import Status, content_of
from services.joining.records import Known, Open, Result
from services.joining.rules import expected_of


def declare_queries(service: ms.Service[Config], results: ms.Value[Result]) -> None:
    queries = Queries(service, results)
    service.query(queries.by_id)
    service.query(queries.open_ids)
    service.query(queries.missing)


class Queries:
    def __init__(self, service: ms.Service[Config], results: ms.Value[Result]) -> None:
        self.config = service.rules
        self.results = results
        self.oldest = service.index("oldest", results, lambda result: result.first_at if result.missing else None)
        self.by_missing = service.index(
            "by_missing", results, lambda result: [(service, result.first_at) for service in result.missing]
        )

    def by_id(self, view: ms.View, id: str) -> Known:
        result = view.get(self.results, id)
        if result.first_at is None:
            return Known(id, "NONE" if result.ended_at is None else "ENDED", None, result.ended_at, None)
        status: Status = "PARTIAL" if result.missing else "COMPLETE"
        joined = content_of(id, status, expected_of(result, self.config), result, result.revision)
        return Known(id, "OPEN" if result.missing else "COMPLETE", result.first_at, None, joined)

    def open_ids(self, view: ms.View, limit: int = 100) -> list[Open]:
        """Lists the ids that wait for services, oldest first."""
        return _first(view.range(self.oldest), limit)

    def missing(self, view: ms.View, service: str, limit: int = 100) -> list[Open]:
        """Lists the ids that wait for this service, oldest first."""
        return _first(view.find(self.by_missing, (service,)), limit)


def _first(results: Iterator[tuple[str, Result]], limit: int) -> list[Open]:
    return [Open(id, r.first_at or 0, r.missing, r.revision) for id, r in ms.first(results, limit)]

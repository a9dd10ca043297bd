"""The queries of joining: an id, the open ids, and those that wait for a service."""

from __future__ import annotations

from collections.abc import Iterator

import moneystate as ms
from services.joining.config import Config
from services.joining.content import Status, content_of
from services.joining.records import Known, Open, Result
from services.joining.rules import expected_of


def declare_queries(service: ms.Service[Config], config: Config, results: ms.Value[Result]) -> None:
    oldest = service.index("oldest", results, lambda result: result.first_at if result.missing else None)
    by_missing = service.index(
        "by_missing", results, lambda result: [(service, result.first_at) for service in result.missing]
    )

    @service.query
    def by_id(view: ms.View, id: str) -> Known:
        result = view.get(results, id)
        if result.first_at is None:
            return Known(id, "NONE" if result.ended_at is None else "ENDED", None, result.ended_at, None)
        status: Status = "PARTIAL" if result.missing else "COMPLETE"
        joined = content_of(id, status, expected_of(result, config), result, result.revision)
        return Known(id, "OPEN" if result.missing else "COMPLETE", result.first_at, None, joined)

    @service.query
    def open_ids(view: ms.View, limit: int = 100) -> list[Open]:
        """Lists the ids that wait for services, oldest first."""
        return _first(view.range(oldest), limit)

    @service.query
    def missing(view: ms.View, service: str, limit: int = 100) -> list[Open]:
        """Lists the ids that wait for this service, oldest first."""
        return _first(view.find(by_missing, (service,)), limit)


def _first(results: Iterator[tuple[str, Result]], limit: int) -> list[Open]:
    return [Open(id, r.first_at or 0, r.missing, r.revision) for id, r in ms.first(results, limit)]

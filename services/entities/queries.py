"""The queries of entities (docs/entities.md)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import moneystate as ms
from services.entities import texts
from services.entities.config import Config
from services.entities.merge import Status, cause_and_time
from services.entities.records import Change, Entity, EntityChanged, Stored
from services.entities.steps import Steps, fitting, version_id

PAGE: Final = 100


@dataclass(frozen=True)
class Source:
    """`path`: of a value, a JSON Pointer; `cause`: eventId or commandId of what wrote it, `time`: its stamp's; None
    where that was longer ago than the merge window and is forgotten."""

    path: str
    cause: str | None
    time: ms.Millis | None


class Reader:
    """One entity in a view."""

    def __init__(self, view: ms.View, steps: Steps, id: str) -> None:
        self.view = view
        self.steps = steps
        self.id = id
        self.stored = view.get(steps.stored, id)

    def text(self) -> str:
        return texts.whole_text(self.stored, self.view.entries(self.steps.pieces, self.id))

    def change(self, version: int) -> Change | None:
        """Returns what made the version, where it is kept."""
        return self.view.entry(self.steps.history, self.id, version_id(version))

    def now(self) -> Entity:
        body = texts.visible_body(self.stored, self.text())
        return Entity(self.id, self.stored.status, self.stored.version, body)

    def at(self, version: int) -> Entity | None:
        """None where it is not kept any more, or not there yet."""
        if version == self.stored.version:
            return self.now()
        following = self.change(version + 1) if 0 <= version < self.stored.version else None
        if following is None:
            return None
        missing: Status = "DELETED" if version else "UNKNOWN"
        status = "ACTIVE" if following.before is not None or following.too_large else missing
        return Entity(self.id, status, version, following.before, following.too_large)

    def at_time(self, time_ms: int, retention_ms: int) -> Entity | None:
        version = self.first(lambda change: change.time > time_ms) - 1
        if time_ms < self.view.time_ms - retention_ms and version and self.change(version) is None:
            return None  # nobody knows whether it was there so early
        return self.at(version)

    def changes(self, after: int) -> Iterator[EntityChanged]:
        for version in range(max(after + 1, self.first(lambda _: True)), self.stored.version + 1):
            change, before, then = self.change(version), self.at(version - 1), self.at(version)
            if change and before and then:
                (old, new), large = fitting(before.body, then.body)
                if before.too_large or then.too_large:  # one of them is not kept
                    old, new, large = None, None, True
                yield EntityChanged(self.id, version, change.time, old, new, change.cause, large)

    def first(self, wanted: Callable[[Change], bool]) -> int:
        """The version of the first change that is kept and wanted, as all after it are; the next one if none is."""

        def is_wanted(version: int) -> bool:
            change = self.change(version)
            return change is not None and wanted(change)

        return 1 + bisect_left(range(1, self.stored.version + 1), True, key=is_wanted)


def declare_queries(service: ms.Service[Config], steps: Steps) -> None:
    queries = Queries(service, steps)
    service.query(queries.entity)
    service.query(queries.entity_version)
    service.query(queries.entity_at)
    service.query(queries.list_by_status)
    service.query(queries.list_by_field)
    service.query(queries.changes)
    service.query(queries.sources)


class Queries:
    def __init__(self, service: ms.Service[Config], steps: Steps) -> None:
        self.rules, self.steps = service.rules, steps
        self.by_status = service.index("by_status", steps.stored, lambda stored: (stored.status, stored.entity_id))
        self.by_field = service.index(
            "by_field", steps.stored, lambda stored: [(*field, stored.entity_id) for field in stored.fields.items()]
        )

    def entity(self, view: ms.View, entity_id: str) -> Entity:
        """An entity as it is."""
        return Reader(view, self.steps, entity_id).now()

    def entity_version(self, view: ms.View, entity_id: str, version: int) -> Entity | None:
        """An entity as one of its versions; none where that is not kept any more, or not there yet."""
        return Reader(view, self.steps, entity_id).at(version)

    def entity_at(self, view: ms.View, entity_id: str, time_ms: int) -> Entity | None:
        """An entity after all changes up to an order time; none where that is not kept any more."""
        return Reader(view, self.steps, entity_id).at_time(time_ms, self.rules.history_retention_ms)

    def list_by_status(self, view: ms.View, status: str, after: str = "", limit: int = PAGE) -> list[Entity]:
        """Entities of a status in the order of their ids, those behind the id `after`."""
        return self._page(
            view, view.range(self.by_status, (status, after + "\0" if after else ""), (status + "\0",)), limit
        )

    def list_by_field(self, view: ms.View, path: str, value: str, after: str = "", limit: int = PAGE) -> list[Entity]:
        """ACTIVE entities with a text, number or truth value in a configured field."""
        low = (path, value, after + "\0" if after else "")
        return self._page(view, view.range(self.by_field, low, (path, value + "\0")), limit)

    def changes(self, view: ms.View, entity_id: str, after: int = 0, limit: int = PAGE) -> list[EntityChanged]:
        """The changes that are kept, in order, those behind the version `after`."""
        return ms.first(Reader(view, self.steps, entity_id).changes(after), limit)

    def sources(self, view: ms.View, entity_id: str) -> list[Source]:
        """Returns which event or command each value of an entity is from."""
        reader = Reader(view, self.steps, entity_id)
        causes = texts.merge_of(reader.text()).causes() if reader.stored.status == "ACTIVE" else ()
        return [Source(path, *(cause_and_time(stamp) if stamp else (None, None))) for path, stamp in causes]

    def _page(self, view: ms.View, listed: Iterator[tuple[str, Stored]], limit: int) -> list[Entity]:
        return [Reader(view, self.steps, id).now() for id, _ in ms.first(listed, limit)]

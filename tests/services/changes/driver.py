"""Runs histories of the model database on the service, and shows its events as the model's truth has them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any, Final, Literal

import moneystate as ms
from moneystate.testing import CRASH, Bench
from services.changes.config import Config, Reference, Table
from services.changes.records import BusinessEvent
from services.changes.service import ChangesService
from tests.reference.changes.connector import Message
from tests.reference.changes.truth import Event

STUDENT: Final = Reference("student", ("student_id",))
COURSE: Final = Reference("course", ("course_id",))
TABLES: Final = (
    Table("student", ("id",)),
    Table("course", ("id",)),
    Table("enrolment", ("id",), student=STUDENT, course=COURSE),
    Table("booking", ("student_id", "course_id"), student=STUDENT, course=COURSE),
)
FIELDS: Final = ("student", "course", "from_", "to", "link", "before", "after")


def tables_with(full: tuple[str, ...]) -> tuple[Table, ...]:
    """`full`: those with REPLICA IDENTITY FULL."""
    return tuple(replace(table, full=table.name in full) for table in TABLES)


def config(**more: Any) -> Config:
    return Config(**{"connector": "uni", "root": "student", "tables": TABLES, **more})


class Driver:
    """A service in a bench."""

    def __init__(self, config: Config, seed: int = 0, cuts: Literal["random", "one"] = "random") -> None:
        self.changes = ChangesService(config)
        self.chance = Random(seed)
        self.bench = Bench(self.changes.service, seed=seed, cuts=cuts)
        self.topics = {declared.topic for declared in self.changes.service.inputs}

    def send(self, arrivals: Iterable[tuple[int, Message]], lost: float = 0) -> None:
        """What the service reads of these. `lost`: after which share of them a batch is lost, and runs again."""
        for arrival_ms, message in arrivals:
            if message.topic in self.topics:
                self.bench.send_raw(
                    message.topic,
                    message.value_bytes(),
                    message.key_bytes(),
                    headers=message.headers,
                    timestamp_ms=arrival_ms,
                )
                if self.chance.random() < lost:
                    self.bench.send(CRASH)

    def events(self) -> list[Event]:
        return [as_truth(event) for event in self.bench.out(self.changes.events)]

    def keyed(self) -> list[tuple[str, Event]]:
        return [(key, as_truth(event)) for key, event in self.bench.keyed(self.changes.events) if event is not None]


def as_truth(event: BusinessEvent) -> Event:
    """With what it has."""
    shown = {name.rstrip("_"): plain(getattr(event, name)) for name in FIELDS}
    more = {"changed": event.changed, "missing": event.missing or None, **shown}
    return {
        "type": event.type, "certainty": event.certainty, "transaction": event.transaction_id, "at": event.committed_at,
        "table": event.table, "rows": [(ref.table, ref.op, ref.lsn) for ref in event.rows],
        **{name: value for name, value in more.items() if value is not None},
    }  # fmt: skip


def plain(value: ms.Json | None) -> Any:
    return None if value is None else json.loads(value.text)


def without_nulls(event: Event) -> Event:
    return {name: value for name, value in event.items() if value is not None}

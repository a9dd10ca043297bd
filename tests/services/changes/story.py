"""Short stories on the model database: what the connector writes for a transaction, and when it arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final, Literal

from tests.reference.changes.connector import Connector, Message
from tests.reference.changes.database import Database, Row, Transaction
from tests.services.changes.driver import Driver, config

START: Final = 1_000_000
SETTLE_MS: Final = 2_000


class Story:
    """A bench with the student 1, the courses 1 and 2 and the enrolment 1 of a first snapshot."""

    def __init__(self, cuts: Literal["random", "one"] = "random", **more: Any) -> None:
        self.db = Database(tuple(table.name for table in more.get("tables", ()) if table.full))
        self.connector = Connector(Random(0))
        self.driver = Driver(config(**more), cuts=cuts)
        self.now = START
        first = self.db.begin()
        self.eve = self.db.insert(first, "student", {"id": 1, "name": "Eve", "bio": "a long text"})
        self.physics = self.db.insert(first, "course", {"id": 1, "title": "physics", "teacher": "Foo"})
        self.maths = self.db.insert(first, "course", {"id": 2, "title": "maths", "teacher": "Bar"})
        columns = {"id": 1, "student_id": 1, "course_id": 1, "grade": None}
        self.link = self.db.insert(first, "enrolment", columns, student=self.eve, course=self.physics)
        self.db.commit(first, 1)
        self.send(self.snapshot([row for _, row in self.db.rows.items()]))

    def snapshot(self, rows: list[tuple[str, Row]], incremental: bool = False) -> list[Message]:
        return self.connector.snapshot(rows, self.db.lsn, self.db.at, incremental)

    def transaction(self, *statements: Callable[[Transaction], object]) -> list[Message]:
        t = self.db.begin()
        for statement in statements:
            statement(t)
        return self.connector.transaction(self.db.commit(t, 5))

    def send(self, messages: list[Message], without: Callable[[Message], bool] = lambda message: False) -> None:
        """Each 10 ms after the one before it."""
        for message in messages:
            self.now += 10
            if not without(message):
                self.driver.send([(self.now, message)])

    def beat(self) -> None:
        """A heartbeat of the connector."""
        self.send([self.connector.heartbeat(self.db.at)])

    def settled(self, messages: list[Message]) -> None:
        """Wait mode: the unit of these is closed."""
        self.send(messages)
        self.now += SETTLE_MS
        self.beat()

    def ask(self, query: str, *arguments: Any) -> Any:
        return self.driver.bench.ask(self.driver.changes.service.queries[query], *arguments)

    def wait(self, ms: int) -> None:
        self.driver.bench.advance(ms)
        self.now += ms

    def told(self) -> list[str]:
        return [f"{event['type']} {event['certainty']}" for event in self.driver.events()]

    def last(self) -> dict[str, Any]:
        return self.driver.events()[-1]

    # Statements

    def rename(self, name: str, **more: Any) -> Callable[[Transaction], object]:
        return lambda t: self.db.update(t, "student", self.eve, {"name": name, **more})

    def new_student(self, id: int) -> Callable[[Transaction], object]:
        return lambda t: self.db.insert(t, "student", {"id": id, "name": "Ann", "bio": None})

    def choose(self, course: int) -> Callable[[Transaction], object]:
        id = self.db.rows[course][1].columns["id"]
        return lambda t: self.db.update(t, "enrolment", self.link, {"course_id": id}, course=course)


def is_end(message: Message) -> bool:
    return message.value is not None and message.value.get("status") == "END"


def is_of(table: str) -> Callable[[Message], bool]:
    return lambda message: message.topic.endswith(f".{table}")


def broken(message: Message) -> Message:
    """With a row that cannot be read."""
    return replace(message, value={**message.value, "after": "no object"}) if message.value else message

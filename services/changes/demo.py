"""`moneystate demo changes`: transactions of a real database, and what the changes of their rows say happened."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from moneystate.devbroker.demo import Came, Step, play
from moneystate.devdebezium import Connector, DevDebezium, await_sent
from moneystate.devpostgres import DevPostgres

CONNECTOR: Final = "uni"
CONFIG: Final = f"""
[changes]
connector = "{CONNECTOR}"
root = "student"

[[changes.tables]]
name = "student"
key = ["id"]

[[changes.tables]]
name = "course"
key = ["id"]

[[changes.tables]]
name = "enrolment"
key = ["id"]
student = {{ table = "student", columns = ["student_id"] }}
course = {{ table = "course", columns = ["course_id"] }}
"""
DATABASE: Final = """
CREATE TABLE student (id int PRIMARY KEY, name text, email text);
CREATE TABLE course (id int PRIMARY KEY, title text);
CREATE TABLE enrolment (
    id int PRIMARY KEY, student_id int REFERENCES student ON UPDATE CASCADE, course_id int REFERENCES course
);
INSERT INTO course VALUES (1, 'physics'), (2, 'maths');
"""
ENROLS: Final = (
    "INSERT INTO student VALUES (7, 'Ann', 'ann@x')",
    "INSERT INTO course VALUES (3, 'art')",
    "INSERT INTO enrolment VALUES (11, 7, 3)",
)
CHANGES: Final = ("UPDATE enrolment SET course_id = 1 WHERE id = 11",)
REPLACES: Final = ("DELETE FROM enrolment WHERE id = 11", "INSERT INTO enrolment VALUES (12, 7, 2)")
GETS_A_KEY: Final = ("UPDATE student SET id = 70 WHERE id = 7",)
NOTHING: Final = ("INSERT INTO student VALUES (8, 'Bob', 'bob@x')", "DELETE FROM student WHERE id = 8")
WITHDRAWS: Final = ("DELETE FROM enrolment WHERE id = 12",)


def _step(title: str, number: int, statements: tuple[str, ...], *promised: str) -> Step:
    return Step(title, str(number), (), tuple(f"{line}  TRANSACTION" for line in promised), statements)


STORY: Final = (
    _step("A new student enrols: rows of three tables", 0, ENROLS, "enroll    Ann: art"),
    _step("The student changes the course", 1, CHANGES, "change    Ann: art -> physics"),
    _step("And again, by another row", 2, REPLACES, "change    Ann: physics -> maths"),
    _step("The student's key changes, and the link follows", 3, GETS_A_KEY, "updated   Ann: key, id"),
    _step("A row that is there and gone", 4, NOTHING),
    _step("The student withdraws", 5, WITHDRAWS, "withdraw  Ann: maths"),
)
KILLED_AFTER: Final = 2  # steps: Debezium then sends again what it has sent


class Story:
    """`steps`: the keys of the steps, by the ids of their transactions."""

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}

    def write(self, servers: str, folder: Path) -> None:
        """Runs the transactions in a database whose changes Debezium captures. In the middle it is killed."""
        _say("starting PostgreSQL and Debezium ...")
        with (
            DevPostgres(progress=_say) as database,
            DevDebezium(folder / "debezium", servers, progress=_say) as debezium,
            psycopg.connect(database.dsn()) as connection,
        ):
            connection.execute(DATABASE)
            connection.commit()
            tables = [f"public.{table}" for table in ("student", "course", "enrolment")]
            debezium.create(Connector(CONNECTOR, database.dsn(), tables))
            self._run(connection, STORY[:KILLED_AFTER])
            await_sent(servers, CONNECTOR, self.steps)
            _say("killing Debezium, and starting it again ...")
            debezium.kill()
            debezium.start()
            self._run(connection, STORY[KILLED_AFTER:])
            await_sent(servers, CONNECTOR, self.steps)

    def _run(self, connection: psycopg.Connection[Any], steps: Sequence[Step]) -> None:
        for step in steps:
            for statement in step.told:
                connection.execute(statement)
            row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            assert row is not None
            self.steps[row[0]] = step.key
            connection.commit()

    def step_of(self, came: Came) -> str:
        """The key of the step whose transaction an event comes from."""
        return "" if came.value is None else self.steps.get(came.value["transactionId"], "")


def line(came: Came) -> str:
    if came.value is None:
        return f"dead letter: {came.reason}"
    event = came.value
    return f"{event['type']:<8}  {_what(event)}  {event['certainty']}"


def _what(event: dict[str, Any]) -> str:
    student = event["student"] or event["after"]
    match event["type"]:
        case "change":
            return f"{student['name']}: {event['from']['title']} -> {event['to']['title']}"
        case "enroll" | "withdraw":
            return f"{student['name']}: {event['course']['title']}"
    return f"{student['name']}: {', '.join(event['changed'] or ())}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def demo() -> bool:
    story = Story()
    return play(
        "changes", CONFIG, STORY, ["business-events", "changes-dead-letters"], line, (), story.write, story.step_of
    )

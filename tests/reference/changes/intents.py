"""What users of a database want, each in one or several transactions, and what it means. Nothing but a short wait tells
which transactions belong together.

Each intent has rows of its own, but for courses that never change. So operations on one row are further apart than the
wait unless they are of one intent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.reference.changes.connector import Connector, Message
from tests.reference.changes.database import Columns, Database, Transaction
from tests.reference.changes.history import partition_of
from tests.reference.changes.truth import Event

Statement = Callable[[Transaction], object]
LONGEST_PAUSE_MS: Final = 3_000  # from one transaction of an intent to the next


@dataclass
class Step:
    """A transaction of an intent, and how long after its beginning it commits."""

    later_ms: int
    statements: list[Statement]


@dataclass
class Intent:
    """`tell`: what it means, once all of it is committed."""

    steps: list[Step]
    tell: Callable[[], list[Event]]


@dataclass
class Noted:
    """What the log says of a statement."""

    rows: list[tuple[str, str, int]] = field(default_factory=list)
    transaction: int = 0


class People:
    """Want random things. `courses`: those that never change; `links`: enrolments that nobody uses yet."""

    def __init__(self, chance: random.Random, db: Database) -> None:
        self.chance = chance
        self.db = db
        self.courses = [{"id": next(db.ids), "title": title, "teacher": "Foo"} for title in ("art", "maths", "music")]
        self.students: list[tuple[int, Columns]] = []
        self.links: list[tuple[int, Columns, Columns]] = []  # with their students
        self.times: dict[int, int] = {}  # of commits, by transaction

    def prepare(self, intents: int) -> None:
        t = self.db.begin()
        for course in self.courses:
            self.db.insert(t, "course", course)
        for _ in range(2 * intents):
            student = self.student()
            uid = self.db.insert(t, "student", student)
            self.students.append((uid, student))
            link = self.link(student, self.chance.choice(self.courses))
            self.links.append((self.db.insert(t, "enrolment", link, student=None, course=None), link, student))
        self.db.commit(t, 1)

    def student(self) -> Columns:
        return {"id": next(self.db.ids), "name": self.chance.choice("abc"), "bio": None}

    def link(self, student: Columns, course: Columns) -> Columns:
        return {"id": next(self.db.ids), "student_id": student["id"], "course_id": course["id"], "grade": None}

    def want(self) -> Intent:
        wishes = [self.enroll, self.enroll, self.enroll, self.change, self.change, self.update, self.leave, self.join,
                  self.join_and_leave]  # fmt: skip
        return self.chance.choice(wishes)()

    # Intents

    def enroll(self) -> Intent:
        """A new student, at times a new course, and the link, in any order; the student may be renamed first."""
        log, student, new = Noted(), self.student(), self.chance.random() < 0.4
        course = (
            {"id": next(self.db.ids), "title": "new", "teacher": "Bar"} if new else self.chance.choice(self.courses)
        )
        link, named = self.link(student, course), dict(student)
        link_log = Noted()
        statements = [self._insert("student", student, log), self._insert("enrolment", link, log, link_log)]
        if new:
            statements.append(self._insert("course", course, log))
        self.chance.shuffle(statements)
        steps = self._spread(statements)
        return Intent(steps, lambda: [self._event("enroll", log, link_log, student=named, course=course, link=link)])

    def change(self) -> Intent:
        """Another course: by an update, or by removing the link and creating another one."""
        uid, old, student = self.links.pop()
        log, last = Noted(), Noted()
        course = self.chance.choice([its for its in self.courses if its["id"] != old["course_id"]])
        before = next(its for its in self.courses if its["id"] == old["course_id"])
        if self.chance.random() < 0.3:
            link = {**old, "course_id": course["id"]}
            steps = self._spread([self._update("enrolment", uid, {"course_id": course["id"]}, log, last)])
        else:
            link = self.link(student, course)
            delete, insert = self._delete("enrolment", uid, log), self._insert("enrolment", link, log, last)
            steps = self._spread([delete, insert])
        fields: dict[str, Any] = {"student": student, "from": before, "to": course, "link": link}
        return Intent(steps, lambda: [self._event("change", log, last, **fields)])

    def update(self) -> Intent:
        uid, student = self.students.pop(0)
        log = Noted()
        steps = self._spread([self._update("student", uid, {"name": "new"}, log, log)])
        after = {**student, "name": "new"}
        return Intent(
            steps,
            lambda: [self._event("updated", log, log, "student", before=student, after=after, changed=["name"])],
        )

    def leave(self) -> Intent:
        """The link is removed, and then the student, at times at once."""
        uid, link, student = self.links.pop()
        row = next(uid for uid, its in self.students if its["id"] == student["id"])
        log, gone = Noted(), Noted()
        course = next(its for its in self.courses if its["id"] == link["course_id"])
        steps = self._spread([self._delete("enrolment", uid, log, log), self._delete("student", row, gone, gone)])
        return Intent(
            steps,
            lambda: [
                self._event("withdraw", log, log, student=student, course=course, link=link),
                self._event("deleted", gone, gone, "student", before=student),
            ],
        )

    def join(self) -> Intent:
        """A student without a course, renamed while the creation waits."""
        log, student = Noted(), self.student()
        uids: list[int] = []
        insert = self._insert("student", student, log, log, uids)
        if self.chance.random() < 0.5:
            return Intent(self._spread([insert]), lambda: [self._event("created", log, log, "student", after=student)])
        rename = self._update("student", uids, {"name": "renamed"}, log, log)
        after = {**student, "name": "renamed"}
        return Intent(
            self._spread([insert, rename]), lambda: [self._event("created", log, log, "student", after=after)]
        )

    def join_and_leave(self) -> Intent:
        """Nothing happened."""
        uids: list[int] = []
        insert = self._insert("student", self.student(), Noted(), None, uids)
        return Intent(self._spread([insert, self._delete("student", uids, Noted())]), lambda: [])

    # Statements

    def _spread(self, statements: list[Statement]) -> list[Step]:
        """In one transaction or in several."""
        steps = [Step(0, [statements[0]])]
        for statement in statements[1:]:
            if self.chance.random() < 0.3:
                steps[-1].statements.append(statement)
            else:
                steps.append(Step(steps[-1].later_ms + self.chance.randrange(1, LONGEST_PAUSE_MS), [statement]))
        return steps

    def _insert(
        self, table: str, row: Columns, log: Noted, last: Noted | None = None, uids: list[int] | None = None
    ) -> Statement:
        def insert(t: Transaction) -> None:
            since = len(t.log)
            uid = self.db.insert(t, table, row, student=None, course=None)
            if uids is not None:
                uids.append(uid)
            self._note(t, since, log, last)

        return insert

    def _update(self, table: str, uid: int | list[int], changed: Columns, log: Noted, last: Noted) -> Statement:
        def update(t: Transaction) -> None:
            since = len(t.log)
            self.db.update(t, table, uid[0] if isinstance(uid, list) else uid, changed)
            self._note(t, since, log, last)

        return update

    def _delete(self, table: str, uid: int | list[int], log: Noted, last: Noted | None = None) -> Statement:
        def delete(t: Transaction) -> None:
            since = len(t.log)
            self.db.delete(t, table, uid[0] if isinstance(uid, list) else uid)
            self._note(t, since, log, last)

        return delete

    def _note(self, t: Transaction, since: int, log: Noted, last: Noted | None) -> None:
        log.rows += [(its.table, its.op, its.lsn) for its in t.log[since:]]
        if last is not None:
            last.transaction = t.id

    def _event(self, type: str, log: Noted, last: Noted, table: str = "enrolment", **fields: Any) -> Event:
        return {
            "type": type, "certainty": "WAIT", "transaction": str(last.transaction), "at": self.times[last.transaction],
            "table": table, "rows": sorted(log.rows, key=lambda row: row[2]), **fields,
        }  # fmt: skip


def wanted(seed: int, intents: int, skew_ms: int) -> tuple[list[tuple[int, Message]], list[Event]]:
    """What arrives, and what was meant, in any order."""
    chance = random.Random(seed)
    db = Database()
    people = People(chance, db)
    people.prepare(intents)
    first, start, lsn = list(db.rows.values()), db.at, db.lsn
    plan: list[tuple[int, int, Step]] = []
    wishes = [people.want() for _ in range(intents)]
    for number, intent in enumerate(wishes):
        begin = chance.randrange(60_000)
        plan += [(begin + step.later_ms, number, step) for step in intent.steps]
    connector = Connector(chance, metadata=False)
    stream: list[tuple[int, Message]] = []
    for time_ms, _, step in sorted(plan, key=lambda its: its[:2]):
        t = db.begin()
        for statement in step.statements:
            statement(t)
        committed = db.commit(t, max(0, start + time_ms - db.at))
        people.times[t.id] = committed.at
        stream += [(committed.at - start, message) for message in connector.transaction(committed)]
    stream = list(_again(chance, stream))
    arrivals = [(0, message) for message in connector.snapshot(first, lsn, start, incremental=False)]
    arrivals += _arrive(chance, stream, skew_ms)
    end = max(time_ms for time_ms, _ in arrivals) + 60_000
    arrivals += [(time_ms, connector.heartbeat(start + time_ms)) for time_ms in range(1_000, end, 1_000)]
    return sorted(arrivals, key=lambda arrival: arrival[0]), [event for its in wishes for event in its.tell()]


def _again(chance: random.Random, stream: list[tuple[int, Message]]) -> Iterator[tuple[int, Message]]:
    """A connector that starts again sends again what it has sent."""
    for place, (time_ms, message) in enumerate(stream):
        yield time_ms, message
        if chance.random() < 0.02:
            for _, earlier in stream[max(0, place - 5) : place + 1]:
                yield time_ms, earlier


def _arrive(chance: random.Random, stream: list[tuple[int, Message]], skew_ms: int) -> list[tuple[int, Message]]:
    last: dict[Any, int] = {}
    arrivals = []
    for time_ms, message in stream:
        partition = partition_of(message)
        arrival_ms = max(last.get(partition, 0), 1 + time_ms + chance.randrange(skew_ms))
        last[partition] = arrival_ms
        arrivals.append((arrival_ms, message))
    return arrivals

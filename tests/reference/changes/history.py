"""Random histories: what stands in the topics, when it arrived, and what happened."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.reference.changes.connector import TRANSACTIONS, Connector, Message, killed
from tests.reference.changes.database import LINKS, Columns, Committed, Database, Transaction, key_columns
from tests.reference.changes.truth import Event, truth_of


@dataclass(frozen=True)
class Shape:
    """What histories have. `pause_ms`: from one commit to the next, at most; `skew_ms`: how late a record can arrive
    beside others of the connector."""

    transactions: int = 16
    open: int = 3
    statements: int = 5
    pause_ms: int = 3
    skew_ms: int = 400
    kills: int = 0
    snapshots: int = 0
    copies: bool = True
    full: tuple[str, ...] = ()


@dataclass
class History:
    """`arrivals`: records in the order in which they arrived, and when; `events`: the truth, in order."""

    arrivals: list[tuple[int, Message]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    unchanged: int = 0


class Users:
    """Make random statements in random transactions."""

    def __init__(self, chance: random.Random, database: Database, shape: Shape) -> None:
        self.chance = chance
        self.db = database
        self.shape = shape
        self.freed: list[int] = []  # keys of students that are gone

    def run(self) -> list[Committed]:
        """Transactions that overlap, in the order of their commits."""
        done: list[Committed] = []
        while len(done) < self.shape.transactions:
            if len(self.db.open) < self.shape.open and self.chance.random() < 0.5:
                self.db.begin()
            if not self.db.open:
                continue
            transaction = next((its for its in self.db.open if has_truncated(its)), self.chance.choice(self.db.open))
            if self.chance.random() < 1 / self.shape.statements:
                later = self.chance.choice([0, 0, self.chance.randrange(self.shape.pause_ms + 1)])
                done.append(self.commit(transaction, later))
            else:
                self.statement(transaction)
        while self.db.open:
            done.append(self.commit(self.db.open[0], 1))
        return done

    def commit(self, t: Transaction, later_ms: int) -> Committed:
        committed = self.db.commit(t, later_ms)
        for uid, row in committed.before.items():
            now = committed.after.get(uid)
            id = None if row is None else row.columns.get("id")
            if t.tables[uid] == "student" and id is not None and (now is None or now[1].columns["id"] != id):
                self.freed.append(id)
        return committed

    def statement(self, t: Transaction) -> None:
        statements: list[Callable[[Transaction], None]] = [
            self.enroll, self.enroll, self.enroll_new, self.enroll_new, self.new_student, self.new_course,
            self.update_student, self.update_student, self.update_course, self.change_course, self.change_course,
            self.replace_link, self.move_link, self.update_link, self.withdraw, self.delete_student,
            self.delete_course, self.change_key, self.change_key, self.insert_and_delete, self.audit, self.truncate,
            self.change_link_key,
        ]  # fmt: skip
        if self.shape.copies:
            statements.append(self.copy)
        self.chance.choice(statements)(t)

    # Rows

    def one(self, t: Transaction, table: str) -> int | None:
        rows = self.db.visible(t, table)
        return self.chance.choice(sorted(rows)) if rows else None

    def student(self) -> Columns:
        """Under a new key, or that of a student who is gone."""
        bio = self.chance.choice([None, "long " * 3, "longer " * 3])
        id = self.freed.pop() if self.freed and self.chance.random() < 0.3 else next(self.db.ids)
        return {"id": id, "name": self.chance.choice("abc"), "bio": bio}

    def course(self) -> Columns:
        return {"id": next(self.db.ids), "title": self.chance.choice("abc"), "teacher": "Föö"}

    def link(self, t: Transaction, table: str, student: int, course: int | None) -> None:
        s = self.db.visible(t, "student")[student].columns["id"]
        c = None if course is None else self.db.visible(t, "course")[course].columns["id"]
        if table == "booking":
            if course is None or self.is_booked(s, c):
                return
            columns = {"student_id": s, "course_id": c, "seat": self.chance.choice("AB")}
        else:
            columns = {"id": next(self.db.ids), "student_id": s, "course_id": c, "grade": None}
        self.db.insert(t, table, columns, student=student, course=course)

    def is_booked(self, student: int, course: int | None) -> bool:
        """Whether any transaction has used this key."""
        rows = [row for table, row in self.db.rows.values() if table == "booking"]
        rows += [row for t in self.db.open for row in t.rows.values() if row is not None and "seat" in row.columns]
        logged = [its for t in self.db.open for its in t.log if its.table == "booking"]
        keys = [key_columns("booking", row.columns) for row in rows]
        keys += [key_columns("booking", columns) for its in logged for columns in (its.before, its.after) if columns]
        return {"student_id": student, "course_id": course} in keys

    # Statements

    def new_student(self, t: Transaction) -> None:
        self.db.insert(t, "student", self.student())

    def new_course(self, t: Transaction) -> None:
        self.db.insert(t, "course", self.course())

    def enroll(self, t: Transaction) -> None:
        student, course = self.one(t, "student"), self.one(t, "course")
        if student is not None:
            table = self.chance.choice(LINKS)
            self.link(t, table, student, course if table == "booking" or self.chance.random() < 0.9 else None)

    def enroll_new(self, t: Transaction) -> None:
        """A new student, at times with a new course or a second link."""
        student = self.db.insert(t, "student", self.student())
        course = self.db.insert(t, "course", self.course()) if self.chance.random() < 0.5 else self.one(t, "course")
        self.link(t, "enrolment", student, course)
        if self.chance.random() < 0.3:
            other = self.one(t, "course")
            self.link(t, "enrolment", student, other)

    def update_student(self, t: Transaction) -> None:
        uid = self.one(t, "student")
        if uid is not None:
            bio = self.chance.choice([{}, {}, {"bio": self.chance.choice([None, "new " * 3])}])
            self.db.update(t, "student", uid, {"name": self.chance.choice("abc"), **bio})

    def update_course(self, t: Transaction) -> None:
        uid = self.one(t, "course")
        if uid is not None:
            self.db.update(t, "course", uid, {"title": self.chance.choice("abcd")})

    def update_link(self, t: Transaction) -> None:
        uid = self.one(t, "enrolment")
        if uid is not None:
            self.db.update(t, "enrolment", uid, {"grade": self.chance.choice([None, "1.0", "2.5"])})

    def change_course(self, t: Transaction) -> None:
        table = self.chance.choice(LINKS)
        uid, course = self.one(t, table), self.one(t, "course")
        if uid is None or course is None:
            return
        id = self.db.visible(t, "course")[course].columns["id"]
        if table == "booking" and self.is_booked(self.db.visible(t, table)[uid].columns["student_id"], id):
            return
        self.db.update(t, table, uid, {"course_id": id}, course=course)

    def move_link(self, t: Transaction) -> None:
        uid, student = self.one(t, "enrolment"), self.one(t, "student")
        if uid is not None and student is not None:
            id = self.db.visible(t, "student")[student].columns["id"]
            self.db.update(t, "enrolment", uid, {"student_id": id}, student=student)

    def replace_link(self, t: Transaction) -> None:
        """Delete a link and create another one, at times under the same key."""
        uid, course = self.one(t, "enrolment"), self.one(t, "course")
        if uid is None or course is None:
            return
        old = self.db.visible(t, "enrolment")[uid]
        self.db.delete(t, "enrolment", uid)
        key = {"id": next(self.db.ids)} if self.chance.random() < 0.5 else {}
        id = self.db.visible(t, "course")[course].columns["id"]
        columns = {**old.columns, "course_id": id, **key}
        self.db.insert(t, "enrolment", columns, student=old.refers_to["student"], course=course)

    def withdraw(self, t: Transaction) -> None:
        table = self.chance.choice(LINKS)
        uid = self.one(t, table)
        if uid is not None:
            self.db.delete(t, table, uid)

    def delete_student(self, t: Transaction) -> None:
        self._delete(t, "student")

    def delete_course(self, t: Transaction) -> None:
        self._delete(t, "course")

    def _delete(self, t: Transaction, table: str) -> None:
        """With its links, as a cascade does."""
        uid = self.removable(t, table)
        if uid is not None:
            for link, its in self.db.links_to(t, table, uid):
                self.db.delete(t, link, its)
            self.db.delete(t, table, uid)

    def removable(self, t: Transaction, table: str) -> int | None:
        """A row that no other transaction refers to, whose links are all free."""
        uid = self.one(t, table)
        if uid is None or not self.db.may_remove(t, uid):
            return None
        locked = {its for o in self.db.open if o is not t for its in o.rows}
        links = [its for its, (_, row) in self.db.rows.items() if row.refers_to.get(table) == uid]
        return None if locked.intersection(links) else uid

    def change_key(self, t: Transaction) -> None:
        table = self.chance.choice(["student", "student", "course"])
        uid = self.removable(t, table)
        if uid is not None:
            more = {"name": "moved"} if table == "student" and self.chance.random() < 0.3 else {}
            self.db.update(t, table, uid, {"id": next(self.db.ids), **more})

    def change_link_key(self, t: Transaction) -> None:
        uid = self.one(t, "enrolment")
        if uid is not None:
            self.db.update(t, "enrolment", uid, {"id": next(self.db.ids)})

    def insert_and_delete(self, t: Transaction) -> None:
        uid = self.db.insert(t, "student", self.student())
        if self.chance.random() < 0.5:
            self.db.update(t, "student", uid, {"name": "gone"})
        self.db.delete(t, "student", uid)

    def audit(self, t: Transaction) -> None:
        self.db.insert(t, "audit", {"id": next(self.db.ids), "t": "x"})

    def truncate(self, t: Transaction) -> None:
        """It waits for all others."""
        if len(self.db.open) == 1 and self.chance.random() < 0.3:
            self.db.truncate(t, self.chance.choice(LINKS))

    def copy(self, t: Transaction) -> None:
        self.db.copy(t, "student", [self.student() for _ in range(self.chance.randrange(2, 5))], {})


def has_truncated(t: Transaction) -> bool:
    """Then it has locked the table, and others wait."""
    return any(logged.op == "t" for logged in t.log)


def history(seed: int, shape: Shape) -> History:
    chance = random.Random(seed)
    database = Database(shape.full)
    users = Users(chance, database, shape)
    first = database.begin()
    for _ in range(4):
        users.enroll_new(first)
    database.commit(first, 5)
    connector = Connector(chance)
    start, start_lsn, start_at = dict(database.rows), database.lsn, database.at
    done = [its for its in users.run() if its.transaction.log]
    truths = [truth_of(its) for its in done]
    first_snapshot = connector.snapshot(start.values(), start_lsn, start_at, incremental=False)
    stream = _with_snapshots(chance, connector, done, shape)
    written = killed(chance, stream, chance.randrange(shape.kills + 1))
    arrivals = [(0, message) for message in first_snapshot]  # it ends before anything else begins
    arrivals += arrive(chance, written, shape.skew_ms)
    return History(arrivals, [e for truth in truths for e in truth.events], sum(truth.unchanged for truth in truths))


def _with_snapshots(chance: random.Random, connector: Connector, done: list[Committed], shape: Shape) -> list[Message]:
    """The stream, with incremental and blocking snapshots between transactions. A blocking one has the rows as they are
    later than where the connector is."""
    at = {chance.randrange(len(done)): chance.random() < 0.5 for _ in range(shape.snapshots)}
    stream: list[Message] = []
    for place, committed in enumerate(done):
        stream += connector.transaction(committed)
        if place in at:
            seen = committed if at[place] else done[min(place + chance.randrange(6), len(done) - 1)]
            rows = [row for _, row in sorted(seen.after.items()) if chance.random() < 0.7]
            stream += connector.snapshot(rows, committed.end_lsn, seen.at, incremental=at[place])
    return stream


def arrive(chance: random.Random, written: list[Message], skew_ms: int) -> list[tuple[int, Message]]:
    """Each partition keeps its order, and is late by itself."""
    lateness: dict[Any, int] = {}
    last: dict[Any, int] = {}
    arrivals: list[tuple[int, int, Message]] = []
    now = 1_000_000
    for number, message in enumerate(written):
        now += chance.choice([0, 0, 1, 2, 30])
        partition = partition_of(message)
        if chance.random() < 0.2 or partition not in lateness:
            lateness[partition] = chance.randrange(skew_ms + 1)
        at = max(last.get(partition, 0), now + lateness[partition])
        last[partition] = at
        arrivals.append((at, number, message))
    return [(at, message) for at, _, message in sorted(arrivals, key=lambda arrival: arrival[:2])]


def partition_of(message: Message) -> tuple[str, int]:
    return message.topic, 0 if message.topic == TRANSACTIONS else half(message)


def half(message: Message) -> int:
    """Chooses one of two partitions by the key."""
    return len(str(message.key)) % 2 if message.key is not None else 0

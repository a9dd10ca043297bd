"""A university's real database, changed by transactions whose meaning is known before they run.

A transaction holds the rows that it needs until it ends, as the database does: so what it means does not depend on the
others that are open, and none waits for another.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, int]  # a table and a key
Event: TypeAlias = dict[str, Any]  # the fields of a business event that have a value

STUDENT: Final = "student"
COURSE: Final = "course"
ENROLMENT: Final = "enrolment"
TABLES: Final = (
    "CREATE TABLE student (id int PRIMARY KEY, name text, email text, bio text)",
    # Large values are not logged again where they do not change.
    "ALTER TABLE student ALTER bio SET STORAGE EXTERNAL",
    "CREATE TABLE course (id int PRIMARY KEY, title text, teacher text)",
    "CREATE TABLE enrolment (id int PRIMARY KEY, "
    "student_id int REFERENCES student ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, "
    "course_id int REFERENCES course ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED, grade numeric(4,1))",
    "CREATE TABLE audit (id serial PRIMARY KEY, note text)",
)
CONFIG: Final = """
[changes]
connector = "{connector}"
root = "student"

[[changes.tables]]
name = "student"
key = ["id"]
full = {full}

[[changes.tables]]
name = "course"
key = ["id"]
full = {full}

[[changes.tables]]
name = "enrolment"
key = ["id"]
student = {{ table = "student", columns = ["student_id"] }}
course = {{ table = "course", columns = ["course_id"] }}
decimals = ["grade"]
full = {full}
"""
LARGE: Final = 3_000  # characters: PostgreSQL keeps such a value beside its row
MOST_LINKS: Final = 3  # that an intent adds or takes away at once


def config_text(connector: str, full: bool = False) -> str:
    """`full`: whether the replica identities are FULL."""
    return CONFIG.format(connector=connector, full=str(full).lower())


class Busy(Exception):
    """No rows are free that an intent could take."""


@dataclass(frozen=True)
class Statement:
    sql: str
    parameters: tuple[Any, ...] = ()
    copied: tuple[tuple[Any, ...], ...] = ()  # rows for COPY


@dataclass
class Transaction:
    """`statements` in order; `happened`: its events, in any order; `effects`: rows once it is committed, None for those
    that are gone."""

    statements: list[Statement] = field(default_factory=list)
    happened: list[Event] = field(default_factory=list)
    effects: list[tuple[Place, Row | None]] = field(default_factory=list)
    held: set[Place] = field(default_factory=set)
    shared: Counter[Place] = field(default_factory=Counter)
    copies: bool = False

    def do(self, sql: str, *parameters: Any) -> None:
        self.statements.append(Statement(sql, parameters))


class University:
    """The rows as they are committed, and the keys that open transactions hold."""

    def __init__(self, chance: random.Random, copies: bool = True) -> None:
        self.rows: dict[str, dict[int, Row]] = {STUDENT: {}, COURSE: {}, ENROLMENT: {}}
        self.copies = copies  # whether transactions may COPY
        self._chance = chance
        self._next = 0
        self._held: set[Place] = set()
        self._shared: Counter[Place] = Counter()
        self._intents: list[tuple[int, Callable[[Transaction], None]]] = [
            (5, self._enrol_new), (4, self._enrol), (4, self._change), (1, self._replace), (1, self._swap),
            (1, self._move), (3, self._withdraw), (2, self._edit), (1, self._touch), (1, self._regrade),
            (1, self._edit_course), (2, self._rekey_student), (1, self._rekey_course), (1, self._expel),
            (1, self._vanish), (1, self._create_and_edit), (1, self._give_up_a_part), (1, self._note), (1, self._copy),
        ]  # fmt: skip

    def plan(self) -> Transaction:
        """A transaction of one to three intents. It holds its rows from now on."""
        weights = [weight for weight, _ in self._intents]
        parts = []
        for _, intent in self._chance.choices(self._intents, weights, k=self._chance.choice((1, 1, 1, 2, 3))):
            part = Transaction()
            try:
                intent(part)
                parts.append(part)
            except Busy:
                self.release(part)
        return Transaction(
            list(self._interleaved([part.statements for part in parts])),
            [event for part in parts for event in part.happened],
            [effect for part in parts for effect in part.effects],
            {place for part in parts for place in part.held},
            sum((part.shared for part in parts), Counter()),
            any(part.copies for part in parts),
        )

    def commit(self, planned: Transaction) -> None:
        for (table, key), row in planned.effects:
            self.rows[table].pop(key, None)
            if row is not None:
                self.rows[table][key] = row
        self.release(planned)

    def release(self, planned: Transaction) -> None:
        """Releases what a transaction that has ended held."""
        self._held -= planned.held
        self._shared -= planned.shared

    def _interleaved(self, parts: list[list[Statement]]) -> Iterator[Statement]:
        parts = [list(part) for part in parts if part]
        while parts:
            part = self._chance.choice(parts)
            yield part.pop(0)
            parts = [part for part in parts if part]

    # --- rows -------------------------------------------------------------------------------------------------------

    def _hold(self, planned: Transaction, *places: Place) -> None:
        if any(place in self._held or self._shared[place] for place in places):
            raise Busy
        self._held.update(places)
        planned.held.update(places)

    def _share(self, planned: Transaction, place: Place) -> None:
        if place in self._held:
            raise Busy
        self._shared[place] += 1
        planned.shared[place] += 1

    def _some(self, table: str, fits: Callable[[Row], bool] = lambda _: True) -> Row:
        free = [
            row for key, row in self.rows[table].items()
            if (table, key) not in self._held and not self._shared[table, key] and fits(row)
        ]  # fmt: skip
        if not free:
            raise Busy
        return self._chance.choice(free)

    def _some_student(self, planned: Transaction, links: int = 0) -> Row:
        """Held, with at least so many links."""
        linked = Counter(link["student_id"] for link in self.rows[ENROLMENT].values())
        student = self._some(STUDENT, lambda row: linked[row["id"]] >= links)
        self._hold(planned, (STUDENT, student["id"]))
        return student

    def _some_link(self, planned: Transaction) -> tuple[Row, Row, Row]:
        """A held student, one of the student's links, and its course."""
        student = self._some_student(planned, 1)
        link = self._chance.choice(self._links_of(student))
        return student, link, self._course_of(planned, link)

    def _course_of(self, planned: Transaction, link: Row) -> Row:
        course = self.rows[COURSE][link["course_id"]]
        self._share(planned, (COURSE, course["id"]))
        return course

    def _other_course(self, planned: Transaction, *others: int) -> Row:
        free = [row for key, row in self.rows[COURSE].items() if key not in others and (COURSE, key) not in self._held]
        if not free:
            raise Busy
        course = self._chance.choice(free)
        self._share(planned, (COURSE, course["id"]))
        return course

    def _links_of(self, student: Row) -> list[Row]:
        return [link for link in self.rows[ENROLMENT].values() if link["student_id"] == student["id"]]

    def _key(self) -> int:
        self._next += 1
        return self._next

    def _text(self, title: str) -> str:
        return f"{title} {self._chance.randrange(10**9)}"

    def _new_student(self) -> Row:
        key = self._key()
        bio = f"{self._chance.getrandbits(4 * LARGE):0{LARGE}x}" if self._chance.random() < 0.2 else None
        return {"id": key, "name": self._text("name"), "email": f"{key}@x", "bio": bio}

    def _new_course(self) -> Row:
        return {"id": self._key(), "title": self._text("title"), "teacher": self._text("teacher")}

    def _new_link(self, student: Row, course: Row) -> Row:
        grade = self._chance.choice((None, "1.5", "10.0"))
        return {"id": self._key(), "student_id": student["id"], "course_id": course["id"], "grade": grade}

    # --- intents ----------------------------------------------------------------------------------------------------

    def _enrol_new(self, planned: Transaction) -> None:
        """A new student, sometimes with a new course, sometimes with several links; rows in any order."""
        student = self._new_student()
        inserts = [insert(STUDENT, student)]
        planned.effects.append(((STUDENT, student["id"]), student))
        courses: list[int] = []
        for _ in range(self._chance.choice((1, 1, MOST_LINKS))):
            if self._chance.random() < 0.3 or len(self.rows[COURSE]) < MOST_LINKS:
                course = self._new_course()
                inserts.append(insert(COURSE, course))
                planned.effects.append(((COURSE, course["id"]), course))
            else:
                try:
                    course = self._other_course(planned, *courses)
                except Busy:
                    break
            courses.append(course["id"])
            link = self._new_link(student, course)
            inserts.append(insert(ENROLMENT, link))
            planned.effects.append(((ENROLMENT, link["id"]), link))
            planned.happened.append(enrolled(student, course, link))
        if not courses:
            planned.happened.append({"type": "created", "table": STUDENT, "after": student})
        self._chance.shuffle(inserts)
        planned.statements += inserts

    def _enrol(self, planned: Transaction) -> None:
        student = self._some_student(planned)
        course = self._other_course(planned)
        link = self._new_link(student, course)
        planned.statements.append(insert(ENROLMENT, link))
        planned.effects.append(((ENROLMENT, link["id"]), link))
        planned.happened.append(enrolled(student, course, link))

    def _change(self, planned: Transaction) -> None:
        student, link, old = self._some_link(planned)
        new = self._other_course(planned, old["id"])
        after = {**link, "course_id": new["id"]}
        planned.do("UPDATE enrolment SET course_id = %s WHERE id = %s", new["id"], link["id"])
        planned.effects.append(((ENROLMENT, link["id"]), after))
        planned.happened.append(changed_course(student, old, new, after))

    def _replace(self, planned: Transaction) -> None:
        """A link that is removed and another one that is created, sometimes with the same key."""
        student, link, old = self._some_link(planned)
        new = self._other_course(planned, old["id"])
        after = self._new_link(student, new)
        if self._chance.random() < 0.5:
            after["id"] = link["id"]
        planned.do("DELETE FROM enrolment WHERE id = %s", link["id"])
        planned.statements.append(insert(ENROLMENT, after))
        planned.effects += [((ENROLMENT, link["id"]), None), ((ENROLMENT, after["id"]), after)]
        planned.happened.append(changed_course(student, old, new, after))

    def _swap(self, planned: Transaction) -> None:
        """Two links are removed and two created: the first replaces the first."""
        student = self._some_student(planned, 2)
        removed = self._chance.sample(self._links_of(student), 2)
        olds = [self._course_of(planned, link) for link in removed]
        for link in removed:
            planned.do("DELETE FROM enrolment WHERE id = %s", link["id"])
            planned.effects.append(((ENROLMENT, link["id"]), None))
        for old in olds:
            new = self._other_course(planned, old["id"])
            link = self._new_link(student, new)
            planned.statements.append(insert(ENROLMENT, link))
            planned.effects.append(((ENROLMENT, link["id"]), link))
            planned.happened.append(changed_course(student, old, new, link))

    def _move(self, planned: Transaction) -> None:
        """A link that gets another student."""
        student, link, course = self._some_link(planned)
        other = self._some_student(planned)
        after = {**link, "student_id": other["id"]}
        planned.do("UPDATE enrolment SET student_id = %s WHERE id = %s", other["id"], link["id"])
        planned.effects.append(((ENROLMENT, link["id"]), after))
        planned.happened += [withdrawn(student, course, link), enrolled(other, course, after)]

    def _withdraw(self, planned: Transaction) -> None:
        student, link, course = self._some_link(planned)
        planned.do("DELETE FROM enrolment WHERE id = %s", link["id"])
        planned.effects.append(((ENROLMENT, link["id"]), None))
        planned.happened.append(withdrawn(student, course, link))

    def _edit(self, planned: Transaction) -> None:
        before = self._some_student(planned)
        after = {**before, "email": self._text("email")}
        planned.do("UPDATE student SET email = %s WHERE id = %s", after["email"], before["id"])
        planned.effects.append(((STUDENT, before["id"]), after))
        planned.happened.append(updated(STUDENT, before, after))

    def _touch(self, planned: Transaction) -> None:
        """An update that changes nothing."""
        student = self._some_student(planned)
        planned.do("UPDATE student SET email = email WHERE id = %s", student["id"])

    def _regrade(self, planned: Transaction) -> None:
        student, before, course = self._some_link(planned)
        after = {**before, "grade": "3.5" if before["grade"] != "3.5" else None}
        planned.do("UPDATE enrolment SET grade = %s WHERE id = %s", after["grade"], before["id"])
        planned.effects.append(((ENROLMENT, before["id"]), after))
        planned.happened.append({**updated(ENROLMENT, before, after), "student": student, "course": course})

    def _edit_course(self, planned: Transaction) -> None:
        before = self._some(COURSE)
        self._hold(planned, (COURSE, before["id"]))
        after = {**before, "teacher": self._text("teacher")}
        planned.do("UPDATE course SET teacher = %s WHERE id = %s", after["teacher"], before["id"])
        planned.effects.append(((COURSE, before["id"]), after))
        planned.happened.append(updated(COURSE, before, after))

    def _rekey_student(self, planned: Transaction) -> None:
        """The database changes the links in the same transaction."""
        before = self._some_student(planned)
        after = {**before, "id": self._key()}
        planned.do("UPDATE student SET id = %s WHERE id = %s", after["id"], before["id"])
        planned.effects += [((STUDENT, before["id"]), None), ((STUDENT, after["id"]), after)]
        for link in self._links_of(before):
            planned.effects.append(((ENROLMENT, link["id"]), {**link, "student_id": after["id"]}))
        planned.happened.append(updated(STUDENT, before, after))

    def _rekey_course(self, planned: Transaction) -> None:
        """Its students must be free, as the database changes all of its links."""
        before = self._some(COURSE)
        links = [link for link in self.rows[ENROLMENT].values() if link["course_id"] == before["id"]]
        self._hold(planned, (COURSE, before["id"]), *{(STUDENT, link["student_id"]) for link in links})
        after = {**before, "id": self._key()}
        planned.do("UPDATE course SET id = %s WHERE id = %s", after["id"], before["id"])
        planned.effects += [((COURSE, before["id"]), None), ((COURSE, after["id"]), after)]
        for link in links:
            planned.effects.append(((ENROLMENT, link["id"]), {**link, "course_id": after["id"]}))
        planned.happened.append(updated(COURSE, before, after))

    def _expel(self, planned: Transaction) -> None:
        """The database removes the links in the same transaction."""
        student = self._some_student(planned)
        planned.do("DELETE FROM student WHERE id = %s", student["id"])
        planned.effects.append(((STUDENT, student["id"]), None))
        planned.happened.append({"type": "deleted", "table": STUDENT, "before": student})
        for link in self._links_of(student):
            planned.effects.append(((ENROLMENT, link["id"]), None))
            planned.happened.append(withdrawn(student, self._course_of(planned, link), link))

    def _vanish(self, planned: Transaction) -> None:
        student = self._new_student()
        planned.statements.append(insert(STUDENT, student))
        planned.do("DELETE FROM student WHERE id = %s", student["id"])

    def _create_and_edit(self, planned: Transaction) -> None:
        student = self._new_student()
        planned.statements.append(insert(STUDENT, student))
        after = {**student, "email": self._text("email")}
        planned.do("UPDATE student SET email = %s WHERE id = %s", after["email"], student["id"])
        planned.effects.append(((STUDENT, student["id"]), after))
        planned.happened.append({"type": "created", "table": STUDENT, "after": after})

    def _give_up_a_part(self, planned: Transaction) -> None:
        """What is rolled back to a savepoint never happened. One statement, as other intents come between others."""
        course, given_up = self._new_course(), self._new_course()
        planned.statements.append(insert(COURSE, course))
        name = f"s{given_up['id']}"
        given = f"{given_up['id']}, '{given_up['title']}', '{given_up['teacher']}'"
        planned.do(f"SAVEPOINT {name}; INSERT INTO course VALUES ({given}); ROLLBACK TO {name}")
        planned.effects.append(((COURSE, course["id"]), course))
        planned.happened.append({"type": "created", "table": COURSE, "after": course})

    def _note(self, planned: Transaction) -> None:
        """A table that the service does not know."""
        planned.do("INSERT INTO audit (note) VALUES (%s)", self._text("note"))

    def _copy(self, planned: Transaction) -> None:
        if not self.copies:
            raise Busy
        students = [self._new_student() for _ in range(self._chance.randint(2, 20))]
        rows = tuple(tuple(student.values()) for student in students)
        planned.statements.append(Statement("COPY student FROM STDIN", copied=rows))
        planned.copies = True
        for student in students:
            planned.effects.append(((STUDENT, student["id"]), student))
            planned.happened.append({"type": "created", "table": STUDENT, "after": student})


def insert(table: str, row: Row) -> Statement:
    return Statement(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", tuple(row.values()))


def enrolled(student: Row, course: Row, link: Row) -> Event:
    return {"type": "enroll", "table": ENROLMENT, "student": student, "course": course, "link": link}


def withdrawn(student: Row, course: Row, link: Row) -> Event:
    return {"type": "withdraw", "table": ENROLMENT, "student": student, "course": course, "link": link}


def changed_course(student: Row, old: Row, new: Row, link: Row) -> Event:
    return {"type": "change", "table": ENROLMENT, "student": student, "from": old, "to": new, "link": link}


def updated(table: str, before: Row, after: Row) -> Event:
    changed = ["key"] if before["id"] != after["id"] else []
    changed += [name for name in sorted(before) if before[name] != after[name]]
    return {"type": "updated", "table": table, "before": before, "after": after, "changed": changed}

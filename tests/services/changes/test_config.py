"""A configuration is checked at the start, with one line for each mistake."""

from __future__ import annotations

import pytest

from moneystate.errors import ServiceError
from services.changes.config import Config, Names, Reference, Table
from services.changes.service import changes
from tests.services.changes.driver import TABLES, config

STUDENT, COURSE, ENROLMENT, _ = TABLES
WRONG: dict[str, Config] = {
    "connector is missing": config(connector=""),
    "root: 'pupil' is none of the tables": config(root="pupil"),
    "table 'student': key is []": config(tables=(Table("student"), *TABLES[1:])),
    "table 'course': the name is given 2 times": config(tables=(*TABLES, COURSE)),
    "table 'enrolment': it has one of student and course": config(
        tables=(STUDENT, COURSE, Table("enrolment", ("id",), student=ENROLMENT.student))
    ),
    "table 'enrolment': course: 'lesson' is none of the tables": config(
        tables=(STUDENT, Table("enrolment", ("id",), student=ENROLMENT.student, course=Reference("lesson", ("id",))))
    ),
    "course: expected 1 columns for the key of 'course', found []": config(
        tables=(STUDENT, COURSE, Table("enrolment", ("id",), student=ENROLMENT.student, course=Reference("course")))
    ),
    "student: 'course' is not the root": config(
        tables=(STUDENT, COURSE, Table("enrolment", ("id",), student=ENROLMENT.course, course=ENROLMENT.course))
    ),
    "topic 'uni.transaction' is given twice": config(heartbeat_topic="uni.transaction"),
    "names: 'enroll' is given twice": config(names=Names(withdraw="enroll")),
    "names: '}' is no name": config(names=Names(enroll="}")),
    "transaction_wait is 0 ms": config(transaction_wait_ms=0),
    "settle is 0 ms": config(settle_ms=0),
    "wait is -1 ms": config(wait_ms=-1),
    "duplicate_retention is 0 ms": config(duplicate_retention_ms=0),
    "arrival_bound is -1 ms": config(arrival_bound_ms=-1),
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_mistake_is_one_line_that_says_what_to_do(problem: str) -> None:
    with pytest.raises(ServiceError) as refused:
        changes(WRONG[problem])
    lines = [line for line in str(refused.value).splitlines() if problem in line]
    assert len(lines) == 1
    assert " Do: " in lines[0]


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ServiceError) as refused:
        changes(config(connector="", root="", transaction_wait_ms=-1))
    assert len(str(refused.value).splitlines()) == 3


def test_without_tables_nothing_starts() -> None:
    assert changes(Config()).unfit is not None
    assert changes(config()).unfit is None

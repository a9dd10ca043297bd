"""The topics of rows are what `moneystate apply` reads, configured as docs/changes.md says."""

from __future__ import annotations

import json

from moneystate.apply.column_types import Column, ColumnType
from moneystate.apply.config import Mode
from moneystate.apply.decoding import decoder
from moneystate.apply.records import Record
from moneystate.apply.row_changes import RowChange, RowDelete, RowPlan, RowPut
from services.changes.records import ChangedRow
from tests.services.changes.story import Story

TEXT, INT = ColumnType("text"), ColumnType("int8")


def as_record(key: str, row: ChangedRow | None) -> Record:
    value = None if row is None else {"type": "ChangedRow", "key": row.key, "row": json.loads(row.row.text)}
    return Record("t", 0, 0, key.encode(), None if value is None else json.dumps(value).encode())


def changes_of(story: Story, table: str, plan: RowPlan) -> list[RowChange | None]:
    rows = story.driver.bench.keyed(story.driver.changes.row_outputs[table])
    return [plan.change(as_record(key, row)) for key, row in rows]


def plan_of(columns: list[Column], paths: dict[str, str], key: tuple[str, ...]) -> RowPlan:
    return RowPlan(columns, paths, key, Mode.upsert, decoder("t", "json", "", "", "", ""), remove_nul=False)


def test_rows_become_rows_of_another_database() -> None:
    story = Story(rows=True)
    story.send(story.transaction(story.rename("Eva", id=7)))
    booking = {"student_id": 7, "course_id": 2, "seat": "A"}
    story.send(story.transaction(lambda t: story.db.insert(t, "booking", booking, student=None, course=None)))
    students = plan_of(
        [Column("row_key", TEXT), Column("id", INT), Column("name", TEXT)],
        {"row_key": "key", "id": "row.id", "name": "row.name"}, ("key",),
    )  # fmt: skip
    assert changes_of(story, "student", students) == [
        RowPut(("[1]",), ["[1]", "1", "Eve"]), RowDelete(("[1]",)), RowPut(("[7]",), ["[7]", "7", "Eva"]),
    ]  # fmt: skip
    bookings = plan_of(
        [Column("student_id", INT), Column("course_id", INT), Column("seat", TEXT)],
        {"student_id": "row.student_id", "course_id": "row.course_id", "seat": "row.seat"},
        ("row.student_id", "row.course_id"),
    )  # fmt: skip
    assert changes_of(story, "booking", bookings) == [RowPut(("7", "2"), ["7", "2", "A"])]

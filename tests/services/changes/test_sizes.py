"""What a step reads and what a record holds do not depend on how many rows there are."""

from __future__ import annotations

from typing import Any

from tests.services.changes.story import Story


def loaded(students: int) -> Story:
    """With so many students and links."""
    story = Story(cuts="one")
    t = story.db.begin()
    for id in range(100, 100 + students):
        uid = story.db.insert(t, "student", {"id": id, "name": "x", "bio": None})
        columns = {"id": id, "student_id": id, "course_id": 1, "grade": None}
        story.db.insert(t, "enrolment", columns, student=uid, course=story.physics)
    story.db.commit(t, 1)
    story.send(story.snapshot(list(story.db.rows.values())))
    assert story.told() == []
    return story


class Reads:
    """Counts the entries that steps read."""

    def __init__(self, states: Any) -> None:
        self.entries = 0
        for state in states:
            state.get_many = self._counted(state.get_many)
            state.scan = self._counted(state.scan)

    def _counted(self, read: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            entries = list(read(*arguments))
            self.entries += len(entries)
            return entries

        return counted


def read_by_a_transaction(students: int) -> tuple[int, int]:
    """How many entries one transaction reads, and the size of the largest."""
    story = loaded(students)
    states = story.driver.bench.run.sim.states
    reads = Reads(states)
    story.send(story.transaction(story.rename("Eva"), story.choose(story.maths)))
    assert story.told() == ["updated TRANSACTION", "change TRANSACTION"]
    return reads.entries, max(len(entry) for state in states for entry in state.entries.values())


def test_a_step_reads_no_more_than_its_rows() -> None:
    few, many = read_by_a_transaction(100), read_by_a_transaction(400)
    assert few[0] == many[0]
    assert many[1] < 20_000

"""What a step reads and what a record holds do not depend on how many rows there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moneystate.engine.state import MemoryState
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


class CountedState:
    """A state that counts the entries that are read from it. The state itself is compiled, so nothing can be put into
    it."""

    def __init__(self, state: MemoryState) -> None:
        self.state = state
        self.read = 0
        self.apply = state.apply

    @property
    def entries(self) -> dict[bytes, bytes]:
        return self.state.entries

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.read += len(keys)
        return self.state.get_many(keys)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        entries = list(self.state.scan(prefix))
        self.read += len(entries)
        return iter(entries)


def read_by_a_transaction(students: int) -> tuple[int, int]:
    """How many entries one transaction reads, and the size of the largest."""
    story = loaded(students)
    states: list[Any] = story.driver.bench.run.sim.states
    states[:] = [CountedState(state) for state in states]
    story.send(story.transaction(story.rename("Eva"), story.choose(story.maths)))
    assert story.told() == ["updated TRANSACTION", "change TRANSACTION"]
    return sum(state.read for state in states), max(len(entry) for state in states for entry in state.entries.values())


def test_a_step_reads_no_more_than_its_rows() -> None:
    few, many = read_by_a_transaction(100), read_by_a_transaction(400)
    assert few[0] == many[0]
    assert many[1] < 20_000

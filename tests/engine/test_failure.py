"""A step that fails: which record, which line."""

from __future__ import annotations

import pytest

from moneystate.engine.effects import Effects
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.items import TIMER_RANK, Item
from moneystate.engine.keygroup import _run_due
from moneystate.errors import StepError
from tests.engine.tiny import Tiny


class Failing(Tiny):
    def step(self, item: Item, parsed: int | None, effects: Effects) -> None:
        if item[5] == 7:
            raise ZeroDivisionError("in two\nlines")
        if item[5] == 8:
            raise StepError("of a service that says where.")


def failed(rank: int, offset: int) -> StepFailed:
    item: Item = (1, rank, 0, 1, 3, offset, 1, b"key", b"value")
    with pytest.raises(StepFailed) as caught:
        _run_due([item], [None], Failing([], []), Effects(), 10, [], None)
    return caught.value


def test_the_record_the_exception_and_the_line_are_named() -> None:
    told = str(step_error(failed(0, 7), {1: "alpha"}))
    assert told.startswith("alpha, partition 3, offset 7: ")
    assert "its step raised ZeroDivisionError: in two lines" in told
    assert "test_failure.py, line 1" in told
    assert "\n" not in told


def test_a_timer_is_named_by_the_record_that_set_it() -> None:
    assert "the step of a timer that it set" in str(step_error(failed(TIMER_RANK, 7), {}))


def test_an_error_that_says_where_by_itself_is_left_as_it_is() -> None:
    item: Item = (1, 0, 0, 1, 3, 8, 1, b"key", b"value")
    with pytest.raises(StepError, match="of a service"):
        _run_due([item], [None], Failing([], []), Effects(), 10, [], None)

"""A question of the demo that gets no answer ends in one line that says what to do."""

from __future__ import annotations

import os

import pytest

from moneystate.errors import JobError
from services.enrichment.demo import questions


def test_a_question_that_takes_too_long_is_one_line_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "COMMAND_S", 0.01)  # no command starts that fast
    with pytest.raises(JobError, match=r"ask enrichment status: expected an answer within .* Do: ") as refused:
        questions._answer(("status",), "127.0.0.1:1", os.environ)
    assert "\n" not in str(refused.value)


def test_a_question_that_fails_is_one_line() -> None:
    with pytest.raises(JobError, match=r"moneystate ask enrichment get: expected an answer, found .* Do: ") as refused:
        questions._answer(("get",), "127.0.0.1:1", os.environ)
    assert "\n" not in str(refused.value)

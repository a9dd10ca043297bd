"""What other systems than the log get to know of an error."""

from __future__ import annotations

import pytest

from moneystate.engine.failure import StepFailed, step_error
from moneystate.errors import InstanceError, JobError, MoneystateError
from moneystate.job.failures import outline

PRIVATE = "eve raised 7"


@pytest.mark.parametrize("timer", [False, True])
def test_a_failed_step_is_told_without_its_message(timer: bool) -> None:
    failure = step_error(StepFailed(3, 1, 9, timer, KeyError(PRIVATE)), {3: "shop.orders"})
    assert outline(failure) == "StepError: shop.orders, partition 1, offset 9: its step raised KeyError"


@pytest.mark.parametrize("text", [PRIVATE, f"shop.orders, partition 1, offset 9: expected a value, found {PRIVATE}"])
def test_any_other_failure_of_a_batch_is_told_without_its_text(text: str) -> None:
    failure = JobError(text)
    assert outline(failure) == "JobError: the job's log has more"
    failure.about = {"version": "epoch/7"}
    assert outline(failure) == "JobError: batch epoch/7 failed; the job's log has more"


def test_a_refusal_is_told_as_it_is() -> None:
    refusal: MoneystateError = InstanceError("another instance runs.", "stop one.")
    assert outline(refusal) == "InstanceError: another instance runs. Do: stop one."

"""A failed step: the exception and the place."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from moneystate.errors import StepError


class StepFailed(Exception):
    """A step raised an error."""

    def __init__(self, topic: int | str, partition: int, offset: int, timer: bool, cause: Exception) -> None:
        super().__init__(topic, partition, offset, timer)
        self.topic = topic  # its number in items, or its name
        self.partition = partition
        self.offset = offset
        self.timer = timer  # True: a timer that the record set raised it, not the record's own step
        self.cause = cause  # the error (compiled code does not keep `__cause__`)


def step_error(failed: StepFailed, topics: Mapping[int, str]) -> StepError:
    """The error for the user. `topics`: names by their number in items."""
    cause = failed.cause
    step = "the step of a timer that it set" if failed.timer else "its step"
    topic = failed.topic if isinstance(failed.topic, str) else topics.get(failed.topic, failed.topic)
    return StepError(
        f"{topic}, partition {failed.partition}, offset {failed.offset}: expected a "
        f"record that the service can process, {step} raised {_one_line(cause)} ({_line(cause)}).",
        "fix the program and start it again with the same folder and flags.",
    )


def _one_line(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def _line(cause: Exception) -> str:
    frames = traceback.extract_tb(cause.__traceback__)
    if not frames:
        return "at a line that is not known"
    last = frames[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}"

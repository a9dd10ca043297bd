"""Locates a failed step: the record, and the line of the service's code."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moneystate.engine.items import Item
from moneystate.engine.place import topic_of, where
from moneystate.errors import MoneystateError

if TYPE_CHECKING:
    from moneystate.runtime.plan import Plan

_PARTS: Final = ("api", "records", "runtime", "engine", "testing", "cli", "schemas", "serving", "replica", "ingest")
_PLATFORM: Final = (*[f"moneystate/{part}/" for part in _PARTS], "<generated")  # compiled modules have relative paths
EXCEPTION: Final = "exception"  # the reason of a dead letter
ADVICE: Final = (
    "fix the code and run the same command again: it repeats the batch. "
    "With --on-error dead-letter, such records become dead letters."
)


def where_of(plan: Plan, item: Item) -> tuple[str, int, int]:
    """Topic, partition and offset of an event. For a timer: of the event that set it."""
    partition, offset = where(item)
    return topic_of(item, plan.topics), partition, offset


def failure(plan: Plan, item: Item, function: str, error: Exception) -> tuple[str, str]:
    """The message and the advice for a failed step."""
    return failed_at(*where_of(plan, item), function, error)


def line_of(error: Exception) -> str:
    """` at FILE:LINE`, of the service's code; empty: no line of it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(part in Path(f.filename).as_posix() for part in _PLATFORM)]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def failed_at(topic: str, partition: int, offset: int, function: str, error: Exception) -> tuple[str, str]:
    """Does the same for a function that reads a Kafka record."""
    location = line_of(error)
    message = " ".join(str(error).split())
    problem = message if isinstance(error, MoneystateError) else f"{type(error).__name__}: {message.rstrip('.')}."
    return (
        f"{topic}, partition {partition}, offset {offset}: {function}{location}: {problem}",
        "" if " Do: " in message else ADVICE,
    )

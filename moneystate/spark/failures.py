"""Turns Spark's exceptions into one line for the user."""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from moneystate import errors
from moneystate.errors import JobError, MoneystateError

_OURS = re.compile(r"moneystate\.(?:errors|kafka\.formats\.registry)\.(\w+): ([^\n]+)")
_THEIRS = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)*\w+(?:Error|Exception): (?!Traceback).+)$", re.MULTILINE)


def as_one_line(e: Exception, log: Path | None = None) -> MoneystateError:
    """The project's own error inside Spark's exception; otherwise the innermost error in it."""
    if isinstance(e, MoneystateError):
        return e
    if isinstance(e, (ConnectionError, Py4JNetworkError)):
        return JobError("the Spark job failed: its JVM has died.", _advice(log))
    text = str(e)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return getattr(errors, name, JobError)(message)
    lines = _THEIRS.findall(text) or [line.strip() for line in text.splitlines() if line.strip()][:1]
    problem = lines[-1] if lines else type(e).__name__
    return JobError(f"the Spark job failed: {problem}", _advice(log))


def _advice(log: Path | None) -> str:
    return f"see {log or 'the log'}; start again once the cause is removed."

"""Turns Spark's exceptions into one line for the user."""

from __future__ import annotations

import re
from pathlib import Path

from moneystate import errors
from moneystate.errors import JobError, MoneystateError

_OURS = re.compile(r"moneystate\.(?:errors|kafka\.formats\.registry)\.(\w+): ([^\n]+)")
_THEIRS = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)*\w+(?:Error|Exception): (?!Traceback).+)$", re.MULTILINE)

_NO_JVM = "Py4JNetworkError"  # by its name: a job without Spark does not load py4j
_RAISED = re.compile(r"expected a record that the service can process, [a-z ]+ raised (\w+)")
_PLACE = re.compile(r"^(\S+), partition (\d+), offset (\d+): ")


def place(failure: MoneystateError) -> dict[str, object]:
    """The record that the error is about, as fields of the log. Spark brings nothing but the text of an error."""
    named = _PLACE.match(failure.message)
    return {"topic": named[1], "partition": int(named[2]), "offset": int(named[3])} if named else {}


def as_one_line(e: Exception, log: Path | None = None) -> MoneystateError:
    """The project's own error inside Spark's exception; otherwise the innermost error in it."""
    if isinstance(e, MoneystateError):
        return e
    if isinstance(e, ConnectionError) or type(e).__name__ == _NO_JVM:
        return JobError("the Spark job failed: its JVM has died.", _advice(log))
    text = str(e)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return getattr(errors, name, JobError)(message)
    lines = _THEIRS.findall(text) or [line.strip() for line in text.splitlines() if line.strip()][:1]
    problem = lines[-1] if lines else type(e).__name__
    return JobError(f"the Spark job failed: {problem}", _advice(log))


def outline(failure: MoneystateError) -> str:
    """An error in words that have no value of a record, for other systems than the log."""
    kind = type(failure).__name__
    if not isinstance(failure, JobError):
        return f"{kind}: {failure}"
    named, raised = _PLACE.match(failure.message), _RAISED.search(failure.message)
    if named is not None and raised is not None:
        return f"{kind}: {named[0]}its step raised {raised[1]}"
    version = failure.about.get("version")
    return f"{kind}: batch {version} failed; the job's log has more" if version else f"{kind}: the job's log has more"


def _advice(log: Path | None) -> str:
    return f"see {log or 'the log'}; start again once the cause is removed."

"""`python -m tests.bench.start_phases FILE ARGUMENTS...`: the command `moneystate`, which notes in FILE when it reaches
each phase of its start, as JSON {phase: seconds since the epoch}."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

BEGUN, IMPORTED, CHECKED = "JVM begun", "imports done", "checks done, claimed"
JVM, SESSION = "JVM answers", "Spark session"
STARTED, PLANNED, COMMITTED = "query started", "first batch planned", "first batch committed"

_reached: dict[str, float] = {}


def _note(phase: str, file: Path) -> None:
    _reached.setdefault(phase, time.time())
    file.write_text(json.dumps(_reached))


def _after(owner: Any, name: str, note: Callable[[], None]) -> None:
    """Lets `owner.name` call `note` when it returns."""
    inner = getattr(owner, name)

    @wraps(inner)
    def noted(*arguments: Any, **named: Any) -> Any:
        result = inner(*arguments, **named)
        note()
        return result

    setattr(owner, name, noted)


def _before(owner: Any, name: str, note: Callable[[], None]) -> None:
    inner = getattr(owner, name)

    @wraps(inner)
    def noted(*arguments: Any, **named: Any) -> Any:
        note()
        return inner(*arguments, **named)

    setattr(owner, name, noted)


def _watch(out: Path) -> None:
    """Called where the command itself imports these modules."""
    _note(BEGUN, out)
    from moneystate.cli import running  # noqa: F401
    from moneystate.job import preparation
    from moneystate.spark import job, session

    _note(IMPORTED, out)
    _after(preparation.Preparation, "run", lambda: _note(CHECKED, out))
    _after(session, "connected", lambda: _note(JVM, out))
    _after(job, "open_session", lambda: _note(SESSION, out))
    _after(job.Job, "start", lambda: _note(STARTED, out))
    _before(job, "run_sink", lambda: _note(PLANNED, out))
    _after(job, "run_sink", lambda: _note(COMMITTED, out))


def main() -> None:
    file, *arguments = sys.argv[1:]
    out = Path(file)
    sys.argv = ["moneystate", *arguments]
    from moneystate.cli import run
    from moneystate.cli.main import main as command

    _after(run, "begin_run", lambda: _watch(out))
    command()


if __name__ == "__main__":
    main()

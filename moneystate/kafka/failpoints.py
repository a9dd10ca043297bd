"""Failpoints: places where a test can hold the job, to kill it there or to do something to it before it goes on.

`MONEYSTATE_PAUSE_AT` names a step as `<step>@<batch>`, or as `<step>` for any batch, or `@FILE` for what the file says
at that time. The process that reaches the step writes the file `MONEYSTATE_PAUSE_FILE`. It waits to be killed, or until
the file's text is `go`; then it passes all failpoints. Without the variable a failpoint costs one read of the
environment.

A test that runs the job in its own process sets `REACHED.step` instead, and raises there what ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

GO = "go"
POLL_S = 0.02


class _Reached:
    """`step` is called with each step that this process reaches, and its batch."""

    step: Callable[[str, int], None] | None = None


REACHED = _Reached()


def failpoint(step: str, batch: int) -> None:
    if REACHED.step is not None:
        REACHED.step(step, batch)
    asked = os.environ.get("MONEYSTATE_PAUSE_AT")
    if asked is None or _named(asked) not in (step, f"{step}@{batch}"):
        return
    file = Path(os.environ["MONEYSTATE_PAUSE_FILE"])
    if not _goes(file):
        file.write_text(f"{step}@{batch}")
    while not _goes(file):
        time.sleep(POLL_S)


def _named(asked: str) -> str:
    return Path(asked[1:]).read_text() if asked.startswith("@") else asked


def _goes(file: Path) -> bool:
    return file.exists() and file.read_text() == GO

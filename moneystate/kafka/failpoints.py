"""Failpoints: places where a test can pause the job in order to kill it.

`MONEYSTATE_PAUSE_AT=<step>@<batch>` and `MONEYSTATE_PAUSE_FILE`: on reaching that step of that batch the process writes
the file and waits to be killed. Without the variable a place costs one look at the environment.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def failpoint(step: str, batch: int) -> None:
    if os.environ.get("MONEYSTATE_PAUSE_AT") != f"{step}@{batch}":
        return
    Path(os.environ["MONEYSTATE_PAUSE_FILE"]).write_text(f"{step}@{batch}")
    while True:
        signal.pause()

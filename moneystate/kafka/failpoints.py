"""Failpoints: places where a test can pause the job in order to kill it.

With `MONEYSTATE_PAUSE_AT=<step>@<batch>` and `MONEYSTATE_PAUSE_FILE` set, the process writes the file when it reaches
that step of that batch, and waits to be killed. Without the variables a failpoint costs one read of the environment.
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

"""`moneystate demo apply` as a user runs it: both servers, two processes and a kill, which no lower level has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.demo.test_demo import environment, started_in

RUN_S = 170


def test_all_promises_are_held_and_nothing_is_left_over(tmp_path: Path) -> None:
    folder = tmp_path / "temp folder"
    folder.mkdir()
    command = [sys.executable, "-m", "moneystate.cli.main", "demo", "apply"]
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 promises held." in done.stdout
    assert "BROKEN" not in done.stdout
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []

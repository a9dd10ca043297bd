"""A demo as a user runs it: what it says, and that nothing of it is left over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.demo.test_demo import environment, started_in

RUN_S = 170


def check_demo(name: str, tmp_path: Path, held: str) -> None:
    """`held`: what the demo says at its end."""
    folder = tmp_path / "temp folder"
    folder.mkdir()
    command = [sys.executable, "-m", "moneystate.cli.main", "demo", name]
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert held in done.stdout
    assert "BROKEN" not in done.stdout
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []

"""`moneystate demo changes` as a user runs it: PostgreSQL, Debezium that is killed, the broker and the job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.test_demo import environment, started_in

pytestmark = pytest.mark.long
RUN_S = 170


def test_all_stories_are_held_and_nothing_is_left_over(tmp_path: Path) -> None:
    folder = tmp_path / "temp folder"
    folder.mkdir()
    command = [sys.executable, "-m", "moneystate.cli.main", "demo", "changes"]
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 stories held." in done.stdout
    assert "BROKEN" not in done.stdout
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []

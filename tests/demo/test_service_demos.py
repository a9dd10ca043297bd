"""`moneystate demo SERVICE` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.test_demo import environment, started_in

RUN_S = 170
STORIES = {
    "joining": "5 stories",  # the first one has a dead letter
    "entities": "5 stories",
    "reconciliation": "7 stories",
    "stock": "5 stories",
}  # and sequencing in test_wheel.py


def each_service() -> list[object]:
    """The others end as the first one does, and what they say is held in tests/services."""
    first, *others = STORIES
    return [first, *[pytest.param(name, marks=pytest.mark.long) for name in others]]


@pytest.mark.parametrize("service", each_service())
def test_all_stories_are_held_and_nothing_is_left_over(service: str, tmp_path: Path) -> None:
    folder = tmp_path / "temp folder"
    folder.mkdir()
    command = [sys.executable, "-m", "moneystate.cli.main", "demo", service]
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{STORIES[service]} held." in done.stdout
    assert "BROKEN" not in done.stdout
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []

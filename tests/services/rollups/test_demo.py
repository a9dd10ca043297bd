"""`moneystate demo rollups` with fewer devices: the whole way through broker, job, replica and pictures, which no lower
level takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.test_demo import environment, started_in

pytest.importorskip("matplotlib")
RUN_S = 800


@pytest.mark.long
def test_all_stories_are_held_and_nothing_but_pictures_is_left(tmp_path: Path) -> None:
    temporary, pictures = tmp_path / "temp folder", tmp_path / "pictures"
    temporary.mkdir()
    pictures.mkdir()
    command = [sys.executable, "-c", "from services.rollups.demo import demo; raise SystemExit(not demo(10))"]
    done = subprocess.run(
        command, env=environment(temporary), cwd=pictures, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=RUN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 stories held." in done.stdout
    names = sorted(file.name for file in pictures.iterdir())
    assert names == ["rollups-device-0.svg", "rollups-device-5.svg", "rollups-device-9.svg"]
    assert list(temporary.iterdir()) == []
    assert started_in(temporary) == []

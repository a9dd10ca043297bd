"""Folders of entry caches: those of workers that are gone are removed, on any system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moneystate.job import entry_cache
from moneystate.job.entry_cache import PREFIX

EXISTS = Path.exists


def test_a_new_worker_removes_what_those_before_left_and_nothing_of_those_that_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is no /proc, as on macOS."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(Path, "exists", lambda path: "/proc" not in str(path) and EXISTS(path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine, left = tmp_path / f"{PREFIX}{os.getpid()}-a", tmp_path / f"{PREFIX}{gone.pid}-b"
    for folder in (mine, left):
        folder.mkdir()
    made = entry_cache._folder()
    assert set(tmp_path.iterdir()) == {mine, made}

"""`moneystate demo apply` as a user runs it: both servers, two processes and a kill, which no lower level has."""

from __future__ import annotations

from pathlib import Path

from tests.demo.running import check_demo


def test_all_promises_are_held_and_nothing_is_left_over(tmp_path: Path) -> None:
    check_demo("apply", tmp_path, "4 promises held.")

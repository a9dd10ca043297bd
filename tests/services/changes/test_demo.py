"""`moneystate demo changes` as a user runs it: PostgreSQL, Debezium that is killed, the broker and the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.demo.running import check_demo

pytestmark = pytest.mark.long


def test_all_stories_are_held_and_nothing_is_left_over(tmp_path: Path) -> None:
    check_demo("changes", tmp_path, "6 stories held.")

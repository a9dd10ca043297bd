"""`moneystate demo SERVICE` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.demo.running import check_demo

STORIES = {
    "joining": "5 stories",  # the first one has a dead letter
    "entities": "5 stories",
    "reconciliation": "7 stories",
    "stock": "5 stories",
    "delivery": "7 promises",
}  # and sequencing in test_wheel.py


def each_service() -> list[object]:
    """The others end as the first one does, and what they say is held in tests/services."""
    first, *others = STORIES
    return [first, *[pytest.param(name, marks=pytest.mark.long) for name in others]]


@pytest.mark.parametrize("service", each_service())
def test_all_stories_are_held_and_nothing_is_left_over(service: str, tmp_path: Path) -> None:
    check_demo(service, tmp_path, f"{STORIES[service]} held.")

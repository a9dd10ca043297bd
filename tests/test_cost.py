"""The end of a run says what its tests cost."""

from __future__ import annotations

import pytest

from tests.budget import VARIABLE, examples
from tests.cost import cost_lines


def report(test: str, seconds: float, when: str = "call") -> pytest.TestReport:
    return pytest.TestReport(test, ("", 0, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_the_slowest_files_and_the_tests_above_the_limit_are_named() -> None:
    reports = [report("a.py::one", 1.5), report("b.py::two", 21), report("b.py::two", 4, "setup")]
    assert list(cost_lines(reports)) == [
        "26 s in 2 files, the slowest:",
        "   25.0 s  b.py",
        "    1.5 s  a.py",
        "above 20 s: b.py::two (21.0 s)",
    ]


def test_a_short_run_says_nothing() -> None:
    assert list(cost_lines([report("a.py::one", 9)])) == []


@pytest.mark.parametrize(("budget", "tried"), [("", 33), ("all", 100)])
def test_a_property_has_all_its_examples_where_they_are_asked_for(
    budget: str, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, budget)
    assert examples(100) == tried
    assert examples(6) == 6

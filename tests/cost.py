"""What the tests cost: the end of each run names the slowest files, the total, and the tests above the limit.

It prints and fails nothing, since a busy machine is no failure. CONTRIBUTING.md says what a test may cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

SLOWEST = 10
LIMIT_S = 20.0  # of one test with what only it sets up
WORTH_TELLING_S = 10.0  # a run of some tests by hand tells nothing


def cost_lines(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """The lines for these reports. The time of set-up and teardown counts for the test that caused it."""
    by_file: Counter[str] = Counter()
    by_test: Counter[str] = Counter()
    for report in reports:
        by_file[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
        if report.when == "call":
            by_test[report.nodeid] += report.duration  # type: ignore[assignment]
    total_s = sum(by_file.values())
    if total_s < WORTH_TELLING_S:
        return
    yield f"{total_s:.0f} s in {len(by_file)} files, the slowest:"
    for file, seconds in by_file.most_common(SLOWEST):
        yield f"{seconds:7.1f} s  {file}"
    for test, seconds in by_test.most_common():
        if seconds > LIMIT_S:
            yield f"above {LIMIT_S:.0f} s: {test} ({seconds:.1f} s)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in terminalreporter.stats.values() for r in kind if isinstance(r, pytest.TestReport)]
    for line in cost_lines(reports):
        terminalreporter.write_line(line)

"""The breaker of an endpoint: it keeps workers from sending to an endpoint that does not answer.

    CLOSED --10 failures in a row--> OPEN --a probe succeeds--> CLOSED, slowly at first
    OPEN or CLOSED --failing for 5 days--> DISABLED (a warning comes before)
    any --410--> DISABLED
    DISABLED --a newer row of the endpoint--> CLOSED

While it is open, one message at a time is tried as a probe, which is not counted as an attempt of that message. The
wait before a probe doubles from 1 s to 5 min. After it has closed, messages are sent at a rate that
doubles from 1 a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from moneystate.deliver.outcomes import DAY_MS, MINUTE_MS, SECOND_MS, Verdict

FAILURES_TO_OPEN: Final = 10
FIRST_PROBE_MS: Final = SECOND_MS
LONGEST_PROBE_MS: Final = 5 * MINUTE_MS
DISABLE_AFTER_MS: Final = 5 * DAY_MS
WARN_AFTER_MS: Final = 4 * DAY_MS
FIRST_RATE: Final = 1.0  # messages a second after it has closed
FULL_RATE_AFTER_MS: Final = 16 * SECOND_MS  # 65,536 a second: no limit any more


class Status(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    DISABLED = "DISABLED"


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of an endpoint's breaker. Each change is a new value."""

    status: Status = Status.CLOSED
    failures: int = 0  # in a row
    failing_since_ms: int | None = None  # the first of them
    probe_due_ms: int = 0  # while it is open
    probe_wait_ms: int = FIRST_PROBE_MS
    closed_at_ms: int | None = None  # when it closed after it was open
    is_warned: bool = False
    reason: str = ""  # why it is disabled
    row_offset: int = -1  # the offset of the endpoint's row that it was disabled under

    def after(self, result: Verdict, now_ms: int, row_offset: int) -> Breaker:
        """The breaker after an attempt. `row_offset`: of the row that the attempt was made with."""
        if self.status is Status.DISABLED:
            return self
        if result is Verdict.GONE:
            return self._disabled("410", row_offset)
        if result is Verdict.FAILED:
            return self._failed(now_ms, row_offset)
        if result is Verdict.DELIVERED:
            return self._worked(now_ms)
        # HELD and REFUSED say nothing of the endpoint. The next probe takes another message.
        return replace(self, probe_due_ms=now_ms + self.probe_wait_ms) if self.status is Status.OPEN else self

    def with_row(self, row_offset: int) -> Breaker:
        """A row newer than the one it was disabled under makes it begin again."""
        return Breaker() if self.status is Status.DISABLED and row_offset > self.row_offset else self

    def may_probe(self, now_ms: int) -> bool:
        return self.status is Status.OPEN and now_ms >= self.probe_due_ms

    def rate(self, now_ms: int) -> float:
        """Messages a second that may be sent. `inf`: as many as there are."""
        if self.status is not Status.CLOSED:
            return 0.0
        if self.closed_at_ms is None or now_ms - self.closed_at_ms >= FULL_RATE_AFTER_MS:
            return float("inf")
        return FIRST_RATE * 2.0 ** (max(0, now_ms - self.closed_at_ms) // SECOND_MS)

    def _failed(self, now_ms: int, row_offset: int) -> Breaker:
        since = now_ms if self.failing_since_ms is None else self.failing_since_ms
        failures = self.failures + 1
        # One failure 5 days ago and one now are not 5 days of failing.
        is_failing = failures >= FAILURES_TO_OPEN
        if is_failing and now_ms - since >= DISABLE_AFTER_MS:
            return self._disabled("failing", row_offset)
        warned = self.is_warned or (is_failing and now_ms - since >= WARN_AFTER_MS)
        if self.status is Status.OPEN:
            wait = min(self.probe_wait_ms * 2, LONGEST_PROBE_MS)
            due = now_ms + wait
            return replace(
                self, failures=failures, probe_due_ms=due, probe_wait_ms=wait, is_warned=warned, failing_since_ms=since
            )
        if failures < FAILURES_TO_OPEN:
            return replace(self, failures=failures, failing_since_ms=since, is_warned=warned)
        return Breaker(Status.OPEN, failures, since, now_ms + FIRST_PROBE_MS, is_warned=warned)

    def _worked(self, now_ms: int) -> Breaker:
        if self.status is Status.OPEN:
            return Breaker(closed_at_ms=now_ms)
        return self if self.failures == 0 else Breaker(closed_at_ms=self.closed_at_ms)

    def _disabled(self, reason: str, row_offset: int) -> Breaker:
        return Breaker(Status.DISABLED, self.failures, self.failing_since_ms, reason=reason, row_offset=row_offset)

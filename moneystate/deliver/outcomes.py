"""The verdict on an attempt, and when the next one is due.

A 2xx answer ends a delivery as DELIVERED. A 400, 413, 415 or 422 is about the message: it gets 3 attempts and says
nothing of the endpoint. All else is about the endpoint: 8 attempts, which its breaker counts. 410 disables the
endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

# The wait before each attempt, the first one included.
WAITS_MS: Final = (
    0, 5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS, 10 * HOUR_MS,
)  # fmt: skip
SPREAD: Final = 0.2  # a wait is up to this share longer or shorter, so that retries do not come all at once
REFUSED_ATTEMPTS: Final = 3
MAX_AGE_MS: Final = 72 * HOUR_MS
LONGEST_AGE_MS: Final = 30 * DAY_MS  # with the time for which the endpoint was paused

GONE: Final = 410
TOO_LARGE: Final = 413
REFUSED_STATUSES: Final = frozenset({400, TOO_LARGE, 415, 422})


class Outcome(StrEnum):
    """The end of a delivery's run."""

    DELIVERED = "DELIVERED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    OVERFLOW = "OVERFLOW"


class Verdict(StrEnum):
    DELIVERED = "DELIVERED"
    REFUSED = "REFUSED"  # the receiver does not take this message
    FAILED = "FAILED"  # the endpoint does not work
    HELD = "HELD"  # the endpoint asks for a pause, which costs no attempt
    GONE = "GONE"  # the endpoint says that it is there no more


@dataclass(frozen=True, slots=True)
class Age:
    """The times of a delivery that decide whether it is too old."""

    routed_at_ms: int
    paused_ms: int = 0  # for how long its endpoint was paused since then

    def is_over(self, now_ms: int, max_age_ms: int = MAX_AGE_MS) -> bool:
        whole = now_ms - self.routed_at_ms
        return whole - self.paused_ms >= max_age_ms or whole >= LONGEST_AGE_MS


@dataclass(frozen=True, slots=True)
class Next:
    """What follows an attempt: an outcome, or the time of the next attempt."""

    attempts: int  # counted so far, with this one
    due_ms: int = 0
    outcome: Outcome | None = None


def verdict(status: int | None, hold_ms: int | None = None) -> Verdict:
    """`status` None: there was no answer. `hold_ms`: for how long a valid Retry-After asks to wait."""
    if status is None:
        return Verdict.FAILED
    if 200 <= status <= 299:
        return Verdict.DELIVERED
    if status == GONE:
        return Verdict.GONE
    if status in REFUSED_STATUSES:
        return Verdict.REFUSED
    return Verdict.FAILED if hold_ms is None else Verdict.HELD


def counts_for_breaker(result: Verdict) -> bool:
    return result is Verdict.FAILED


def following(
    result: Verdict, attempts: int, age: Age, now_ms: int, spread: float = 0.0, hold_ms: int = 0,
    max_age_ms: int = MAX_AGE_MS, waits_ms: Sequence[int] = WAITS_MS,
) -> Next:  # fmt: skip
    """What follows an attempt that ended at `now_ms`.

    `attempts`: counted before this one. `spread`: a random number from -1 to 1. `hold_ms`: of a HELD attempt. Only an
    attempt that failed ends a delivery of age: nothing dies because no worker was running. `waits_ms`: before each
    attempt, the first one included.
    """
    if result is Verdict.DELIVERED:
        return Next(attempts + 1, outcome=Outcome.DELIVERED)
    counted = attempts if result is Verdict.HELD else attempts + 1
    most = min(REFUSED_ATTEMPTS, len(waits_ms)) if result is Verdict.REFUSED else len(waits_ms)
    if counted >= most or age.is_over(now_ms, max_age_ms):
        return Next(counted, outcome=Outcome.DEAD)
    if result is Verdict.HELD:
        return Next(counted, due_ms=now_ms + hold_ms)
    return Next(counted, due_ms=now_ms + round(waits_ms[counted] * (1 + SPREAD * spread)))

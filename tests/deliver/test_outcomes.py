"""What follows an attempt, and what Retry-After asks for."""

from __future__ import annotations

import pytest

from moneystate.deliver.outcomes import (
    HOUR_MS,
    LONGEST_AGE_MS,
    MAX_AGE_MS,
    WAITS_MS,
    Age,
    Outcome,
    Verdict,
    counts_for_breaker,
    following,
    verdict,
)
from moneystate.deliver.retry_after import hold_ms

NEW = Age(0)


def attempts_until_the_end(status: int | None) -> tuple[int, list[int], Outcome | None]:
    """The number of attempts that get this status, the waits between them, and the outcome."""
    attempts = made = 0
    waits: list[int] = []
    while True:
        made += 1
        after = following(verdict(status), attempts, NEW, 0)
        if after.outcome is not None:
            return made, waits, after.outcome
        waits.append(after.due_ms)
        attempts = after.attempts


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_2xx_is_delivered_by_the_first_attempt(status: int) -> None:
    assert attempts_until_the_end(status) == (1, [], Outcome.DELIVERED)


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_refused_message_dies_after_3_attempts_and_does_not_count_for_the_breaker(status: int) -> None:
    assert attempts_until_the_end(status) == (3, list(WAITS_MS[1:3]), Outcome.DEAD)
    assert not counts_for_breaker(verdict(status))


@pytest.mark.parametrize("status", [None, 100, 301, 302, 307, 401, 404, 408, 429, 500, 503, 600])
def test_all_else_dies_after_8_attempts_and_counts_for_the_breaker(status: int | None) -> None:
    assert attempts_until_the_end(status) == (8, list(WAITS_MS[1:]), Outcome.DEAD)
    assert counts_for_breaker(verdict(status))


def test_a_shorter_row_of_waits_has_fewer_attempts_and_a_longer_one_more() -> None:
    short, long = (0, 1_000), (0, *[1_000] * 9)
    assert following(Verdict.REFUSED, 0, NEW, 0, waits_ms=short).due_ms == 1_000
    assert following(Verdict.REFUSED, 1, NEW, 0, waits_ms=short).outcome is Outcome.DEAD
    assert following(Verdict.FAILED, 1, NEW, 0, waits_ms=short).outcome is Outcome.DEAD
    assert following(Verdict.REFUSED, 2, NEW, 0, waits_ms=long).outcome is Outcome.DEAD
    assert following(Verdict.FAILED, 8, NEW, 0, waits_ms=long).outcome is None
    assert following(Verdict.FAILED, 5, NEW, 0, waits_ms=short).outcome is Outcome.DEAD  # begun under a longer row


def test_410_says_that_the_endpoint_is_gone() -> None:
    assert verdict(410) is verdict(410, 5_000) is Verdict.GONE


def test_a_wait_is_up_to_a_fifth_longer_or_shorter() -> None:
    dues = [following(Verdict.FAILED, 1, NEW, 10, spread).due_ms for spread in (-1.0, 0.0, 1.0)]
    assert dues == [10 + 240_000, 10 + 300_000, 10 + 360_000]


def test_a_hold_counts_no_attempt() -> None:
    after = following(verdict(429, 7_000), 7, NEW, 100, hold_ms=7_000)
    assert (after.attempts, after.due_ms, after.outcome) == (7, 7_100, None)


def test_only_a_failed_attempt_ends_a_delivery_of_age() -> None:
    late = MAX_AGE_MS + HOUR_MS
    assert following(Verdict.DELIVERED, 0, NEW, late).outcome is Outcome.DELIVERED
    assert following(Verdict.FAILED, 0, NEW, late).outcome is Outcome.DEAD
    assert following(Verdict.HELD, 0, NEW, late).outcome is Outcome.DEAD
    assert following(Verdict.FAILED, 0, NEW, MAX_AGE_MS - 1).outcome is None


def test_paused_time_does_not_count_for_the_age_up_to_30_days() -> None:
    assert not Age(0, 2 * HOUR_MS).is_over(MAX_AGE_MS + HOUR_MS)
    assert Age(0, LONGEST_AGE_MS).is_over(LONGEST_AGE_MS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7_000),
        (" 7 ", 7_000),
        ("0", 1_000),
        ("999999999999999999999", 3_600_000),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90_000),  # 100 s, at 10 s
        ("Thu, 01 Jan 1970 00:00:00 GMT", 1_000),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("Thu, 99 Jan 1970 00:01:40 GMT", None),
        ("9" * 5_000, None),
        (None, None),
    ],
)
def test_retry_after_is_held_within_1_s_and_1_h(text: str | None, expected: int | None) -> None:
    assert hold_ms(429, text, 10_000) == hold_ms(503, text, 10_000) == expected


def test_retry_after_says_something_with_429_and_5xx_only() -> None:
    assert [hold_ms(status, "7", 0) for status in (200, 301, 400, 404, 410, 600)] == [None] * 6

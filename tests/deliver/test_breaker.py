"""The breaker of an endpoint."""

from __future__ import annotations

from moneystate.deliver.breaker import FAILURES_TO_OPEN, Breaker, Status
from moneystate.deliver.outcomes import DAY_MS, Verdict


def failed(breaker: Breaker, times: int, now_ms: int = 0) -> Breaker:
    for _ in range(times):
        breaker = breaker.after(Verdict.FAILED, now_ms, 1)
    return breaker


def test_10_failures_in_a_row_open_it() -> None:
    almost = failed(Breaker(), FAILURES_TO_OPEN - 1)
    assert almost.status is Status.CLOSED
    assert failed(almost, 1).status is Status.OPEN
    assert failed(almost.after(Verdict.DELIVERED, 0, 1), 1).status is Status.CLOSED


def test_a_refused_or_held_message_says_nothing_of_the_endpoint() -> None:
    almost = failed(Breaker(), FAILURES_TO_OPEN - 1)
    for result in (Verdict.REFUSED, Verdict.HELD):
        assert failed(almost.after(result, 0, 1), 1).status is Status.OPEN


def test_the_wait_before_a_probe_doubles_from_1_s_to_5_min() -> None:
    breaker, now, waits = failed(Breaker(), FAILURES_TO_OPEN), 0, []
    for _ in range(11):
        assert not breaker.may_probe(breaker.probe_due_ms - 1)
        assert breaker.may_probe(breaker.probe_due_ms)
        waits.append(breaker.probe_due_ms - now)
        now = breaker.probe_due_ms
        breaker = breaker.after(Verdict.FAILED, now, 1)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]


def test_a_probe_that_says_nothing_is_followed_by_another_one_as_late() -> None:
    breaker = failed(Breaker(), FAILURES_TO_OPEN).after(Verdict.REFUSED, 1_000, 1)
    assert (breaker.status, breaker.probe_due_ms) == (Status.OPEN, 2_000)


def test_after_it_has_closed_the_rate_doubles_from_1_a_second() -> None:
    opened = failed(Breaker(), FAILURES_TO_OPEN)
    assert opened.rate(0) == 0
    closed = opened.after(Verdict.DELIVERED, 1_000, 1)
    assert [closed.rate(1_000 + 1_000 * s) for s in (0, 1, 2, 10, 16)] == [1, 2, 4, 1_024, float("inf")]


def test_410_disables_it_until_a_newer_row() -> None:
    breaker = Breaker().after(Verdict.GONE, 0, 5)
    assert (breaker.status, breaker.reason, breaker.rate(0)) == (Status.DISABLED, "410", 0)
    assert breaker.after(Verdict.DELIVERED, 1, 5) == breaker  # of a request that was under way
    assert breaker.with_row(5) == breaker
    assert breaker.with_row(6) == Breaker()


def test_5_days_of_failing_disable_it_and_a_warning_comes_before() -> None:
    breaker = failed(Breaker(), FAILURES_TO_OPEN)
    assert not breaker.is_warned
    warned = failed(breaker, 1, 4 * DAY_MS)
    assert (warned.status, warned.is_warned) == (Status.OPEN, True)
    disabled = failed(warned, 1, 5 * DAY_MS)
    assert (disabled.status, disabled.reason) == (Status.DISABLED, "failing")


def test_one_failure_5_days_ago_and_one_now_are_not_5_days_of_failing() -> None:
    assert failed(failed(Breaker(), 1), 1, 5 * DAY_MS).status is Status.CLOSED

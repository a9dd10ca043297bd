"""What tokens grant, and how fast their callers may send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.ingest.rights import EVERYTHING, rights_of
from moneystate.serving.rates import Rates
from moneystate.serving.tokens import BadToken
from tests.budget import examples


def test_topics_and_bounds_of_a_token() -> None:
    rights = rights_of({"ingest": {"readings": {"deviceId": 7}, "payments": {}}, "ingest_rate": 2.5})
    assert rights.bounds("readings") == {"deviceId": frozenset({"7"})}
    assert rights.bounds("payments") == {}
    assert rights.bounds("orders") is None
    assert rights.rate == 2.5
    assert rights_of({"ingest": {"r": {"d": ["7", 8]}}}).bounds("r") == {"d": frozenset({"7", "8"})}


def test_a_token_without_the_claim_grants_nothing() -> None:
    assert rights_of({"sub": "x"}).bounds("payments") is None
    assert EVERYTHING.bounds("payments") == {}


@pytest.mark.parametrize(
    "claims",
    [
        {"ingest": ["payments"]},
        {"ingest": "payments"},
        {"ingest": {"payments": None}},
        {"ingest": {"payments": "p"}},
        {"ingest": {"payments": {"deviceId": None}}},
        {"ingest": {"payments": {"deviceId": []}}},
        {"ingest": {"payments": {"deviceId": [True]}}},
        {"ingest": {"payments": {"deviceId": 1.5}}},
        {"ingest": {}, "ingest_rate": 0},
        {"ingest": {}, "ingest_rate": "5"},
        {"ingest": {}, "ingest_rate": True},
    ],
)
def test_a_claim_that_is_not_understood_is_no_right(claims: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        rights_of(claims)


def test_a_caller_is_let_in_at_its_rate() -> None:
    rates = Rates(10)
    assert [rates.take("a", None, 1, 0.0) for _ in range(10)] == [0] * 10
    assert rates.take("a", None, 1, 0.0) == pytest.approx(0.1)
    assert rates.take("b", None, 1, 0.0) == 0  # each caller has its own
    assert rates.take("a", None, 1, 0.1) == 0
    assert rates.take("a", None, 1, 0.1) > 0


def test_a_large_request_is_let_in_and_paid_for_later() -> None:
    rates = Rates(0)
    assert rates.take("a", 10.0, 100, 0.0) == 0
    assert rates.take("a", 10.0, 1, 0.0) == pytest.approx(9.1)
    assert rates.take("a", 10.0, 1, 9.0) > 0
    assert rates.take("a", 10.0, 1, 9.2) == 0


def test_without_a_rate_everything_is_let_in() -> None:
    rates = Rates(0)
    assert not any(rates.take("a", None, 1_000_000, 0.0) for _ in range(100))


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 20)), min_size=1, max_size=200), st.integers(1, 50))
@settings(max_examples=examples(300))
def test_over_time_no_caller_sends_more_than_its_rate(requests: list[tuple[float, int]], rate: int) -> None:
    rates, now_s, sent = Rates(rate), 0.0, 0
    for pause_s, records in requests:
        now_s += pause_s
        if not rates.take("a", None, records, now_s):
            sent += records
        assert sent <= rate * now_s + rate + 20

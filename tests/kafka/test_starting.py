"""Times in flags are those of the values."""

from __future__ import annotations

import pytest

from moneystate.bootstrap.history import parse_cut
from moneystate.cli.versions import parse_at
from moneystate.errors import ConfigError
from moneystate.kafka.starting import time_ms

TIMES = {
    "2026-01-31t00:00:00.0009z": 1_769_817_600_000,
    "2016-12-31T23:59:60+00:00": 1_483_228_800_000,
    "1969-12-31T23:59:59.9991Z": -1,
    "2026-01-31T01:00:00.001+01:00": 1_769_817_600_001,
}


@pytest.mark.parametrize("text", TIMES)
def test_flags_take_the_times_that_values_have(text: str) -> None:
    as_of = parse_at("", text)
    assert as_of is not None
    assert [time_ms(text, "--starting-offsets", "earliest"), parse_cut(text, []).at_ms, as_of.event_time_ms] == [
        TIMES[text]
    ] * 3


def test_a_blank_may_follow_the_date() -> None:
    assert time_ms("2026-01-31 00:00:00Z", "--as-of", "end") == TIMES["2026-01-31t00:00:00.0009z"]


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31T00:00:00", "2026-01-31", "2026-01-31T00:00:60Z"])
def test_other_texts_are_refused_in_a_line_that_has_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected end, an ISO-8601 time with its zone.* for example 2026-01-31T"):
        parse_cut(text, [])

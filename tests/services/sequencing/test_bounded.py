"""What is held stays bounded, and so does every entry."""

from __future__ import annotations

from tests.bench.gaps import BOUND_MS, SECOND, measure

RATE = 200
G2_S = 4


def test_a_stream_that_always_loses_numbers_holds_no_more_than_it_waits_for() -> None:
    """A gap in a hundred numbers, and each is waited for on its own clock: were they timed one after the other, a
    gap would take g2 and 20 s of the stream would hold ever more."""
    lines = list(measure(20, RATE, 0.01, G2_S * SECOND))
    waited_s = G2_S + BOUND_MS // SECOND + 1
    assert max(line.held for line in lines) <= RATE * waited_s
    assert lines[-1].held >= RATE * (G2_S - 2)
    assert lines[-1].gaps > 3
    assert max(line.largest for line in lines) < 1_024


def test_entries_stay_small_however_much_is_held() -> None:
    """Nothing is skipped here, so the first gap holds everything."""
    lines = list(measure(20, RATE, 0.2, 1_000 * SECOND))
    assert lines[-1].held > 2_500
    assert lines[-1].gaps > 400
    assert max(line.largest for line in lines) < 1_024

"""Rule 11 of the service: a producer begins again."""

from __future__ import annotations

from services.sequencing import records as r
from tests.services.sequencing.story import FOLLOWS, S, bench, event, of, order, owners, skipped, void


def restarted(first: int, seconds: float) -> r.StreamRestarted:
    return r.StreamRestarted("game", int(seconds * S), first)


def test_11_a_producer_begins_again() -> None:
    b = bench()
    b.send(event(1, 1), event(2, 2), restarted(1, 3), event(1, 3), event(2, 4), event(2, 5, id="other"))
    assert order(b) == [1, 2, r.SequenceRestarted("game", 1), 1, 2]
    assert of(b, "findings") == [r.SequenceConflict("game", 2, event(2, 5, id="other"))]
    assert b.count("duplicates") == 0
    b.end()


def test_11_what_was_held_goes_out_before_the_restart() -> None:
    b = bench(g1_ms=1 * S, k=1, g2_ms=10 * S)
    b.send(event(1, 1), event(3, 2), r.EventsUnavailable("game", 6, 7, 3 * S), restarted(4, 4), event(5, 5))
    begun = r.SequenceRestarted("game", 4)
    assert order(b) == [1, skipped(2, 2), 3, skipped(4, 5), void(6, 7), begun]
    b.send(event(3, 6), event(4, 7))
    assert order(b)[6:] == [4, 5]
    assert of(b, "findings") == [r.LateAfterSkip("game", 3, event(3, 6))]
    assert [(asked.from_, asked.to) for asked in of(b, "requests")] == [(2, 2), (4, 4)]
    b.end()


def test_11_a_parked_stream_and_one_that_has_ended_begin_again() -> None:
    kinds = [event(n, n, {"type": kind}) for n, kind in enumerate(("ASSIST", "FOUL", "ASSIST", "FOUL"), 1)]
    b = bench(follows=FOLLOWS, violation="park")
    b.send(*kinds, restarted(1, 5), event(1, 6, {"type": "FOUL"}))
    assert order(b) == [1, 2, 3, 4, r.SequenceRestarted("game", 1), 1]
    assert [out.violates for out in of(b, "output") if isinstance(out, r.Sequenced)] == [
        [], ["ASSIST"], [], ["ASSIST"], [],
    ]  # fmt: skip
    b.end()
    ended = bench()
    ended.send(event(1, 1), r.StreamClosed("game", 2 * S, 2), restarted(1, 3), event(1, 4), event(2, 5), event(3, 6))
    begun = r.SequenceRestarted("game", 1)
    assert order(ended) == [1, skipped(2, 2), r.StreamEnded("game", 2), begun, 1, 2, 3]
    ended.send(r.StreamClosed("game", 7 * S, 3), restarted(1, 8), event(1, 9))
    assert order(ended)[7:] == [r.StreamEnded("game", 3), begun, 1]
    ended.end()
    assert owners(ended) == {b"game"}  # for as long as it may go on


def test_11_a_restart_that_is_sent_twice_counts_once() -> None:
    b = bench(idle_retention_ms=10 * S)
    b.send(event(1, 1), restarted(1, 2), event(1, 3), restarted(1, 2), restarted(0, 4), event(2, 5))
    assert b.dead_letters() == ["already_restarted", "out_of_bounds"]
    assert order(b) == [1, r.SequenceRestarted("game", 1), 1, 2]
    b.end()
    assert not owners(b)

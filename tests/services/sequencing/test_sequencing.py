"""Each rule of docs/sequencing.md in a few records. Times are in seconds."""

from __future__ import annotations

from typing import Any

import pytest

import moneystate as ms
from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Rejected
from moneystate.errors import ServiceError
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from services.sequencing import records as r
from services.sequencing.config import Config
from services.sequencing.service import sequencing
from tests.api.handover import handed_over
from tests.services.sequencing.story import FOLLOWS, S, bench, event, of, order, owners, skipped, void


def test_1_what_is_early_waits_for_what_is_before_it() -> None:
    b = bench()
    b.send(event(3, 1), event(1, 2), event(4, 3))
    assert order(b) == [1]
    b.send(event(2, 4))
    assert order(b) == [1, 2, 3, 4]
    assert of(b, "output")[2] == r.Sequenced("game", 3, "e3", ms.Json.of(None), 1 * S, [])
    b.end()


def test_2_the_first_event_of_a_number_counts() -> None:
    b = bench()
    b.send(event(1, 1, "a"), event(1, 2, "a"), event(1, 3, "b"), event(3, 4, "a"), event(3, 5, "a"), event(3, 6, "b"))
    assert b.count("duplicates") == 2
    conflicts = [event(1, 3, "b"), event(3, 6, "b")]
    assert of(b, "findings") == [r.SequenceConflict("game", e.seq, e) for e in conflicts]
    b.end()


def test_2_a_digest_is_kept_for_its_retention_to_the_millisecond() -> None:
    for late_ms, conflicts in ((0, 1), (1, 0)):
        b = bench(digest_retention_ms=10 * S)
        again = r.StreamEvent("game", 1, "other", ms.Json.of(None), 11 * S + late_ms)
        b.send(event(1, 1), again)
        finding = r.SequenceConflict if conflicts else r.AfterRetention
        assert of(b, "findings") == [finding("game", 1, again)]
        assert b.count("duplicates") == 0
        b.end()


def test_2_without_a_digest_no_event_is_taken_for_the_one_that_went_out() -> None:
    """A producer that begins again with 1 after its restart, two hours later; and a repetition as late as that."""
    b = bench()
    first = [event(n, n) for n in range(1, 41)]
    b.send(*first)
    again = [event(n, 7_200 + n, id=f"boot-2-{n}") for n in range(1, 41)]
    b.send(*again, event(41, 7_300), event(33, 7_301))
    assert of(b, "findings") == [r.AfterRetention("game", e.seq, e) for e in [*again, event(33, 7_301)]]
    assert order(b) == [*range(1, 42)]
    assert b.count("duplicates") == 0
    b.end()


def test_2_a_skipped_number_is_late_for_as_long_as_the_stream_lives() -> None:
    b = bench(digest_retention_ms=S)
    b.send(event(5, 1), r.SkipGap("game", 2 * S, 3), event(4, 3), event(2, 9_000), event(4, 9_001))
    assert order(b) == [skipped(1, 3), 4, 5]
    assert of(b, "findings") == [
        r.LateAfterSkip("game", 2, event(2, 9_000)), r.AfterRetention("game", 4, event(4, 9_001)),
    ]  # fmt: skip
    b.end()


def test_3_a_void_number_that_comes_before_it_is_passed_is_taken() -> None:
    b = bench()
    b.send(r.EventsUnavailable("game", 2, 6, 1 * S), event(4, 2), event(1, 3))
    assert order(b) == [1, void(2, 3), 4, void(5, 6)]
    b.end()


def test_3_a_stream_can_begin_in_the_middle_once() -> None:
    b = bench()
    b.send(event(2, 1), event(7, 2), r.StreamOpened("game", 3 * S, 7), r.StreamOpened("game", 4 * S, 8), event(1, 5))
    assert order(b) == [7]
    assert of(b, "findings") == [r.LateAfterSkip("game", 2, event(2, 1)), r.LateAfterSkip("game", 1, event(1, 5))]
    assert b.dead_letters() == ["already_begun"]
    b.end()


def test_3_a_stream_that_has_begun_cannot_be_opened() -> None:
    b = bench()
    b.send(r.EventsUnavailable("game", 1, 1, 1 * S), r.StreamOpened("game", 2 * S, 9), event(2, 3))
    assert b.dead_letters() == ["already_begun"]
    assert order(b) == [void(1, 1), 2]
    b.end()


def test_4_gaps_are_asked_for_side_by_side() -> None:
    b = bench(g1_ms=10 * S, k=2, g2_ms=30 * S)
    b.send(event(3, 1), event(6, 5), event(5, 13), event(9, 100))
    assert of(b, "requests")[:4] == [
        r.EventsRequested("game", 1, 2, 1), r.EventsRequested("game", 4, 4, 1),
        r.EventsRequested("game", 1, 2, 2), r.EventsRequested("game", 4, 4, 2),
    ]  # fmt: skip
    assert of(b, "findings") == [r.StreamStalled("game", 1, 2)]
    b.end()
    assert of(b, "findings") == [r.StreamStalled("game", 1, 2)]


def test_4_requests_of_one_time_go_by_number() -> None:
    b = bench(g1_ms=10 * S, k=2, g2_ms=30 * S, policy="skip")
    b.send(event(2, 1), event(4, 11), event(6, 21), event(6, 30))
    assert order(b) == []
    b.send(event(6, 31))
    assert of(b, "requests") == [
        r.EventsRequested("game", 1, 1, 1),
        r.EventsRequested("game", 1, 1, 2), r.EventsRequested("game", 3, 3, 1),
        r.EventsRequested("game", 3, 3, 2), r.EventsRequested("game", 5, 5, 1),
    ]  # fmt: skip
    assert order(b) == [skipped(1, 1), 2]
    b.end()


def test_4_parts_of_a_split_gap_keep_its_clock_and_its_report() -> None:
    b = bench(g1_ms=10 * S, k=1, g2_ms=20 * S)
    b.send(event(6, 1), event(3, 6), event(1, 25), event(2, 26), event(9, 27))
    assert of(b, "requests") == [r.EventsRequested("game", 1, 2, 1), r.EventsRequested("game", 4, 5, 1)]
    assert of(b, "findings") == [r.StreamStalled("game", 1, 2), r.StreamStalled("game", 4, 5)]
    b.end()
    reported = bench(g1_ms=10 * S, k=1, g2_ms=20 * S)
    reported.send(event(6, 1), event(3, 25), event(1, 26), event(2, 27), event(9, 28))
    assert of(reported, "findings") == [r.StreamStalled("game", 1, 5)]
    reported.end()


def test_4_what_a_step_makes_overdue_happens_in_it() -> None:
    b = bench(g1_ms=1 * S, k=0, g2_ms=10 * S, policy="skip")
    b.send(event(1, 0), event(3, 0), r.SkipGap("game", 5 * S, 2), event(5, 6), event(7, 7))
    assert order(b) == [1, skipped(2, 2), 3]
    stalled = bench(g1_ms=1 * S, k=0, g2_ms=10 * S)
    stalled.send(event(2, 0), event(4, 1), event(1, 30))
    assert of(stalled, "findings") == [r.StreamStalled("game", 1, 1), r.StreamStalled("game", 3, 3)]
    b.end()
    stalled.end()


def test_4_the_last_wait_must_be_longer_than_all_requests() -> None:
    with pytest.raises(ServiceError, match="make g2 longer"):
        sequencing(Config(g1_ms=10 * S, k=3, g2_ms=30 * S))


def test_5_runs_of_skipped_and_void_numbers_stand_in_their_place() -> None:
    b = bench()
    b.send(event(9, 1), r.EventsUnavailable("game", 3, 4, 1 * S), r.EventsUnavailable("game", 5, 5, 1 * S))
    b.send(r.SkipGap("game", 2 * S, 7), event(8, 3))
    assert order(b) == [skipped(1, 2), void(3, 5), skipped(6, 7), 8, 9]
    b.end()


def test_5_numbers_from_and_to_must_be_right() -> None:
    b = bench()
    b.send(
        event(0, 1), r.EventsUnavailable("game", 0, 2, S), r.EventsUnavailable("game", 3, 2, S),
        r.SkipGap("game", S, 0), r.StreamOpened("game", S, 0), r.StreamClosed("game", S, -1),
    )  # fmt: skip
    assert b.dead_letters() == ["out_of_bounds"] * 6
    assert not owners(b)
    b.end()


def test_5_a_run_can_end_at_the_last_number_that_a_stream_can_have() -> None:
    most = (1 << 63) - 2
    b = bench()
    b.send(event(most + 1, 1), r.StreamClosed("game", S, most + 1), r.SkipGap("game", S, most + 1))
    b.send(event(most, 2), r.EventsUnavailable("game", 1, 1 << 40, 3 * S), r.SkipGap("game", 4 * S, most))
    b.send(r.StreamClosed("game", 5 * S, most))
    assert b.dead_letters() == ["out_of_bounds"] * 3
    assert order(b) == [void(1, 1 << 40), skipped((1 << 40) + 1, most - 1), most, r.StreamEnded("game", most)]
    b.end()


def test_6_a_number_whose_event_cannot_be_read_is_void() -> None:
    b = bench()
    b.send(event(1, 1))
    for wrong in (
        '"body":{"a":NaN}',
        '"eventId":5,"body":1',
        '"eventId":"e"',
        '"eventId":"e","body":' + "[" * 101 + "]" * 101,
    ):
        b.send_raw("sequenced-input", '{"type":"StreamEvent","stream":"game","seq":2,"time":2000,' + wrong + "}")
    for other in (
        '"type":"SkipGap","seq":2',
        '"type":"StreamEvent","seq":0',
        '"type":"StreamEvent","seq":"2"',
        '"seq":2',
    ):
        b.send_raw("sequenced-input", '{"stream":"game","time":9000000,' + other + "}")
    deepest = "[" * 100 + "]" * 100  # that a body can be
    b.send_raw(
        "sequenced-input",
        '{"type":"StreamEvent","stream":"game","seq":3,"eventId":"e3","time":3000,"body":' + deepest + "}",
    )
    assert b.dead_letters() == ["poison"] * 4 + ["malformed"] * 4
    assert order(b) == [1, void(2, 2), 3]
    b.end()


def test_6_json_in_a_topic_of_avro_makes_no_number_void() -> None:
    b = bench(format="avro")
    for body in ('"body":1', '"body":NaN'):
        json = '{"type":"StreamEvent","stream":"game","seq":1,"eventId":"e1","time":9000000,' + body + "}"
        b.send_raw("sequenced-input", json)
    b.send(event(1, 1))
    assert b.dead_letters() == ["unknown_schema"] * 2
    assert order(b) == [1]
    b.end()


@pytest.mark.parametrize("configured", ["json", "avro"])
def test_6_the_format_of_the_run_decides_whatever_the_configuration_says(configured: Any) -> None:
    """As `run --format sequenced-input=...`."""
    plan = Plan(sequencing(Config(format=configured)))
    code, poison = plan.codes["sequenced-input"], plan.codec(r.Poisoned, "")
    json = b'{"type":"StreamEvent","stream":"game","seq":1,"eventId":"e1","time":9000000,"body":NaN}'
    avro = poison.encode(r.Poisoned("game", 9_000_000, 1))
    right = plan.codec(r.StreamEvent, "").encode(event(1, 1))

    def read(format: str, value: bytes) -> bytes | str:
        reads = ServiceDecoder(plan).reads({"sequenced-input": format}, {})
        try:
            decoded = reads[code](Letter("sequenced-input", 0, 0, -1, None, value, []))
        except Rejected as e:
            return e.reason
        assert decoded is not None
        return decoded[0]

    assert read("json", json) == avro
    assert (read("avro", json), read("avro", avro)) == ("unknown_schema", "unknown_schema")
    assert read("avro", right) == right


def test_7_a_parked_stream_goes_on_when_it_is_resumed() -> None:
    b = bench(g1_ms=1 * S, k=1, g2_ms=10 * S, policy="park")
    b.send(event(2, 0), event(5, 11), r.EventsUnavailable("game", 1, 1, 12 * S), event(5, 13, "x"), event(5, 50))
    assert order(b) == []
    assert of(b, "requests") == [r.EventsRequested("game", 1, 1, 1)]
    assert of(b, "findings") == [r.StreamParked("game", "gap"), r.SequenceConflict("game", 5, event(5, 13, "x"))]
    b.send(r.Resume("game", 60 * S), event(5, 61), event(6, 62))
    assert order(b) == [void(1, 1), 2]
    assert of(b, "requests")[1:] == [r.EventsRequested("game", 3, 4, 1)]
    b.send(event(6, 71))
    assert of(b, "findings")[2:] == [r.StreamParked("game", "gap")]
    b.end()


def test_7_a_parked_stream_that_is_opened_stays_parked() -> None:
    b = bench(g1_ms=1 * S, k=0, g2_ms=5 * S, policy="park")
    b.send(event(3, 1), event(3, 7), r.StreamOpened("game", 8 * S, 5), event(5, 9))
    assert order(b) == []
    assert of(b, "findings") == [r.StreamParked("game", "gap"), r.LateAfterSkip("game", 3, event(3, 1))]
    b.send(r.Resume("game", 10 * S))
    assert order(b) == [5]
    b.end()
    closed = bench(g1_ms=1 * S, k=0, g2_ms=5 * S, policy="park")
    closed.send(event(3, 1), r.StreamClosed("game", 2 * S, 3), event(3, 7), r.StreamOpened("game", 8 * S, 4))
    assert order(closed) == []
    closed.send(r.Resume("game", 9 * S))
    assert order(closed) == [r.StreamEnded("game", 3)]
    closed.end()


def test_8_a_stream_ends_after_its_last_number() -> None:
    b = bench(closed_retention_ms=10 * S)
    b.send(event(1, 1), r.StreamClosed("game", 2 * S, 3), event(4, 3), event(3, 4), event(2, 5))
    assert order(b) == [1, 2, 3, r.StreamEnded("game", 3)]
    assert of(b, "findings") == [r.AfterClose("game", 4, event(4, 3))]
    b.send(event(5, 14), event(2, 15))
    assert of(b, "findings")[1:] == [r.AfterClose("game", 5, event(5, 14))]
    assert b.count("after_close") == 3
    assert order(b)[4:] == []
    b.send(event(1, 16))
    assert order(b)[4:] == [1]
    b.end()


def test_8_what_is_missing_at_the_end_is_skipped_after_closed_wait() -> None:
    b = bench(closed_wait_ms=10 * S, policy="park", g2_ms=5 * S, g1_ms=1 * S, k=0)
    b.send(event(2, 1), event(1, 2), r.StreamClosed("game", 3 * S, 4), r.Resume("other", 13 * S), event(2, 14))
    assert order(b) == [1, 2]
    assert of(b, "findings") == [r.StreamParked("game", "gap")]
    b.send(r.Resume("game", 20 * S))
    assert order(b) == [1, 2, skipped(3, 4), r.StreamEnded("game", 4)]
    b.end()


def test_8_last_cannot_be_below_what_there_is() -> None:
    b = bench()
    b.send(event(1, 1), event(9, 2), r.EventsUnavailable("game", 12, 12, 3 * S))
    b.send(r.StreamClosed("game", 4 * S, 11), r.StreamClosed("game", 5 * S, 12), r.StreamClosed("game", 6 * S, 13))
    assert b.dead_letters() == ["last_too_low"]
    b.send(r.SkipGap("game", 7 * S, 99))
    assert order(b) == [1, skipped(2, 8), 9, skipped(10, 11), void(12, 12), r.StreamEnded("game", 12)]
    b.end()


def test_8_of_one_time_requests_come_first_then_the_policy_then_the_end() -> None:
    b = bench(g1_ms=10 * S, k=1, g2_ms=20 * S, closed_wait_ms=10 * S, idle_retention_ms=10 * S)
    b.send(event(3, 0), r.StreamClosed("game", 10 * S, 7), r.StreamClosed("other", 10 * S, 2), event(8, 21))
    assert [(out.stream, out.from_, out.to) for out in of(b, "requests")] == [
        ("game", 1, 2), ("game", 4, 7), ("other", 1, 2),
    ]  # fmt: skip
    assert of(b, "findings") == [r.StreamStalled("game", 1, 2), r.AfterClose("game", 8, event(8, 21))]
    assert {out for out in of(b, "output") if isinstance(out, r.StreamEnded)} == {
        r.StreamEnded("game", 7), r.StreamEnded("other", 2),
    }  # fmt: skip
    assert owners(b) == {b"game", b"other"}  # marks, as closing comes before idle
    b.end()


def test_8_an_event_of_an_ended_stream_that_did_not_go_out_is_found() -> None:
    b = bench(digest_retention_ms=10 * S)
    b.send(event(1, 1), r.SkipGap("game", 2 * S, 2), event(3, 3), r.StreamClosed("game", 4 * S, 3))
    b.send(event(3, 5), event(3, 6, id="other"), event(2, 7), event(1, 20))
    assert of(b, "findings") == [
        r.SequenceConflict("game", 3, event(3, 6, id="other")), r.LateAfterSkip("game", 2, event(2, 7)),
        r.AfterRetention("game", 1, event(1, 20)),
    ]  # fmt: skip
    assert (b.count("after_close"), b.count("duplicates")) == (4, 0)
    b.end()


def test_9_too_much_held_is_said_once() -> None:
    b = bench(max_held=2)
    b.send(event(3, 1), event(4, 1), event(5, 1), event(6, 1), event(1, 2), event(2, 3), event(9, 4), event(10, 4))
    b.send(event(11, 5))
    assert of(b, "findings") == [r.HeldLimit("game", 3)]
    assert order(b) == [1, 2, 3, 4, 5, 6]
    b.end()


def test_9_an_idle_stream_begins_anew() -> None:
    b = bench(idle_retention_ms=10 * S)
    b.send(event(1, 1), event(2, 11), event(1, 22), event(3, 23), event(3, 900))
    assert order(b) == [1, 2, 1]
    b.end()
    assert owners(b) == {b"game"}  # something is held


def test_10_what_must_not_follow_is_marked() -> None:
    b = bench(follows=FOLLOWS)
    kinds = ["ASSIST", "FOUL", "ASSIST", "POINT", "ASSIST"]
    b.send(*[event(n, n, {"type": kind}) for n, kind in enumerate(kinds, 1)])
    b.send(r.EventsUnavailable("game", 6, 6, 6 * S), event(7, 7, {"type": "FOUL"}), event(8, 8, {"type": "ASSIST"}))
    b.send(event(9, 9, "no object"))
    assert [out.violates for out in of(b, "output") if isinstance(out, r.Sequenced)] == [
        [], ["ASSIST"], [], [], [], [], [], ["ASSIST"],
    ]  # fmt: skip
    b.end()


def test_10_a_violation_can_park_the_stream_before_it() -> None:
    b = bench(follows=FOLLOWS, violation="park")
    b.send(event(1, 1, {"type": "ASSIST"}), event(2, 2, {"type": "FOUL"}), event(3, 3))
    assert order(b) == [1]
    assert of(b, "findings") == [r.StreamParked("game", "violation")]
    b.send(r.Resume("game", 4 * S))
    assert order(b) == [1, 2, 3]
    assert of(b, "output")[1].violates == ["ASSIST"]
    b.end()


@pytest.mark.parametrize("now", [{"FOUL": ("THROW",)}, {}])
def test_10_follows_may_lose_a_value_that_a_stream_had_last(now: dict[str, tuple[str, ...]]) -> None:
    before = bench(follows=FOLLOWS, key_groups=1)
    before.send(event(1, 1, {"type": "ASSIST"}))
    after = handed_over(before, sequencing(Config(follows=now)), bound_ms=0)
    after.send(event(2, 2, {"type": "FOUL"}))
    assert [out.violates for out in of(after, "output")] == [[]]
    again = handed_over(after, sequencing(Config(follows=FOLLOWS)), bound_ms=0)
    again.send(event(3, 3, {"type": "FOUL"}))
    assert [out.violates for out in of(again, "output")] == [[]]


def test_queries() -> None:
    b = bench(g1_ms=1 * S, k=0, g2_ms=10 * S)
    queries = b.service.queries
    b.send(r.StreamEvent("other", 4, "o", ms.Json.of(1), 1 * S), event(12, 2), event(3, 3), event(20, 4))
    assert b.ask(queries["gaps"]) == [
        r.Gap("other", 1, 3, 1 * S), r.Gap("game", 1, 2, 2 * S), r.Gap("game", 4, 11, 2 * S),
        r.Gap("game", 13, 19, 4 * S),
    ]  # fmt: skip
    assert b.ask(queries["gaps"], 1) == [r.Gap("other", 1, 3, 1 * S)]
    assert [e.seq for e in b.ask(queries["held_events"], "game")] == [3, 12, 20]
    assert b.ask(queries["stalled"]) == []
    b.send(event(1, 12.5))
    assert b.ask(queries["stalled"]) == [r.StreamStalled("game", 2, 2), r.StreamStalled("other", 1, 3)]
    parked = bench(follows=FOLLOWS, violation="park")
    parked.send(event(1, 1, {"type": "ASSIST"}), event(2, 2, {"type": "FOUL"}))
    assert parked.ask(parked.service.queries["parked"]) == [r.StreamParked("game", "violation")]


def test_a_stream_that_was_stalled_and_is_parked_now_is_asked_for_as_parked() -> None:
    b = bench(g1_ms=1 * S, k=0, g2_ms=10 * S, follows=FOLLOWS, violation="park")
    b.send(event(3, 0), event(1, 20, {"type": "ASSIST"}), event(2, 21, {"type": "FOUL"}))
    assert of(b, "findings") == [r.StreamStalled("game", 1, 2), r.StreamParked("game", "violation")]
    assert b.ask(b.service.queries["stalled"]) == []
    assert b.ask(b.service.queries["parked"]) == [r.StreamParked("game", "violation")]

"""What a service's steps see and do, whatever the batches: `Bench.end` runs each log again in others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine.avro import HEADER_BYTES
from moneystate.errors import StepError
from moneystate.runtime.layout import place_of
from moneystate.testing import CRASH, Bench
from tests.api.services import basket, limited
from tests.api.services.basket import Added, Gone, Item, Looked, Removed, Rules, Seen, Total
from tests.budget import examples

S = 1_000


def bench(**given: Any) -> Bench:
    return Bench(basket.service, bound_ms=2 * S, **given)


def test_values_and_maps_keep_what_steps_change_in_place() -> None:
    b = bench()
    b.send(Added("b", "y", 1, S), Added("b", "x", 2, S), Added("b", "y", 3, 2 * S), Added("c", "y", 9, 2 * S))
    assert b.state(basket.total, "b") == Total(6, ["y", "x", "y"])
    assert b.state(basket.items, "b") == {"x": Item(2), "y": Item(4, ["again"])}
    assert b.state(basket.items, "none") == {}
    assert b.state(basket.total, "none") == Total()
    b.end()


def test_a_timer_of_an_id_is_replaced_when_set_again_and_cancelled() -> None:
    b = bench()
    b.send(Added("b", "x", 1, S), Added("b", "y", 1, S), Added("b", "z", 1, S))
    b.send(Added("b", "x", 1, 8 * S), Removed("b", "z", 9 * S), Looked(["b"], 11 * S), Looked(["b"], 12 * S))
    assert b.out(basket.gone) == [Gone("b", "z"), Gone("b", "y")]
    b.send(Looked(["b"], 18 * S))
    assert b.out(basket.gone)[2:] == [Gone("b", "x")]
    b.end()
    assert b.out(basket.gone) == [Gone("b", "z"), Gone("b", "y"), Gone("b", "x")]


def test_a_reject_leaves_no_trace_but_a_dead_letter() -> None:
    b, without = bench(), bench()
    b.send(Added("b", "x", 1, S), Added("b", "x", 13, 2 * S), Added("b", "n", 13, 2 * S), Added("b", "x", 2, 3 * S))
    without.send(Added("b", "x", 1, S), Added("b", "x", 2, 3 * S))
    assert b.dead_letters() == ["unlucky", "unlucky"]
    assert b.state(basket.total, "b") == Total(3, ["x", "x"])
    assert b.state(basket.items, "b") == without.state(basket.items, "b")
    assert b.out(basket.gone) == []
    assert (b.count("added"), b.count("dead_letters.unlucky")) == (2, 2)
    b.end()
    without.end()
    assert b.out(basket.gone) == without.out(basket.gone) == [Gone("b", "x")]
    assert list(b.entries()) == list(without.entries())


def test_a_dead_letter_of_the_context_keeps_what_the_step_did() -> None:
    b = bench()
    b.send(Added("b", "x", 14, S))
    assert b.dead_letters() == ["odd"]
    assert b.state(basket.total, "b") == Total(14, ["x"])
    b.end()


def test_forgetting_a_key_leaves_nothing_of_it() -> None:
    b = bench()
    b.send(Added("b", "x", 1, S), Added("b", "y", 1, S), Added("c", "x", 1, S), Looked(["b"], S))
    b.send(Added("b", "z", 15, 2 * S))
    owners = {place.owner for key, _ in b.entries() if (place := place_of(key))}
    assert owners == {b"c"}
    b.end()
    assert b.out(basket.gone) == [Gone("c", "x")]


def test_a_function_that_gives_several_keys_runs_for_each() -> None:
    b = bench()
    b.send(Added("b", "x", 1, S), Looked(["c", "b", "c"], 2 * S), Looked([], 3 * S))
    assert sorted(s.text for s in b.out(basket.seen)) == ["b:1:x=1:1:x", "c:0::1:"]
    b.end()


def test_late_events_run_where_they_became_known() -> None:
    b = bench()
    b.send(Looked(["b"], 20 * S), Looked(["c"], 5 * S), Looked(["b"], 19 * S))
    assert [s.text for s in b.out(basket.seen)] == ["c:0::1: late", "b:0::1:", "b:0::2:"]
    assert b.count("late") == 1
    b.end()


def test_after_its_time_to_live_an_entry_is_not_there_and_then_removed() -> None:
    b = bench(rules=Rules(keep_ms=1_000_000, visit_ms=60 * S))
    b.send(Added("b", "x", 1, S), Looked(["b"], 2 * S), Looked(["b"], 61 * S - 1))
    assert [s.text for s in b.out(basket.seen)] == ["b:1:x=1:1:x", "b:1:x=1:2:x"]
    b.send(Looked(["b"], 61 * S + 5))  # the map's entry was written at 1 s, the value just before 61 s
    assert b.out(basket.seen)[2].text == "b:1:x=1:3:"
    assert b.state(basket.recent, "b") == {}
    b.send(Looked(["b"], 200 * S))
    assert b.out(basket.seen)[3].text == "b:1:x=1:1:"
    b.end()
    left = {(place.kind, place.name) for key, _ in b.entries() if (place := place_of(key))}
    assert left == set()


def test_an_entry_equal_to_its_default_is_no_entry() -> None:
    b = bench()
    b.send(Added("b", "x", 1, S), Removed("b", "x", 2 * S), Looked(["c"], 3 * S))
    kinds = {(place.kind, place.name, place.owner) for key, _ in b.entries() if (place := place_of(key))}
    assert (b"v", "total", b"b") not in kinds
    assert (b"v", "visits", b"c") in kinds
    b.end()


def test_outputs_have_their_keys_and_the_event_that_caused_them() -> None:
    b = bench(cuts="one", key_groups=1)
    b.send(Added("b", "x", 1, S), Removed("b", "x", 2 * S))
    b.out(basket.gone)
    stream, key, value, headers = b.run.sim.outputs[0]
    assert (stream, key) == (1, b'["b","x"]')
    assert b.plan.outputs[basket.gone].codec.decode(value or b"") == Gone("b", "x")
    ((name, lineage),) = headers
    assert name == "lineage"
    assert lineage is not None
    assert lineage[:HEADER_BYTES] == b.plan.lineage
    assert lineage[HEADER_BYTES:] == b"\x0aadded" + b"\x00\x02" + b"\xa0\x1f" + b"\x00"


def test_a_key_is_removed_from_a_compacted_output_by_a_tombstone() -> None:
    b = bench(cuts="one", key_groups=1)
    b.send(Added("b", "x", 16, S), Removed("b", "x", 2 * S))
    assert b.keyed(basket.gone) == [('["b","x"]', None), ('["b","x"]', Gone("b", "x"))]
    assert b.out(basket.gone) == [Gone("b", "x")]
    (stream, key, value, headers), (_, _, _, headers_of_a_record) = b.run.sim.outputs
    assert (stream, key, value) == (1, b'["b","x"]', None)
    assert [name for name, _ in headers] == [name for name, _ in headers_of_a_record] == ["lineage"]
    b.end()


def test_a_batch_that_is_lost_and_run_again_changes_nothing() -> None:
    b, whole = bench(), bench()
    records = [Added("b", "x", 1, S), Added("b", "y", 13, 2 * S), Looked(["b"], 3 * S), Removed("b", "x", 4 * S)]
    b.send(records[0], CRASH, records[1], records[2], CRASH, records[3], CRASH)
    whole.send(*records)
    b.end()
    whole.end()
    assert b.out(basket.seen) == whole.out(basket.seen)
    assert list(b.entries()) == list(whole.entries())


def test_the_engines_counts_and_dead_letters_are_there_too() -> None:
    b = bench()
    b.send_raw("added", b"junk")
    b.send(Looked(["b"], S))
    b.send_raw("looked", b.plan.codec(Added, "").encode(Added("b", "x", 1, S)))
    b.send_raw("looked", b.plan.codec(Seen, "").encode(Seen("x")))
    b.send_raw("added", b.plan.codec(Added, "").encode(Added("b", "x", 1, S)) + b"\x00")
    b.send_raw("added", b.plan.codec(Added, "").encode(Added("b" * 70_000, "x", 1, S)))
    assert b.dead_letters() == ["unknown_schema", "wrong_topic", "no_event_time", "trailing_bytes", "bad_key"]


events = st.one_of(
    st.builds(
        Added, st.sampled_from("bc"), st.sampled_from(("x", "y", "xy")), st.sampled_from((1, 13, 15, 16)), st.just(0)
    ),
    st.builds(Removed, st.sampled_from("bc"), st.sampled_from(("x", "y", "")), st.just(0)),
    st.builds(Looked, st.lists(st.sampled_from("bc"), max_size=2), st.just(0)),
)


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(events, st.integers(0, 12)), max_size=25), st.integers(0, 1_000), st.sampled_from((1, 2)))
def test_any_batches_give_the_same(drawn: list[tuple[object, int]], seed: int, partitions: int) -> None:
    b = bench(seed=seed, partitions=partitions)
    for event, at in drawn:
        b.send(type(event)(**{**vars(event), "at": at * S}))
    b.end()


def test_the_bench_finds_state_that_a_service_keeps_elsewhere() -> None:
    from tests.api.services import hidden

    b = Bench(hidden.service, bound_ms=S)
    b.send(*[hidden.Ping(f"k{n}", n) for n in range(20)])
    with pytest.raises(AssertionError, match="differs with other batches"):
        b.end()


def test_an_exception_ends_the_job_with_the_record_and_the_line() -> None:
    from tests.api.services import broken

    b = Bench(broken.service, bound_ms=S)
    b.send(broken.Ping("a", "divide", S))
    with pytest.raises(StepError) as failed:
        b.out(broken.pongs)
    line = str(failed.value)
    assert line.startswith("pings, partition 0, offset 0: ping at broken.py:")
    assert "ZeroDivisionError: integer division or modulo by zero. " in line
    assert "Do: fix the code and run the same command again" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("what", "line"),
    [
        (
            "key",
            "output 'pongs': expected a string or a whole number as the key, found NoneType. Do: give each record",
        ),
        ("record", "output 'pongs': expected Pong, found Ping. Do: emit an object of Pong itself"),
        ("field", "Pong.n: expected int, found 'x'. Do: correct the value in the service's code"),
        (
            "remove",
            "output 'pongs': expected a compacted output for remove, found one that keeps all records of a key.",
        ),
        (
            "timer",
            "expected a timer of the service 'broken', found timer 'nightly' of 'basket'. Do: use a timer",
        ),
        ("when", "timer 'later': expected a time in ms, found 1.5. Do: pass an int"),
        ("state", "state 'count' of key 'a': Count.n: expected int, found 'x'. Do: correct the value"),
    ],
)
def test_a_wrong_effect_is_named_in_one_line(what: str, line: str) -> None:
    from tests.api.services import broken

    b = Bench(broken.service, bound_ms=S)
    b.send(broken.Ping("a", what, S))
    with pytest.raises(StepError) as failed:
        b.out(broken.pongs)
    assert line in str(failed.value)
    assert "pings, partition 0, offset 0" in str(failed.value)


def test_exceptions_can_be_dead_letters() -> None:
    from tests.api.services import broken

    b = Bench(broken.service, bound_ms=S, dead_letter_errors=True)
    b.send(broken.Ping("a", "fine", S), broken.Ping("a", "divide", S), broken.Ping("a", "key", S))
    assert b.dead_letters() == ["exception", "exception"]
    assert b.state(broken.count, "a") == broken.Count(1)
    b.end()


def test_each_input_is_late_by_its_own_bound() -> None:
    b = Bench(limited.service, bound_ms=S)
    b.send(limited.Fast("a", 10 * S), limited.Slow("a", 10 * S), limited.Plain("a", 10 * S))
    b.send(limited.Fast("a", 9 * S), limited.Slow("a", 7 * S), limited.Plain("a", 8 * S))
    late = {took.what: took.at for took in b.out(limited.took) if took.late}
    assert late == {"Fast": 10 * S, "Slow": 8 * S, "Plain": 9 * S}
    b.end()

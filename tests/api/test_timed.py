"""Timed streams: what a service reads of another is decided by the logs, not by how the other was run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate import Service
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.order import advance
from moneystate.errors import ServiceError
from moneystate.runtime.timed import in_order
from moneystate.testing import CRASH, Bench
from moneystate.testing.member import Cuts
from tests.api.services import chain
from tests.api.services.chain import (
    Closing,
    Moved,
    Noted,
    Stands,
    account,
    accounts,
    book,
    branches,
    entries,
    journal,
    noted,
    stands,
)
from tests.budget import examples

S = 1_000


def moves(seed: int, n: int = 60) -> list[Any]:
    """Some late, several at one time, and some that are rejected."""
    rng = random.Random(seed)
    made: list[Any] = []
    for number in range(n):
        at = 100_000 + 250 * number - rng.choice((0, 0, 0, 1_500, 6_000))
        if rng.random() < 0.15:
            made.append(Closing(rng.choice("xy"), at))
        else:
            both = rng.sample(["x1", "x2", "y1", "y2", "y3"], rng.choice((1, 2)))
            made.append(Moved(f"m{number}", both, rng.randrange(-9, 20), at - at % 500))
    return made


def benched(seed: int, events: list[Any], **given: Any) -> Bench:
    bench = Bench(accounts, branches, book, seed=seed, **given)
    bench.send(*events)
    return bench


def test_a_chain_of_three_reads_in_the_order_of_the_first() -> None:
    bench = benched(0, [Moved("a", ["x1", "y1"], 4, 1 * S), Moved("b", ["x1"], 1, 1 * S), Closing("x", 1 * S)])
    assert [e.text for e in bench.out(entries)] == [
        # by rank, then by the place of the move: first a with both of its accounts, then b
        "1000 x: 1000 closed with 0",
        "1000 x: 1000 1 x1=4 a",
        "1000 x: 1000 2 x1=4 a again",
        "1000 y: 1000 1 y1=4 a",
        "1000 y: 1000 2 y1=4 a again",
        "1000 x: 1000 3 x1=5 b",
        "1000 x: 1000 4 x1=5 b again",
    ]
    assert bench.state(account, "x1").cents == 5
    assert bench.state(journal, "x").lines == 4
    bench.end()
    assert [e.text for e in bench.out(entries)][7:] == [
        "1700 x: 1700 quiet, too, after 4",
        "1700 y: 1700 quiet, too, after 2",
        "1700 x: 1700 quiet after ['x1=4 a', 'x1=4 a again', 'x1=5 b', 'x1=5 b again']",
        "2000 y: 2000 3 y1=4 reminder",
        "2000 x: 2000 5 x1=5 reminder",
        "2700 y: 2700 quiet, too, after 3",
        "2700 x: 2700 quiet after ['x1=4 a again', 'x1=5 b', 'x1=5 b again', 'x1=5 reminder']",
    ]


@settings(max_examples=examples(12))
@given(
    st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from(["one", "each", "random"]), st.integers(1, 5),
    st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_however_the_writers_are_cut_grouped_and_lost_the_readers_write_the_same(
    log: int, seed: int, cuts: Cuts, key_groups: int, partitions: int, crashes: bool
) -> None:
    events = moves(log)
    lost = [x for event in events for x in (event, CRASH)] if crashes else events
    plain = benched(0, events, cuts="one", key_groups=1, partitions=partitions)
    other = benched(seed, lost, cuts=cuts, key_groups=key_groups, partitions=partitions)
    for bench in (plain, other):
        bench.end()
    for output in (stands, noted, entries):
        assert plain.out(output) == other.out(output) != []
    for service in (accounts, branches, book):
        assert list(plain.entries(service)) == list(other.entries(service))
    assert plain.count("late", accounts) > 0
    assert plain.count("late", book) == other.count("late", book) == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_timers_set_for_their_own_time_write_is_read_in_the_order_of_their_steps(seed: int) -> None:
    bench = Bench(chain.ticking, branches, seed=seed, key_groups=5)
    bench.send(chain.Tick("t", 5 * S), Closing("x", 9 * S))
    wrote = [n.text for n in bench.out(noted)][:7]
    assert wrote == ["5000 1 first=0 t", *(f"5000 {n + 1} account {n}={n} t" for n in range(1, 7))]
    bench.end()


def test_a_reader_alone_is_told_the_times_of_its_stream() -> None:
    bench = Bench(branches)
    bench.send(Stands("x1", "x", 4, "a"), order_time_ms=5 * S)
    bench.send(Closing("x", 5 * S))
    assert [n.text for n in bench.out(noted)] == ["5000 closed with 0", "5000 1 x1=4 a"]
    with pytest.raises(ValueError, match="order_time_ms="):
        bench.send(Stands("x1", "x", 4, "b"))
    bench.end()


def test_what_has_no_place_is_a_dead_letter_and_a_foreign_heartbeat_says_nothing() -> None:
    bench = Bench(branches)
    bench.send(Stands("x1", "x", 4, "a"), order_time_ms=5 * S)
    codec = bench.plan.inputs[bench.plan.codes["stands"]]
    value = next(iter(codec.values())).codec.encode(Stands("x1", "x", 5, "b"))
    bench.send_raw("stands", value)
    bench.send_raw("stands", value, headers={"place": b"short"})
    bench.send_raw("stands", value, headers={"mark": b"short"})
    bench.send_raw("stands", bench.run.heartbeat(100 * S))
    bench.send(Closing("x", 6 * S))
    assert bench.dead_letters() == ["no_place", "no_place", "malformed"]
    assert [n.text for n in bench.out(noted)] == ["5000 1 x1=4 a", "5700 quiet, too, after 1", "6000 closed with 1"]
    assert bench.run.sim.watermark == 6 * S + 1
    bench.end()


def test_dead_letters_and_lineage_say_where_the_record_stands() -> None:
    bench = Bench(chain.picky, partitions=2)
    for number, cents in enumerate((7, 1, 2)):
        bench.send(Stands("x1", "x", cents, str(number)), order_time_ms=number * S)
    assert bench.dead_letters() == ["seven"]
    (_, _, _, letter), *written = bench.run.sim.outputs
    about = {name: (content or b"").decode() for name, content in letter}
    assert (about["moneystate.topic"], about["moneystate.partition"], about["moneystate.offset"]) == (
        "stands",
        "0",
        "0",
    )
    assert bench.out(chain.sources) == [
        # the record, and the timer that it set
        chain.Source("stands", 0, 1), chain.Source("stands", 0, 1), chain.Source("stands", 0, 2),
    ]  # fmt: skip
    assert len(written) == 3
    bench.end()


def test_a_loop_through_an_ordinary_topic_runs_until_it_is_quiet() -> None:
    bench = Bench(chain.asking, chain.answering, bound_ms=S)
    bench.send(chain.Asked("a", 3, 10 * S), chain.Asked("b", 0, 11 * S))
    assert bench.out(chain.told) == [chain.Told("b", 0), chain.Told("a", 0)]
    assert bench.count("answered", chain.answering) == 3
    bench.end()


def test_time_stands_still_until_all_inputs_have_come_to_their_ends() -> None:
    stream, plain = (1, 0, END_OF_TIME, 1, NO_TIME), (2, 0, NO_TIME, 0, NO_TIME)
    assert advance({}, [stream], {}, 5, drain_to=NO_TIME) == END_OF_TIME
    assert advance({}, [stream, (1, 1, 70, 1, NO_TIME)], {}, 5, drain_to=NO_TIME) == 70
    assert advance({(2, 0): 90}, [stream, (2, 0, NO_TIME, 1, NO_TIME)], {2: 10}, 5, drain_to=NO_TIME) == 80
    assert advance({(2, 0): 90}, [stream, plain], {2: 10}, 5, drain_to=NO_TIME) == 80  # all others are idle


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda s: s.output("o", Noted, key="text", timed=True, compacted=True), "timed and compacted"),
        (lambda s: (unordered(s), s.output("o", Noted, key="text", timed=True)), "unordered input 'r'"),
        (lambda s: (s.output("o", Noted, key="text", timed=True), unordered(s)), "unordered input 'r'"),
        (
            lambda s: (s.output("o", Noted, key="text", timed=True), s.input("o", Noted, key="text", timed=True)),
            "reads its own timed stream",
        ),
        (lambda s: s.input("o", Noted, key="text", timed=True, time="at"), "timed=True with a time"),
        (lambda s: s.input("o", Noted, key="text", timed=True, bound_ms=5), "timed=True with a time or limits"),
        (lambda s: s.input("o", Noted, key="text"), "expected time=, found none"),
    ],
)
def test_what_cannot_be_timed_is_refused(declare: Callable[[Service[None]], object], says: str) -> None:
    with pytest.raises(ServiceError, match=says):
        declare(Service("shop"))


def unordered(service: Service[None]) -> object:
    return service.input("r", Closing, key="branch", time="at", ordered=False)


def test_a_cycle_of_timed_streams_and_a_stream_that_is_not_timed_are_refused() -> None:
    one, two, three = Service("one"), Service("two"), Service("three")
    one.output("a", Noted, key="text", timed=True)
    two.input("a", Noted, key="text", timed=True)
    two.output("b", Stands, key="account", timed=True)
    three.input("a", Noted, key="text", timed=True)
    assert [s.name for s in in_order([three, two, one])] == ["one", "three", "two"]
    one.input("b", Stands, key="account", timed=True)
    with pytest.raises(ServiceError, match="services one, two, three: a cycle"):
        in_order([one, two, three])
    plain = Service("plain")
    plain.output("b", Stands, key="account")
    with pytest.raises(ServiceError, match="plain does not declare it timed"):
        in_order([plain, one])

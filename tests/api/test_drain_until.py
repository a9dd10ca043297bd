"""Where a drain ends if its end is declared, and where `Bench.end` ends for services that read what they cause."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.errors import StepError
from moneystate.testing import Bench, loops
from tests.api.services import chain, periodic, polling
from tests.api.services.periodic import HOUR, Reading, reports
from tests.api.test_endless_timers import DAY, READINGS, START
from tests.api.test_timed import moves
from tests.budget import examples


def sent(*readings: Reading) -> Bench:
    bench = Bench(periodic.service, bound_ms=1_000)
    bench.send(*readings)
    return bench


def hours(bench: Bench) -> list[int]:
    bench.out(reports)  # processes what was sent
    return hours_of(bench)


def hours_of(bench: Bench) -> list[int]:
    return [(r.at - START) // HOUR for _, r in bench.run.keyed(reports) if r.what == "hour"]


def test_timers_run_up_to_the_declared_end_and_no_later() -> None:
    for until_ms, last in ((5 * HOUR, 5), (5 * HOUR - 1, 4), (100 * HOUR, 100)):
        bench = sent(Reading("m", START))
        bench.end(until_ms=START + until_ms)
        assert hours(bench) == list(range(1, last + 1))
        assert bench.run.sim.watermark == START + until_ms + 1
        assert bench.count("timers_after_end") == 0


def test_a_bench_ends_after_its_latest_record() -> None:
    bench = sent(Reading("m", START))
    with pytest.raises(ValueError, match="until_ms"):
        bench.end(until_ms=START - 1)


@settings(max_examples=examples(20))
@given(READINGS, st.integers(0, DAY))
def test_what_runs_up_to_the_declared_end_depends_on_the_log_alone(readings: list[Reading], after_ms: int) -> None:
    """`end` compares with other batches, key groups and partitions."""
    bench = sent(*readings)
    until_ms = max(r.at for r in readings) + after_ms
    bench.end(until_ms=until_ms)
    shown = bench.out(reports)
    assert all(r.at <= until_ms for r in shown)
    alone = sent(*readings)
    alone.send(Reading("z", until_ms + 1))
    # which runs what is due at the time of that event, too
    assert shown == [r for r in alone.out(reports) if r.meter != "z" and r.at <= until_ms]


def test_a_drain_in_parts_is_a_drain_up_to_the_last_time() -> None:
    bench = sent(Reading("m", START))
    for end, passed in ((3, 3), (2, 3), (8, 8)):
        bench.first.batch(bench.log if not hours_of(bench) else [], bench.random, True, START + end * HOUR)
        assert hours_of(bench) == list(range(1, passed + 1))
        assert bench.run.sim.watermark == START + passed * HOUR + 1


def test_records_after_the_declared_end_wait() -> None:
    bench = sent(Reading("m", START), Reading("n", START + 9 * HOUR))
    bench.first.batch(bench.log, bench.random, True, START + 2 * HOUR)
    assert hours_of(bench) == [1, 2]
    assert bench.run.sim.buffered == 1


def test_a_reader_of_a_timed_stream_comes_to_its_writers_end() -> None:
    bench = Bench(chain.accounts, chain.branches, bound_ms=1_000)
    events = moves(3, 60)
    bench.send(*events)
    assert bench.latest is not None
    end = bench.latest + 7
    bench.end(until_ms=end)
    assert {member.run.sim.watermark for member in bench.members} == {end + 1}


def test_a_periodic_timer_that_sends_to_its_own_service_ends() -> None:
    bench = Bench(polling.service, bound_ms=1_000)
    bench.send(polling.Poll("p", -1, START))
    bench.end()
    assert [e.left for e in bench.out(polling.seen)] == [-n for n in range(1, loops.MAX_STAGES + 2)]


def test_a_chain_of_waits_through_a_topic_comes_to_its_end() -> None:
    bench = Bench(polling.service, bound_ms=1_000)
    bench.send(polling.Poll("p", 5, START), polling.Poll("q", 0, START))
    bench.end()
    assert sorted((e.id, -e.left) for e in bench.out(polling.seen)) == [
        *(("p", -n) for n in range(5, -1, -1)),
        ("q", 0),
    ]


def test_a_loop_ends_at_the_declared_end() -> None:
    bench = Bench(polling.service, bound_ms=1_000)
    bench.send(polling.Poll("p", -1, START))
    bench.end(until_ms=START + 30 * HOUR)
    # what the timer sends is late by a millisecond
    assert [e.left for e in bench.out(polling.seen)] == [-n for n in range(1, 31)]


def test_services_that_send_each_other_records_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_CHAIN", 20)
    bench = Bench(polling.echo, bound_ms=1_000)
    bench.send(polling.Poll("p", 0, START))
    with pytest.raises(StepError, match="echo: expected services to stop"):
        bench.out(polling.echoed)

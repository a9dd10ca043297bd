"""Inputs in arrival order (docs/arrival.md), in memory: on the bench, and against a model that sorts the whole log."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import moneystate as ms
from moneystate.engine.items import NO_TIME
from moneystate.engine.order import Partition
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from moneystate.testing.bench import CRASH
from moneystate.testing.run import Run
from moneystate.testing.simulation import Input
from tests.api.services.parcels import WAIT_MS, Ordered, Priced, Scanned, Seen, seen, service
from tests.budget import examples

S = 1_000
PARTITIONS = 3
BOUND_MS = 2 * S  # of the orders


def parcels() -> Bench:
    return Bench(service, bound_ms=BOUND_MS, partitions=PARTITIONS)


# The bench


def test_the_order_is_that_of_arrival() -> None:
    bench = parcels()
    bench.send(Scanned("a", 1), arrival_ms=5 * S)
    bench.send(Scanned("b", 2), arrival_ms=3 * S)
    bench.send(Priced("b", 3), arrival_ms=3 * S)
    assert [(s.what, s.now) for s in bench.out(seen)] == [
        ("Priced 3", 3 * S),
        ("Scanned 2", 3 * S),
        ("Scanned 1", 5 * S),
    ]
    bench.end()


def test_a_timer_runs_without_a_record_once_time_has_gone_on() -> None:
    bench = parcels()
    bench.send(Scanned("a", 1), arrival_ms=5 * S)
    bench.advance(WAIT_MS - 1)
    assert [s.what for s in bench.out(seen)] == ["Scanned 1"]
    bench.advance(1)
    assert [(s.what, s.now) for s in bench.out(seen)] == [("Scanned 1", 5 * S), ("gone", 5 * S + WAIT_MS)]
    bench.end()


def test_a_record_without_a_time_of_its_own_arrives_now() -> None:
    bench = parcels()
    bench.advance(7 * S)
    bench.send(Scanned("a", 1), CRASH)
    bench.advance(2 * S)
    bench.send(Priced("a", 2))
    first, second = bench.out(seen)
    assert (first.late, second.late) == (False, False)
    assert first.now >= 7 * S
    assert second.now - first.now >= 2 * S
    bench.end()


def test_an_event_sees_what_had_arrived_by_its_time() -> None:
    bench = parcels()
    bench.send(Priced("a", 1), arrival_ms=4 * S)
    bench.send(Priced("a", 2), arrival_ms=6 * S)
    bench.send(Ordered("a", 3, 4 * S), Ordered("a", 4, 5 * S))
    assert [s.what for s in bench.out(seen)] == ["Priced 1", "Ordered 3", "Ordered 4", "Priced 2"]
    bench.end()


def test_a_timestamp_that_goes_back_counts_as_the_highest_so_far() -> None:
    bench = Bench(service, partitions=1)
    bench.send(Scanned("a", 1), arrival_ms=5 * S)
    bench.send(Scanned("a", 2), arrival_ms=4 * S)
    assert [(s.what, s.now, s.late) for s in bench.out(seen)] == [
        ("Scanned 1", 5 * S, False),
        ("Scanned 2", 5 * S, True),
    ]
    assert bench.count("late") == 1
    bench.end()


def test_a_record_that_arrives_behind_the_clock_is_late() -> None:
    bench = parcels()
    bench.advance(8 * S)
    bench.send(Scanned("a", 1), arrival_ms=6 * S)
    (only,) = bench.out(seen)
    assert (only.late, only.now) == (True, 8 * S + 1)
    assert bench.count("late") == 1
    bench.end()


def test_a_bound_covers_the_way_from_the_producer_to_the_broker() -> None:
    slow = ms.Service("slow")
    given = slow.input("scans", Scanned, key="parcel", time=ms.arrival, bound_ms=3 * S)
    told = slow.output("told", Scanned, key="parcel")

    @slow.on(given)
    def pass_on(ctx: ms.Context[None], e: Scanned) -> None:
        ctx.emit(told, e)

    bench = Bench(slow)
    bench.send(Scanned("a", 1), arrival_ms=5 * S)
    bench.send(Scanned("a", 2), arrival_ms=3 * S)
    assert [s.number for s in bench.out(told)] == [2, 1]
    assert bench.count("late") == 0
    bench.end()


def test_a_record_without_a_timestamp_is_a_dead_letter() -> None:
    run = Run(Plan(service), BOUND_MS, dict.fromkeys(range(3), 1), 2, False)
    code = next(t.code for t in run.plan.input_topics() if t.name == "scans")
    value = run.plan.codecs[Scanned].encode(Scanned("a", 1))
    run.sim.batch([Input(code, 0, 0, -1, None, value, [], whole=True)])
    assert run.sim.counts == {"dead_letters.bad_timestamp": 1}


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"max_future_ms": 1}, "time=ms.arrival with max_future_ms or ordered=False"),
        ({"ordered": False}, "time=ms.arrival with max_future_ms or ordered=False"),
        ({"timed": True}, "timed=True with a time or limits"),
    ],
)
def test_what_contradicts_arrival_is_refused(declared: dict[str, int], problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        ms.Service("wrong").input("scans", Scanned, key="parcel", time=ms.arrival, **declared)  # type: ignore[arg-type]


# The model


@dataclass
class Log:
    """Records in the order in which the brokers received them, and the looks of a planner in between."""

    records: list[Input] = field(default_factory=list)
    looks: list[tuple[int, int, set[Partition]]] = field(default_factory=list)  # records so far, clock, open partitions
    sent: dict[tuple[int, int, int], Priced | Scanned] = field(default_factory=dict)


CODES = {t.name: t.code for t in Plan(service).input_topics()}
RANKS = {t.code: t.rank for t in Plan(service).input_topics()}
PLACES = [(CODES[name], partition) for name in ("prices", "scans") for partition in range(PARTITIONS)]


def random_log(chance: random.Random) -> Log:
    """Some partitions are quiet. Timestamps go back after a change of leader, or because the records were in an open
    transaction. They do not go behind a look that counted the partition: what comes there is late by the plan's
    decision."""
    log, now, number = Log(), 20_000 * S, 0
    highs: dict[Partition, int] = {}
    offsets = dict.fromkeys(PLACES, 0)
    plan = Plan(service)
    spoken = chance.sample(PLACES, chance.randint(1, len(PLACES)))
    for _ in range(chance.randint(1, 40)):
        now += chance.choice((0, 0, 1, 500, 4 * S, 12 * S))
        if chance.random() < 0.25:
            log.looks.append((len(log.records), now, {tp for tp in PLACES if chance.random() < 0.2}))
            continue
        place = chance.choice(spoken)
        looked_at = max((at for _, at, open_partitions in log.looks if place not in open_partitions), default=0)
        back = chance.choice((0, 0, 0, 3 * S))
        if max(highs.get(place, 0), now - back) < looked_at:
            back = 0
        number += 1
        cls = Priced if place[0] == CODES["prices"] else Scanned
        record = cls(chance.choice("ab"), number)
        highs[place] = max(highs.get(place, 0), now - back)
        at = (*place, offsets[place])
        offsets[place] += 1
        log.sent[at] = record
        log.records.append(Input(*at, now - back, None, plan.codecs[cls].encode(record), [], whole=True))
    return log


def modelled(log: Log) -> list[Seen]:
    """All steps to the end of time, from the log as a whole: sorted, then merged with the timers."""
    highs: dict[Partition, int] = {}
    events = []
    for r in log.records:
        place = (r.topic, r.partition)
        order_time = max(r.timestamp_ms, highs.get(place, NO_TIME))
        highs[place] = order_time
        events.append((order_time, RANKS[r.topic], r.topic, r.partition, r.offset, order_time > r.timestamp_ms))
    events.sort()
    timers: dict[str, tuple[int, tuple[int, ...]]] = {}
    steps: dict[str, int] = {}
    shown: list[Seen] = []

    def tell(parcel: str, what: str, now: int, late: bool) -> None:
        shown.append(Seen(parcel, what, now, late, steps.get(parcel, 0)))
        steps[parcel] = steps.get(parcel, 0) + 1

    def run_timers(before: int) -> None:
        while due := sorted((at, cause, parcel) for parcel, (at, cause) in timers.items() if at < before):
            at, _, parcel = due[0]
            del timers[parcel]
            tell(parcel, "gone", at, False)

    for event in events:
        run_timers(event[0])
        record = log.sent[event[2], event[3], event[4]]
        tell(record.parcel, f"{type(record).__name__} {record.number}", event[0], event[5])
        if isinstance(record, Scanned):
            timers[record.parcel] = (event[0] + WAIT_MS, event[:5])
    run_timers(1 << 62)
    return shown


def batches(log: Log, chance: random.Random) -> Iterator[tuple[list[Input], dict[Partition, int]]]:
    """A batch for each look, and some without one. A batch that does not read to the end of a partition gives it no
    clock."""
    start = 0
    for end, clock_ms, open_partitions in log.looks:
        if chance.random() < 0.3:
            continue
        cut = chance.randint(start, end)
        yield log.records[start:cut], {}
        yield log.records[cut:end], {tp: clock_ms for tp in PLACES if tp not in open_partitions}
        start = end
    yield log.records[start:], {}


def steps_of(log: Log, chance: random.Random) -> list[Seen]:
    run = Run(Plan(service), BOUND_MS, dict.fromkeys(CODES.values(), PARTITIONS), chance.randint(1, 4), False)
    orders = [(CODES["orders"], partition) for partition in range(PARTITIONS)]
    for records, clocks in batches(log, chance):
        if chance.random() < 0.2:
            run._lose(records, False, clocks)
        run.sim.batch(records, idle=orders, clocks=clocks)
    run.sim.batch([], drain=True)
    assert run.sim.counts.get("late", 0) == sum(s.late for s in modelled(log))
    return [step for _, step in run.keyed(seen)]


@pytest.mark.property
def test_steps_are_those_of_a_model_in_any_batches_and_after_lost_ones() -> None:
    waited = 0
    for seed in range(examples(600)):
        chance = random.Random(seed)
        log = random_log(chance)
        expected = modelled(log)
        waited += sum(step.what == "gone" for step in expected)
        for _ in range(2):
            assert steps_of(log, chance) == expected, f"seed {seed}"
    assert waited > 50

"""A replay that follows the recorded watermarks gives the records of the live run, also where idle partitions or the
broker's clock have made events late. In memory, with the chunks of the bootstrap."""

from __future__ import annotations

import random
from collections.abc import Sequence

from moneystate.bootstrap.chunks import cut_at
from moneystate.bootstrap.history import PartitionHistory
from moneystate.engine.items import NO_TIME
from moneystate.engine.order import Partition
from moneystate.engine.plan import Reached, TopicPartition
from moneystate.runtime.plan import Plan
from moneystate.testing.run import Run
from moneystate.testing.simulation import Input
from tests.api.services.parcels import Ordered, Priced, Scanned, service
from tests.budget import examples

S = 1_000
BOUND_MS = 2 * S
PARTITIONS = 2
PLAN = Plan(service)
TOPICS = {t.name: t for t in PLAN.input_topics()}
NAMES = {t.code: t.name for t in TOPICS.values()}
PLACES = [(t.code, partition) for t in TOPICS.values() for partition in range(PARTITIONS)]
BOUNDS = {t.code: 0 if t.arrival else BOUND_MS for t in TOPICS.values()}


def run_of(chance: random.Random) -> Run:
    return Run(PLAN, BOUND_MS, dict.fromkeys(NAMES, PARTITIONS), chance.randint(1, 4), False)


def name_of(place: Partition) -> TopicPartition:
    return NAMES[place[0]], place[1]


def random_record(chance: random.Random, place: Partition, offset: int, now_ms: int, number: int) -> Input:
    """Times go back by more than any bound."""
    time_ms = now_ms - chance.choice((0, 0, 1, 5 * S, 30 * S))
    made: Ordered | Priced | Scanned
    if TOPICS["orders"].code == place[0]:
        made = Ordered(chance.choice("ab"), number, time_ms)
    else:
        made = (Priced if TOPICS["prices"].code == place[0] else Scanned)(chance.choice("ab"), number)
    return Input(*place, offset, time_ms, None, PLAN.codecs[type(made)].encode(made), [], whole=True)


class Live:
    """A live run with idle partitions and clocks, and what its checkpoint records."""

    def __init__(self, chance: random.Random) -> None:
        self.run = run_of(chance)
        self.log: list[Input] = []
        self.reached: list[Reached] = []
        self.late = 0  # events that are late by a decision
        self.ends = dict.fromkeys(PLACES, 0)
        now_ms = 20_000 * S
        for _ in range(chance.randint(1, 12)):
            now_ms += chance.choice((0, 500, 20 * S))
            self._batch([self._record(chance, now_ms) for _ in range(chance.randint(0, 5))], now_ms, chance)
        self._keep(self.ends, self.run.sim.watermark)

    def _record(self, chance: random.Random, now_ms: int) -> Input:
        place = chance.choice(PLACES)
        number = sum(record[:2] == place for record in self.log)
        record = random_record(chance, place, number, now_ms, len(self.log))
        self.log.append(record)
        return record

    def _batch(self, records: Sequence[Input], now_ms: int, chance: random.Random) -> None:
        orders = [place for place in PLACES if not TOPICS[NAMES[place[0]]].arrival]
        idle = [place for place in orders if chance.random() < 0.7]
        clocks = {place: now_ms for place in PLACES if place not in orders and chance.random() < 0.7}
        self.run.sim.batch(records, idle=idle, clocks=clocks)
        if self.run.sim.behind:
            self.late += self.run.sim.behind
            self._keep(self.ends, self.run.sim.before)
        for record in records:
            self.ends[record.topic, record.partition] = record.offset + 1

    def _keep(self, ends: dict[Partition, int], watermark_ms: int) -> None:
        if watermark_ms != NO_TIME:
            self.reached.append(Reached({name_of(place): end for place, end in ends.items()}, watermark_ms))


def replayed(live: Live, chance: random.Random) -> Run:
    run = run_of(chance)
    by_name = {name_of(place): place for place in PLACES}
    history = [PartitionHistory(*name_of(place), 0, live.ends[place]) for place in PLACES]
    chunks, watermarks = cut_at(history, chance.randint(1, 10), live.reached)
    for number, chunk in enumerate(chunks):
        spans = {by_name[tp]: span for tp, span in chunk.items()}
        run.sim.batch([r for r in live.log if r.offset in range(*spans[r.topic, r.partition])])
        if number in watermarks:
            run.sim.batch([], clocks={place: watermarks[number] + BOUNDS[place[0]] for place in PLACES})
    return run


def test_a_replay_that_follows_the_recorded_watermarks_equals_the_live_run() -> None:
    late = 0
    for seed in range(examples(300)):
        chance = random.Random(seed)
        live = Live(chance)
        late += live.late
        replay = replayed(live, chance)
        assert replay.sim.watermark == live.run.sim.watermark
        for run in (live.run, replay):
            run.sim.batch([], drain=True)
        live.run.check_same(replay)
    assert late > 50


def test_without_them_it_does_not() -> None:
    """So the test above can fail."""
    chance = random.Random(1)
    runs = []
    for _ in range(20):
        live = Live(chance)
        live.reached = []
        replay = replayed(live, chance)
        for run in (live.run, replay):
            run.sim.batch([], drain=True)
        runs.append((live.run.sim.counts, replay.sim.counts))
    assert any(one != other for one, other in runs)


def test_a_watermark_that_was_reached_beyond_the_history_does_not_count() -> None:
    history = [PartitionHistory("scans", 0, 0, 10)]
    within, beyond = Reached({("scans", 0): 4}, 1_000), Reached({("scans", 0): 50}, 9_000)
    chunks, watermarks = cut_at(history, 100, [within, within, beyond])
    assert [chunk["scans", 0] for chunk in chunks] == [(0, 4), (4, 10)]
    assert watermarks == {0: 1_000}

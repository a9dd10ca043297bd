"""However records are spread over partitions: the same outputs and the same fingerprint of the state. In event time
this holds for records that are not late, in arrival order for records that keep their timestamps
(docs/partitioning.md).

What waits, such as a timer, names the place of the record that it waits for. So the runs end with a drain.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moneystate.engine.items import Output
from moneystate.ports.service import JobSpec
from moneystate.records.platform_records import Heartbeat
from moneystate.runtime.job import job_spec
from moneystate.runtime.plans import plan_of
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import Fingerprint, of_facts
from moneystate.testing.run import Run
from moneystate.testing.simulation import Input, Simulation
from tests.api.services.parcels import Ordered, Priced, Scanned
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import Rules as EnrichmentRules
from tests.enrichment.jobs import enrichment_job
from tests.enrichment.topics import CODES
from tests.reference.model import Rules
from tests.workloads.workload_log import workload_log

PARTITIONINGS = 20
MOST_PARTITIONS = 64
PARCELS = "tests.api.services.parcels:service"
BOUND_MS = 20_000
S = 1_000
END_MS = 405 * S  # behind the log, and before some timers


class Spread(NamedTuple):
    """A log, and how many partitions its topics have."""

    records: list[Input]
    partitions: dict[int, int]  # by the topic's code

    def places(self) -> list[tuple[int, int]]:
        return [(topic, p) for topic, n in self.partitions.items() for p in range(n)]


class Result(NamedTuple):
    """All that must not depend on the partitions. Places of records do: headers with the lineage are not compared."""

    outputs: dict[tuple[int, bytes | None], list[bytes | None]]  # values by stream and key, in order
    fingerprint: Fingerprint
    late: int


def spread(
    records: Sequence[Input], topics: Iterable[int], chance: random.Random, most: int = MOST_PARTITIONS
) -> Spread:
    """Each record on a random partition of its topic. A partition has its records in the order of the log, and some
    stay empty."""
    partitions = {topic: chance.randint(1, most) for topic in topics}
    ends: Counter[tuple[int, int]] = Counter()
    placed = []
    for record in records:
        place = (record.topic, chance.randrange(partitions[record.topic]))
        placed.append(record._replace(partition=place[1], offset=ends[place]))
        ends[place] += 1
    return Spread(placed, partitions)


def closed(log: Spread, heartbeat: bytes, topics: Iterable[int], time_ms: int) -> list[Input]:
    """The log with a heartbeat at the end of each partition."""
    ends = Counter((r.topic, r.partition) for r in log.records)
    last = [
        Input(topic, p, ends[topic, p], time_ms, None, heartbeat, [])
        for topic in topics
        for p in range(log.partitions[topic])
    ]
    return [*log.records, *last]


def run(sim: Simulation, records: list[Input], clocks: dict[tuple[int, int], int], chance: random.Random) -> None:
    """In random batches, of which the last one has the clocks, and a drain."""
    cuts = sorted(chance.randint(0, len(records)) for _ in range(chance.randint(0, 4)))
    start = 0
    for end in cuts:
        sim.batch(records[start:end])
        start = end
    sim.batch(records[start:], clocks=clocks)
    sim.batch([], drain=True)


def result_of(sim: Simulation, job: JobSpec) -> Result:
    groups = [of_facts(facts(sorted(s.entries.items()), job.state, job.rules, with_clock=False)) for s in sim.states]
    return Result(by_key(sim.outputs), sum(groups, Fingerprint()), sim.counts.get("late", 0))


def by_key(outputs: list[Output]) -> dict[tuple[int, bytes | None], list[bytes | None]]:
    values: dict[tuple[int, bytes | None], list[bytes | None]] = {}
    for stream, key, value, _ in outputs:
        values.setdefault((stream, key), []).append(value)
    return values


# A service with inputs in both orders


def parcels_log(chance: random.Random) -> list[Input]:
    """Prices and scans by arrival, orders by event time. Each time is there once: where two records of a key have one
    time, the partition decides their order."""
    plan = plan_of(PARCELS)
    codes = {t.name: t.code for t in plan.input_topics()}
    made: list[tuple[int, Input]] = []
    for number, now in enumerate(sorted(chance.sample(range(100 * S, 400 * S), 400))):
        parcel = f"parcel-{chance.randrange(30)}"
        kind = chance.choice((Priced, Scanned, Ordered))
        if kind is Ordered:
            value = plan.codecs[Ordered].encode(Ordered(parcel, number, now))
            reaches = now + chance.randrange(BOUND_MS)
            made.append((reaches, Input(codes["orders"], 0, 0, reaches, None, value, [])))
        else:
            record = Priced(parcel, number) if kind is Priced else Scanned(parcel, number)
            value = plan.codecs[kind].encode(record)
            topic = codes["prices" if kind is Priced else "scans"]
            made.append((now, Input(topic, 0, 0, now, None, value, [], whole=True)))
    return [record for _, record in sorted(made, key=lambda one: one[0])]


def parcels_result(log: Spread, chance: random.Random, end_ms: int) -> Result:
    job, plan = job_spec(PARCELS, {"bound_ms": BOUND_MS}), plan_of(PARCELS)
    arrivals = [t.code for t in job.inputs if t.arrival]
    others = [t.code for t in job.inputs if not t.arrival]
    sim = Run(plan, BOUND_MS, log.partitions, chance.randint(1, 5), False).sim
    clocks = {(topic, p): end_ms for topic in arrivals for p in range(log.partitions[topic])}
    run(sim, closed(log, plan.heartbeat.encode(Heartbeat(end_ms + BOUND_MS)), others, end_ms), clocks, chance)
    return result_of(sim, job)


def test_a_service_with_both_orders_gives_the_same_in_any_partitioning() -> None:
    chance = random.Random(7)
    log, topics = parcels_log(chance), [t.code for t in plan_of(PARCELS).input_topics()]
    whole = parcels_result(spread(log, topics, chance, most=1), chance, END_MS)
    what = [value for values in whole.outputs.values() for value in values if value is not None]
    assert (len(what) > len(log), whole.late) == (True, 0), "timers have run"
    for _ in range(PARTITIONINGS):
        assert parcels_result(spread(log, topics, chance), chance, END_MS) == whole


# The enrichment


def enrichment_result(log: Spread, chance: random.Random) -> Result:
    rules = Rules(bound_ms=BOUND_MS, lookup=False)
    names = {code: name for name, code in CODES.items()}
    places = [(names[topic], p) for topic, p in log.places()]
    sim = simulation(rules, places, chance.randint(1, 6))
    run(sim, log.records, {}, chance)
    return result_of(sim, enrichment_job(EnrichmentRules(bound_ms=BOUND_MS, lookup=False)))


def test_the_enrichment_gives_the_same_in_any_partitioning() -> None:
    chance = random.Random(11)
    flags = "--partitions 1 --events 1500 --users 60 --disorder-ms 2000 --duplicate-within-ms 2000 --late 0 --garbage 0"
    log = inputs(workload_log(*flags.split())[0])
    topics = {record.topic for record in log}
    whole = enrichment_result(spread(log, topics, chance, most=1), chance)
    assert (sum(map(len, whole.outputs.values())) > 1_400, whole.late) == (True, 0)
    for _ in range(PARTITIONINGS):
        assert enrichment_result(spread(log, topics, chance), chance) == whole

"""A bootstrap to any cut, and live from there, is what live from the start is: in state and in output."""

from __future__ import annotations

import random
import tempfile
from dataclasses import asdict
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.bootstrap.files import FORMATS
from services.enrichment import topics
from services.enrichment.rules import Rules
from services.savepoint.format import Savepoint
from tests.bootstrap.harness import bootstrap, fingerprint, write_archive
from tests.enrichment.harness import dead_letters, enriched, inputs, requests, simulation
from tests.reference.strategies import Case, cases
from tests.simulate import Input, Simulation

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def ordered(case: Case, seed: int) -> list[Input]:
    """All records, partitions in their own order and mixed at random."""
    queues: dict[tuple[int, int], list[Input]] = {}
    for record in inputs(case.records + (case.replies if case.rules.lookup else [])):
        queues.setdefault((record.topic, record.partition), []).append(record)
    rng = random.Random(seed)
    mixed = []
    while queues:
        place = rng.choice(sorted(queues))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def job(case: Case, records: list[Input]) -> Simulation:
    replies = {p for t, p, *_ in records if t == topics.LOOKUP_RESULTS}
    return simulation(case.rules, [*case.partitions, *(("session-lookup-results", p) for p in sorted(replies))])


def rules_of(case: Case) -> Rules:
    names = asdict(Rules())
    return Rules(**{name: getattr(case.rules, name) for name in names})


def planes(sim: Simulation) -> tuple[object, ...]:
    return enriched(sim), requests(sim), dead_letters(sim)


def contiguous(records: list[Input]) -> list[Input]:
    """Partition numbers and offsets as Kafka gives them."""
    ends: dict[tuple[int, int], int] = {}
    again = []
    for r in records:
        place = (r.topic, r.partition)
        again.append(r._replace(offset=ends.get(place, 0)))
        ends[place] = again[-1].offset + 1
    return again


@QUICK
@given(cases(least_ms=1), st.integers(0, 2**32), st.integers(0, 200), st.sampled_from(FORMATS), st.integers(1, 40))
def test_bootstrap_to_any_cut_and_live_from_there_is_live_from_the_start(
    case: Case, seed: int, at: int, file_format: str, chunk: int
) -> None:
    records = contiguous(ordered(case, seed))
    before = at % (len(records) + 1)
    rules = rules_of(case)
    live, after = job(case, records), job(case, records)
    live.batch(records[:before])
    with tempfile.TemporaryDirectory() as folder:
        places = sorted(live.partitions)
        write_archive(Path(folder, "archive"), records[:before], places, file_format)
        if rules.lookup:
            Path(folder, "archive", "session-lookup-results").mkdir(exist_ok=True)
        made = bootstrap(
            rules, Path(folder, "savepoint"), sources=[str(Path(folder, "archive"))], with_output=True,
            max_records_per_chunk=chunk,
        )  # fmt: skip
        assert made.manifest.fingerprint == fingerprint(live, rules)
        assert made.manifest.counts == sums(live)
        begin_with(after, made)
    for sim in (live, after):
        sim.batch(records[before:])
    assert fingerprint(after, rules) == fingerprint(live, rules)
    assert planes(after) == planes(live)


def sums(sim: Simulation) -> dict[str, int]:
    return dict(sim.counts)


def begin_with(sim: Simulation, made: Savepoint) -> None:
    """State and output so far, as the start from a savepoint has them."""
    for group in range(sim.key_groups):
        sim.states[group].entries.update(made.entries(group))
        sim.outputs.extend(made.outputs(group))

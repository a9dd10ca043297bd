"""A bootstrap to any cut, and live from there, is what live from the start is: in state and in output."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.bootstrap.files import FORMATS
from moneystate.savepoint.format import Savepoint
from moneystate.testing.simulation import Input, Simulation
from tests.bootstrap.harness import bootstrap, fingerprint, write_archive
from tests.budget import examples
from tests.enrichment import topics
from tests.enrichment.harness import dead_letters, enriched, interleaved, requests, simulation
from tests.enrichment.jobs import Rules
from tests.reference.strategies import Case, cases

FEW = settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
KEY_GROUPS = 2


def contiguous(records: list[Input]) -> list[Input]:
    """Offsets as Kafka gives them to partitions that get nothing else."""
    ends: dict[tuple[int, int], int] = {}
    again = []
    for r in records:
        offset = ends.get((r.topic, r.partition), 0)
        again.append(r._replace(offset=offset))
        ends[r.topic, r.partition] = offset + 1
    return again


def job(case: Case, records: list[Input]) -> Simulation:
    replies = max((r.partition for r in records if r.topic == topics.LOOKUP_RESULTS), default=-1) + 1
    places = [*case.partitions, *(("session-lookup-results", p) for p in range(replies))]
    return simulation(case.rules, places, KEY_GROUPS)


def rules_of(case: Case) -> Rules:
    return Rules(**{name: getattr(case.rules, name) for name in asdict(Rules())})


def bootstrapped(case: Case, records: list[Input], file_format: str, chunk: int, into: Simulation) -> str:
    """Put the state and output of a bootstrap from `records` into a job; the fingerprint of its savepoint."""
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder, "archive"), Path(folder, "savepoint")
        write_archive(archive, records, into.partitions, file_format)
        if case.rules.lookup:
            (archive / "session-lookup-results").mkdir(exist_ok=True)
        made = bootstrap(
            rules_of(case), out, sources=[str(archive)], with_output=True, key_groups=KEY_GROUPS,
            max_records_per_chunk=chunk,
        )  # fmt: skip
        begin_with(into, made)
        return made.manifest.fingerprint


def begin_with(sim: Simulation, made: Savepoint) -> None:
    for group in range(sim.key_groups):
        sim.states[group].entries.update(made.entries(group))
        sim.outputs.extend(made.outputs(group))


any_cut, any_chunk, any_format = st.integers(0, 200), st.integers(1, 40), st.sampled_from(FORMATS)


@FEW
@given(cases(least_ms=1), st.integers(0, 2**32), any_cut, any_format, any_chunk)
def test_bootstrap_to_any_cut_and_live_from_there_is_live_from_the_start(
    case: Case, seed: int, cut: int, file_format: str, chunk: int
) -> None:
    records = contiguous(interleaved(case, seed))
    before = records[: cut % (len(records) + 1)]
    live, continued = job(case, records), job(case, records)
    live.batch(before)
    assert bootstrapped(case, before, file_format, chunk, continued) == fingerprint(live, rules_of(case))
    for sim in (live, continued):
        sim.batch(records[len(before) :])
    assert fingerprint(continued, rules_of(case)) == fingerprint(live, rules_of(case))
    assert continued.counts == live.counts
    assert {u: sorted(v) for u, v in enriched(continued).items()} == {u: sorted(v) for u, v in enriched(live).items()}
    assert requests(continued) == requests(live)
    assert dead_letters(continued) == dead_letters(live)

"""Jobs of the enrichment on a log in memory: the output is the reference model's, whatever the batches and kills."""

from __future__ import annotations

import pytest

from tests.job.test_workload import check_bounded_run, check_lineage
from tests.local.in_memory import InMemory
from tests.local.outcomes import check_kills
from tests.reference.builder import LogBuilder

STEPS = ("planned@1", "begun@1", "produced@1", "marked@1", "committed@1", "sunk@1", "stored@1")


def test_a_bounded_run_gives_the_references_output_once(in_memory: InMemory) -> None:
    check_bounded_run(in_memory)
    check_lineage(in_memory)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_a_step_neither_repeats_nor_loses_a_record(in_memory: InMemory, step: str) -> None:
    check_kills(in_memory, (step,))


def test_a_kill_after_each_step_neither_repeats_nor_loses_a_record(in_memory: InMemory) -> None:
    check_kills(in_memory, STEPS)


def test_a_bounded_run_names_the_partition_that_holds_it_back(in_memory: InMemory) -> None:
    setup = in_memory
    log = LogBuilder()
    log.money("m1", at=10)
    log.beats(at=100)
    setup.create_inputs(partitions=1)
    setup.send(log.records[:-1])  # the last one is the heartbeat of user-session-events
    done = setup.run("--until-caught-up", "--json")
    assert "user-session-events/0" in done.err
    assert done.totals["silent_partitions"] == ["user-session-events/0"]
    assert (done.totals["watermark_ms"], done.totals["buffered"], setup.enriched()) == (None, 1, [])

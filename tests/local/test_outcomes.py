"""Jobs of the enrichment on a log in memory: the output is the reference model's, whatever the batches and kills."""

from __future__ import annotations

import pytest

from tests.job.test_workload import check_bounded_run, check_lineage
from tests.local.in_memory import InMemory
from tests.local.outcomes import check_kills

STEPS = ("planned@1", "begun@1", "produced@1", "marked@1", "committed@1", "sunk@1", "stored@1")


def test_a_bounded_run_gives_the_references_output_once(in_memory: InMemory) -> None:
    check_bounded_run(in_memory)
    check_lineage(in_memory)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_a_step_neither_repeats_nor_loses_a_record(in_memory: InMemory, step: str) -> None:
    check_kills(in_memory, (step,))


def test_a_kill_after_each_step_neither_repeats_nor_loses_a_record(in_memory: InMemory) -> None:
    check_kills(in_memory, STEPS)

"""The whole process tree is killed after steps of the commit protocol that `moneystate.kafka.sink` numbers, and of a
start's that `moneystate.kafka.claims` numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moneystate.job.checkpoint import Checkpoint
from tests.job.harness import Setup, counts, small_workload
from tests.kafka.logs import producers_begun
from tests.log_lines import kinds
from tests.reference.model import Rules

RULES = Rules(lookup=False)
FLAGS = ("--until-caught-up", "--drain", "--json", "--max-records-per-batch", "300")
CHECKPOINT = 4  # exit code
STEPS = ("claimed", "fenced", "planned", "init", "marker read", "begun", "produced", "marked")  # before the commit
# What a restart finds is different after each of these; `make chaos` kills at all of them.
TELLING = ("fenced", "produced", "marked")


def test_a_kill_before_the_commit_neither_repeats_nor_loses_a_record(setup: Setup) -> None:
    """The first batch is there, the second is produced and marked, and not committed."""
    setup.create_inputs()
    setup.send(small_workload("--events", "1200", "--flush-marker"))
    setup.kill_at("marked@1", *FLAGS)
    assert Checkpoint(str(setup.checkpoint)).last_committed() == 0
    assert setup.enriched()
    done = setup.run(*FLAGS)
    want = setup.check_output(RULES, drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)


@pytest.mark.long
def test_a_kill_at_any_step_neither_repeats_nor_loses_a_record(setup: Setup) -> None:
    kill_at_each(setup, TELLING)


def kill_at_each(setup: Setup, steps: Sequence[str] = STEPS) -> None:
    """One checkpoint, killed at step after step: a restart begins with the current batch, by new producers."""
    setup.create_inputs()
    setup.send(small_workload("--events", "1200", "--flush-marker"))
    checkpoint = Checkpoint(str(setup.checkpoint))
    seen = 0
    setup.kill_at("planned@1", *FLAGS)
    for step in steps:  # until the commit nothing of the batch is to be seen
        setup.kill_at(f"{step}@1", *FLAGS)
        assert (checkpoint.last_planned(), checkpoint.last_committed()) == (1, 0)
        seen = seen or len(setup.enriched())
        assert len(setup.enriched()) == seen > 0
    setup.kill_at("committed@1", *FLAGS)
    assert checkpoint.last_committed() == 0
    setup.kill_at("sunk@2", *FLAGS)  # batch 1 was found to be written, and is not written again
    assert (checkpoint.last_planned(), checkpoint.last_committed()) == (2, 1)
    before = begun(setup)
    done = setup.run(*FLAGS)
    # one producer for all the batches of a run, after the one that fences those of the run before
    assert begun(setup) == [count + 2 for count in before]
    want = setup.check_output(RULES, drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)


def begun(setup: Setup) -> list[int]:
    """How many producers each output partition has had."""
    producers = producers_begun(setup.bootstrap_servers)
    return [producers[f"{setup.prefix}-{partition}"] for partition in range(setup.partitions)]


def test_a_second_instance_takes_over_and_the_first_says_so(setup: Setup) -> None:
    setup.create_inputs()
    records = small_workload("--events", "600", "--flush-marker")
    setup.send(records[: len(records) // 2])
    checkpoint = Checkpoint(str(setup.checkpoint))
    with setup.start("--quiet") as first:
        first.wait_for(lambda: checkpoint.last_committed() >= 0, "batch 0")
        with setup.start(*FLAGS) as second:
            replaced = first.finish()  # with nothing to write: it looks for itself
            setup.send(records[len(records) // 2 :])
            done = second.finish()
    assert replaced.code == CHECKPOINT
    assert kinds(replaced.err) == ["error:"], replaced.err
    assert f"process {second.process.pid}," in replaced.err
    assert done.code == 0, done.err

"""`moneystate run --local` on a real broker: the records and the state of a job on Spark, after kills too.

The runs are those of the enrichment, because its reference model covers the most rules."""

from __future__ import annotations

import pytest

from moneystate.spark.checkpoint import Checkpoint
from tests.job.harness import ENRICHED, Setup, counts, moneystate, small_workload
from tests.job.test_workload import FLAGS as ON_SPARK
from tests.job.test_workload import RULES, check_bounded_run

FLAGS = ("--local", *ON_SPARK)
BOUNDED = ("--until-caught-up", "--drain", *FLAGS)


def test_a_bounded_run_gives_the_references_output_once(setup: Setup) -> None:
    check_bounded_run(setup, "--local")
    elsewhere = setup.refused(*[flag for flag in BOUNDED if flag != "--local"])
    assert "expected the checkpoint of a job on Spark, found that of a local run" in elsewhere.err


def test_a_kill_after_any_step_neither_repeats_nor_loses_a_record(setup: Setup) -> None:
    _kill_after(setup, ("sunk@1", "stored@2"))


@pytest.mark.long
def test_a_kill_after_each_step_neither_repeats_nor_loses_a_record(setup: Setup) -> None:
    _kill_after(setup, ("planned@1", "begun@1", "produced@1", "marked@1", "committed@1", "sunk@1", "stored@1"))


def _kill_after(setup: Setup, steps: tuple[str, ...]) -> None:
    log = small_workload("--events", "1200", "--flush-marker")
    setup.create_inputs()
    setup.send(log)
    few = (*BOUNDED, "--max-records-per-batch", str(len(log) // 4 + 1))
    for step in steps:
        setup.kill_at(step, *few)
    with setup.start(*few) as job:
        done = job.finish()
    assert done.code == 0, done.err
    want = setup.check_output(RULES, drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)


def test_a_live_run_ends_with_its_batch(setup: Setup) -> None:
    _live(setup)


@pytest.mark.long
def test_a_replay_of_a_live_run_on_spark_agrees(setup: Setup) -> None:
    _live(setup)
    replay = ["verify-replay", "--checkpoint", setup.checkpoint, "--json", "--quiet"]
    verdict = moneystate([*replay, "--bootstrap-servers", setup.bootstrap_servers], setup.folder)
    assert verdict.totals["agrees"]


def _live(setup: Setup) -> None:
    log = small_workload("--events", "1200")
    setup.create_inputs()
    setup.send(log[:800])
    with setup.start(*FLAGS, "--idle-timeout", "2s") as job:
        job.wait_for(lambda: ENRICHED in setup.topics() and bool(setup.enriched()), "the first outputs")
        setup.send(log[800:])
        before = len(setup.enriched())
        job.wait_for(lambda: len(setup.enriched()) > before, "more outputs")
        done = job.stop()
    assert done.code == 0, done.err
    checkpoint = Checkpoint(str(setup.checkpoint))
    assert checkpoint.last_planned() == checkpoint.last_committed()

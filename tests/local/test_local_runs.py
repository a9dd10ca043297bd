"""`moneystate run --local` on a real broker: the records and the state of a job on Spark, after kills too.

The runs are those of the enrichment, because its reference model covers the most rules."""

from __future__ import annotations

import pytest

from moneystate.job.checkpoint import Checkpoint
from tests.job.harness import ENRICHED, Setup, moneystate, small_workload
from tests.job.test_workload import FLAGS as ON_SPARK
from tests.job.test_workload import check_bounded_run
from tests.local.outcomes import check_kills

FLAGS = ("--local", *ON_SPARK)


def test_a_bounded_run_gives_the_references_output_once(setup: Setup) -> None:
    check_bounded_run(setup, "--local")
    elsewhere = setup.refused("--until-caught-up", "--drain", *ON_SPARK)
    assert "expected the checkpoint of a job on Spark, found that of a local run" in elsewhere.err


def test_a_kill_after_any_step_neither_repeats_nor_loses_a_record(setup: Setup) -> None:
    check_kills(setup, ("sunk@1", "stored@2"))


def test_a_live_run_ends_with_its_batch(setup: Setup) -> None:
    _live(setup)


@pytest.mark.long
def test_replays_of_a_live_run_agree_on_spark_and_without_it(setup: Setup) -> None:
    _live(setup)
    replay = ["verify-replay", "--checkpoint", setup.checkpoint, "--json", "--quiet"]
    connection = ["--bootstrap-servers", setup.bootstrap_servers]
    for master in ([], ["--master", "local[2]"]):  # without Spark, and on it
        assert moneystate([*replay, *connection, *master], setup.folder).totals["agrees"]


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

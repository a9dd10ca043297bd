"""The job through spark-submit on a standalone cluster: executors are processes of their own, as in production."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

import pytest

from moneystate.job.checkpoint import Checkpoint
from tests.job.harness import Finished, JobProcess, Setup, counts, small_workload
from tests.job.spark_cluster import cluster, submitted
from tests.reference.model import Rules
from tests.waiting import until

KILLS = 1  # each costs the start of a JVM and of its Python; `make chaos ARGS=executors` has more
AT_ONCE_S = 20.0
DYNAMIC = (
    "spark.dynamicAllocation.enabled=true",
    "spark.dynamicAllocation.shuffleTracking.enabled=true",
    "spark.dynamicAllocation.executorIdleTimeout=2s",
    "spark.dynamicAllocation.minExecutors=1",
)
DECOMMISSION = (
    "spark.decommission.enabled=true",
    "spark.storage.decommission.enabled=true",
    "spark.storage.decommission.shuffleBlocks.enabled=true",
)


@pytest.mark.long
@pytest.mark.parametrize("stop", [JobProcess.stop, JobProcess.stop_group, JobProcess.stop_all])
def test_told_to_stop_it_finishes_the_batch_in_hand(setup: Setup, stop: Callable[[JobProcess], Finished]) -> None:
    """The process that plans is one that Spark starts itself here: without the fork server of a local run."""
    setup.create_inputs()
    records = small_workload("--events", "700")
    setup.send(records[: len(records) // 2])
    checkpoint = Checkpoint(str(setup.checkpoint))
    with submitted(setup, "local[2]", "--quiet") as job:
        job.wait_for(lambda: checkpoint.last_committed() >= 0, "batch 0")
        setup.send(records[len(records) // 2 :])
        job.wait_for(lambda: checkpoint.last_planned() > checkpoint.last_committed(), "a planned batch")
        done = stop(job)
        until(lambda: not job.tree(), lambda: f"{job.tree()} live on", AT_ONCE_S)
    assert done.code == 0, done.err
    assert checkpoint.last_planned() == checkpoint.last_committed() > 0


@pytest.mark.long
def test_executors_that_are_killed_change_nothing(setup: Setup) -> None:
    kill_executors(setup, KILLS, seed=5, conf=())


def kill_executors(
    setup: Setup,
    kills: int,
    seed: int,
    conf: tuple[str, ...],
    cores: tuple[int, ...] = (1, 2),
    records: int = 300,
    by: signal.Signals = signal.SIGKILL,
) -> None:
    """On machines with other numbers of cores. Executors get the signal while batches of so many records run."""
    setup.create_inputs()
    setup.send(small_workload("--events", "1000", "--flush-marker"))
    checkpoint, chosen = Checkpoint(str(setup.checkpoint)), random.Random(seed)
    flags = ("--until-caught-up", "--drain", "--json", "--max-records-per-batch", str(records))
    with cluster(setup.folder, cores) as spark:
        with submitted(setup, spark.master, *flags, conf=("spark.executor.memory=512m", *conf)) as job:
            for number in range(kills):
                job.wait_for(lambda n=number: checkpoint.last_committed() >= n, f"batch {number}")  # type: ignore[misc]
                job.wait_for(lambda: bool(spark.executors()), "an executor")
                chosen.choice(spark.executors()).send_signal(by)
            done = job.finish()
        assert done.code == 0, done.err
    want = setup.check_output(Rules(lookup=False), drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)

"""A job on a cluster: all that its executors share is a store, with the checkpoint and the state to begin with."""

from __future__ import annotations

import pytest

from moneystate.job.storage.savepoints import upload
from moneystate.savepoint.manifest import NAME
from tests.bootstrap.test_kafka import from_kafka
from tests.job.harness import Setup, small_workload
from tests.job.spark_cluster import cluster, submitted
from tests.job.test_crash import RULES
from tests.storage.hdfs import Hdfs

BOUNDED = ("--until-caught-up", "--json", "--max-records-per-batch", "300", "--quiet")
CORES = (1, 1)
# Each executor has a part of the first batch, which loads the savepoint: none begins late, or waits for another's.
SPREAD = (
    "spark.executor.memory=512m",
    f"spark.cores.max={sum(CORES)}",
    "spark.scheduler.minRegisteredResourcesRatio=1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime=60s",
    "spark.locality.wait=0s",
)
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # of the JVMs, which end before better code is worth its making
LIGHT = (f"spark.driver.extraJavaOptions={SMALL}", f"spark.executor.extraJavaOptions={SMALL}")


@pytest.mark.long
def test_each_executor_begins_with_its_own_copy_of_a_savepoint_in_a_store(setup: Setup, hdfs: Hdfs) -> None:
    savepoint, checkpoint = (f"{hdfs.address}/{setup.prefix}/{name}" for name in ("savepoint", "checkpoint"))
    log = small_workload("--events", "300", "--flush-marker")
    setup.create_inputs()
    setup.send(log[: len(log) // 2])
    upload(from_kafka(setup, "made", key_groups=8, with_output=True).folder, savepoint)
    setup.send(log[len(log) // 2 :])
    flags = (*BOUNDED, "--drain", "--checkpoint", checkpoint, "--initial-state", savepoint)
    with cluster(setup.folder, CORES) as spark, submitted(setup, spark.master, *flags, conf=(*SPREAD, *LIGHT)) as job:
        done = job.finish()
    assert done.code == 0, done.err
    setup.check_output(RULES, drain=True)
    assert not setup.checkpoint.exists()
    copies = setup.folder.glob(f"machine-*/work/*/*/savepoint/{NAME}")  # in the folders of executors
    assert len({copy.relative_to(setup.folder).parts[0] for copy in copies}) == len(CORES)

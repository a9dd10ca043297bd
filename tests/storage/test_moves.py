"""`moneystate rescale` and `serve --from-snapshot`, where checkpoints and savepoint are in a store."""

from __future__ import annotations

import json
from pathlib import Path

from tests.job.harness import Setup, moneystate, small_workload
from tests.job.test_crash import RULES
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.query.serving import Server, is_at, wait_for
from tests.query.test_from_snapshot import entries
from tests.storage.hdfs import Hdfs

BOUNDED = ("--until-caught-up", "--json", "--quiet")


def test_a_replica_begins_with_a_savepoint_and_a_job_is_rescaled_by_their_addresses(
    setup: Setup, hdfs: Hdfs, tmp_path: Path
) -> None:
    home, spark, warm = f"{hdfs.address}/{setup.prefix}", hdfs.flags, Warm()
    old, savepoint, new = (f"{home}/{name}" for name in ("checkpoint", "savepoint", "rescaled"))
    servers = ("--bootstrap-servers", setup.bootstrap_servers)
    log = small_workload("--events", "400", "--flush-marker")
    setup.create_inputs()
    setup.send(log[: len(log) // 2])
    moneystate(setup.arguments(*BOUNDED, *spark, "--checkpoint", old), setup.folder, warm)
    moneystate(["checkpoint", "export", "--checkpoint", old, "--out", savepoint, *servers, *spark], setup.folder, warm)
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    snapshot = ("--from-snapshot", savepoint, *spark)
    with Server(cluster, tmp_path / "saved", *snapshot, job=setup) as saved, saved.client() as client:
        wait_for(lambda: is_at(client, 0), saved.output)
        with Server(cluster, tmp_path / "whole", job=setup) as whole, whole.client() as other:
            wait_for(lambda: is_at(other, 0), whole.output)
            assert entries(client) == entries(other)
    warm.close()  # the job's process: rescale would wait for its end
    warm = Warm()
    places = ("--checkpoint", old, "--new-checkpoint", new, "--key-groups", "16")
    told = json.loads(moneystate(["rescale", *places, *servers, *spark, "--quiet", "--json"], setup.folder, warm).out)
    setup.send(log[len(log) // 2 :])
    moneystate(setup.arguments(*BOUNDED, *spark, "--drain", *told["next"].split()), setup.folder, warm)
    warm.close()
    setup.check_output(RULES, drain=True)

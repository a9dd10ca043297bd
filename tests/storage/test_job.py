"""A job whose checkpoint and savepoints are in HDFS or S3, killed and started again."""

from __future__ import annotations

import json

import pytest

from tests.job.harness import Setup, finished, moneystate, small_workload
from tests.job.test_crash import RULES
from tests.job.warm import Warm
from tests.reference.model import TIMED_TOPICS
from tests.storage.hdfs import Hdfs
from tests.storage.s3 import S3

BATCHES = ("--max-records-per-batch", "250", "--quiet")
BOUNDED = ("--until-caught-up", "--json", *BATCHES)


@pytest.mark.long
@pytest.mark.parametrize("store", ["hdfs", "s3"])
def test_a_job_is_killed_moved_and_replayed_with_its_state_in_a_store(
    setup: Setup, store: str, request: pytest.FixtureRequest
) -> None:
    running: Hdfs | S3 = request.getfixturevalue(store)
    home, spark = f"{running.address}/{setup.prefix}", running.flags
    # A process of its own: the JVM of the other one does not have the store's settings.
    warm = Warm()
    old, savepoint, new = (f"{home}/{name}" for name in ("checkpoint", "savepoint", "moved"))
    log = small_workload("--events", "400", "--flush-marker")
    setup.create_inputs()
    setup.send(log[: len(log) // 2])
    setup.kill_at("produced@1", *BATCHES, *spark, "--checkpoint", old)
    moneystate(setup.arguments(*BOUNDED, *spark, "--checkpoint", old), setup.folder, warm)
    fingerprint = moneystate(["checkpoint", "fingerprint", old, *spark], setup.folder, warm).out
    moneystate(["checkpoint", "export", "--checkpoint", old, "--out", savepoint, *spark], setup.folder, warm)
    assert moneystate(["checkpoint", "fingerprint", savepoint, *spark], setup.folder, warm).out == fingerprint
    show = ["checkpoint", "show", "--json", *spark, "--checkpoint"]
    shown, same = (moneystate([*show, place], setup.folder, warm).totals for place in (old, savepoint))
    assert shown == same
    assert len(shown["partitions"]) == setup.partitions * len(TIMED_TOPICS)
    verify = ["verify-replay", "--checkpoint", old, "--bootstrap-servers", setup.bootstrap_servers, "--json", *spark]
    assert json.loads(moneystate(verify, setup.folder, warm).out)["agrees"]
    setup.send(log[len(log) // 2 :])
    start = setup.arguments(*BOUNDED, *spark, "--drain", "--checkpoint", new, "--initial-state", savepoint)
    moneystate(start, setup.folder, warm)
    compared = finished(["checkpoint", "compare", savepoint, new, "--json", *spark], setup.folder, warm)
    warm.close()
    assert (compared.code, compared.totals["differences"] > len(compared.totals["first"]) > 0) == (1, True)
    setup.check_output(RULES, drain=True)
    assert not setup.checkpoint.exists()

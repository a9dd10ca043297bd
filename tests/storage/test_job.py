"""A job whose checkpoint and savepoints are in HDFS, killed and started again."""

from __future__ import annotations

import json

from tests.job.harness import Setup, moneystate, small_workload
from tests.job.test_crash import RULES
from tests.job.warm import Warm
from tests.storage.hdfs import Hdfs

# A process of its own: the JVM of the other one has settings for checkpoints on this machine.
STORE = Warm()
BATCHES = ("--max-records-per-batch", "300", "--quiet")
BOUNDED = ("--until-caught-up", "--json", *BATCHES)


def test_a_job_is_killed_moved_and_replayed_with_its_state_in_a_store(setup: Setup, hdfs: Hdfs) -> None:
    home = f"{hdfs.address}/{setup.prefix}"
    old, savepoint, new = (f"{home}/{name}" for name in ("checkpoint", "savepoint", "moved"))
    log = small_workload("--events", "900", "--flush-marker")
    setup.create_inputs()
    setup.send(log[: len(log) // 2])
    for step in ("planned@1", "produced@1"):
        setup.kill_at(step, *BATCHES, "--checkpoint", old)
    moneystate(setup.arguments(*BOUNDED, "--checkpoint", old), setup.folder, STORE)
    fingerprints = [_fingerprint(setup, old)]
    moneystate(["checkpoint", "export", "--checkpoint", old, "--out", savepoint], setup.folder, STORE)
    fingerprints.append(_fingerprint(setup, savepoint))
    assert fingerprints[0] == fingerprints[1]
    verify = ["verify-replay", "--checkpoint", old, "--bootstrap-servers", setup.bootstrap_servers, "--json"]
    assert json.loads(moneystate(verify, setup.folder, STORE).out)["agrees"]
    setup.send(log[len(log) // 2 :])
    start = setup.arguments(*BOUNDED, "--drain", "--checkpoint", new, "--initial-state", savepoint)
    moneystate(start, setup.folder, STORE)
    setup.check_output(RULES, drain=True)
    assert not setup.checkpoint.exists()


def _fingerprint(setup: Setup, place: str) -> str:
    return moneystate(["checkpoint", "fingerprint", place], setup.folder, STORE).out.strip()

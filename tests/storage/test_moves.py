"""`rescale`, `serve --from-snapshot`, `checkpoint upgrade` and `downgrade`, `schemas check`, `archive` and `bootstrap`,
where all that they read and write is in a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.job.harness import Setup, moneystate, small_workload
from tests.job.test_crash import RULES
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.query.serving import Server, is_at, wait_for
from tests.query.test_from_snapshot import entries
from tests.storage.s3 import S3

BOUNDED = ("--until-caught-up", "--json", "--quiet")


def check_rewritten(setup: Setup, checkpoint: str, spark: list[str], warm: Warm) -> None:
    """All state goes to version 1 and back, as `schemas check` tells."""
    place = ("--checkpoint", checkpoint, "--bootstrap-servers", setup.bootstrap_servers, "--batches", "1")
    for command, version in ((("downgrade", "--to", "1"), 1), (("upgrade",), 2)):
        done = moneystate(["checkpoint", *command, *place, "--json", *spark], setup.folder, warm).totals
        assert (done["done"], done["version"], done["entries"] > 0) == (1, version, True)
        told = moneystate(["schemas", "check", "--against", checkpoint, "--json", *spark], setup.folder, warm).totals
        users = {f["versions"] for f in told["findings"] if (f["rule"], f["schema"]) == ("entries", "state/UserState")}
        assert users == {f"v{version}"}


@pytest.mark.long
def test_a_replica_begins_with_a_savepoint_and_a_job_is_rescaled_by_their_addresses(
    setup: Setup, s3: S3, tmp_path: Path
) -> None:
    home, spark, warm = f"{s3.address}/{setup.prefix}", s3.flags, Warm()
    old, savepoint, new = (f"{home}/{name}" for name in ("checkpoint", "savepoint", "rescaled"))
    servers = ("--bootstrap-servers", setup.bootstrap_servers)
    log = small_workload("--events", "400", "--flush-marker")
    setup.create_inputs()
    setup.send(log[: len(log) // 2])
    moneystate(setup.arguments(*BOUNDED, *spark, "--checkpoint", old), setup.folder, warm)
    check_rewritten(setup, old, spark, warm)
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


def fingerprint_at(place: str, setup: Setup, s3: S3, warm: Warm) -> str:
    return moneystate(["checkpoint", "fingerprint", place, *s3.flags], setup.folder, warm).out.strip()


@pytest.mark.long
def test_an_archive_in_s3_gives_the_state_that_kafka_gives(setup: Setup, s3: S3) -> None:
    setup.create_inputs()
    setup.send(small_workload("--events", "200"))
    warm, home = Warm(), f"{s3.address}/{setup.prefix}"
    address = f"{home}/archive"
    kafka = ("--bootstrap-servers", setup.bootstrap_servers, "--topic-prefix", setup.prefix)
    moneystate(["archive", "--archive", address, *kafka, *s3.flags, "--quiet"], setup.folder, warm)
    fingerprints: list[str] = []
    for source, connection in (("kafka", kafka), (address, ())):
        out = f"{home}/from-{len(fingerprints)}"
        flags = ("--from", source, "--out", out, "--work", setup.folder / "work", *connection, *s3.flags, "--json")
        fingerprints.append(moneystate(["bootstrap", *flags, "--quiet"], setup.folder, warm).totals["fingerprint"])
        assert fingerprint_at(out, setup, s3, warm) == fingerprints[-1]
    warm.close()
    assert len(set(fingerprints)) == 1

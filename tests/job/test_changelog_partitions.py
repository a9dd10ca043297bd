"""Partitions that are added to the changelog: the job goes on only with its state written anew."""

from __future__ import annotations

from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from moneystate.engine.keygroup import key_group_of
from moneystate.savepoint.format import Savepoint
from services.enrichment.state import owner_of
from services.enrichment.topics import CHANGELOG
from tests.job.harness import Setup, moneystate, small_workload
from tests.kafka.logs import wait_until_stable
from tests.reference.model import Rules
from tests.waiting import until

SETUP = 3
KEY_GROUPS = 8
BOUNDED = ("--until-caught-up", "--max-records-per-batch", "300", "--quiet")


def add_partitions(setup: Setup, partitions: int) -> None:
    topic, admin = setup.prefix + CHANGELOG, setup.admin()
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def count() -> int:
        return len(admin.list_topics(topic, timeout=10).topics[topic].partitions)

    until(lambda: count() == partitions, lambda: f"{count()} partitions", 30)


def in_changelog(setup: Setup) -> dict[tuple[int, bytes], bytes]:
    """What compaction leaves of it: value by partition and key."""
    wait_until_stable(setup.admin(), [setup.prefix + CHANGELOG])
    entries: dict[tuple[int, bytes], bytes] = {}
    for record in setup.read(CHANGELOG):
        place = record.partition, record.key or b""
        entries.pop(place, None)
        if record.value is not None and not place[1].startswith(b"e"):
            entries[place] = record.value
    return entries


def home(key: bytes, partitions: int) -> int:
    return key_group_of(owner_of(key) or b"", KEY_GROUPS) % partitions


def test_the_job_is_refused_finishes_its_batch_and_goes_on_with_its_state_written_anew(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "1200")
    setup.send(log[:900])
    setup.kill_at("planned@1", *BOUNDED)
    add_partitions(setup, 3)
    refused = setup.refused(*BOUNDED)
    assert refused.code == SETUP
    assert f"{setup.prefix}{CHANGELOG}: expected 2 partitions" in refused.err
    setup.run("--until-caught-up", "--finish-batch", "--quiet")  # where a savepoint needs it finished
    assert all(partition == home(key, 2) for partition, key in in_changelog(setup))
    assert setup.refused(*BOUNDED).code == SETUP
    savepoint = setup.folder / "savepoint"
    export = ("checkpoint", "export", "--checkpoint", str(setup.checkpoint), "--out", str(savepoint), "--quiet")
    moneystate(export, setup.folder)
    setup.send(log[900:])
    moved = setup._replace(folder=setup.folder / "moved")
    moved.folder.mkdir()
    moved.run(*BOUNDED, "--initial-state", str(savepoint))
    moved.check_output(Rules(lookup=False), drain=False)
    there = in_changelog(setup)
    assert all(partition == home(key, 3) for partition, key in there)
    users = {key for group in range(KEY_GROUPS) for key, _ in Savepoint(savepoint).entries(group) if key[:1] == b"u"}
    assert users <= {key for _, key in there}

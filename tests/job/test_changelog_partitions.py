"""A changelog with more partitions, or one that was created again: first the job writes its state again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.engine.keygroup import key_group_of
from moneystate.runtime.layout import VALUE, owner_of
from moneystate.savepoint.format import Savepoint
from tests.enrichment.topics import CHANGELOG
from tests.job.harness import Setup, moneystate, small_workload
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference.model import Rules

SETUP = 3
KEY_GROUPS = 8
BOUNDED = ("--until-caught-up", "--max-records-per-batch", "300", "--quiet")


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


@pytest.mark.long
def test_the_job_is_refused_finishes_its_batch_and_goes_on_with_its_state_written_anew(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "1200")
    setup.send(log[:900])
    setup.kill_at("planned@1", *BOUNDED)
    Cluster(setup.bootstrap_servers, setup.prefix).grow({CHANGELOG: 3})
    refused = setup.refused(*BOUNDED)
    assert refused.code == SETUP
    assert f"{setup.prefix}{CHANGELOG}: expected 2 partitions" in refused.err
    setup.run("--until-caught-up", "--finish-batch", "--quiet")  # where a savepoint needs it finished
    assert all(partition == home(key, 2) for partition, key in in_changelog(setup))
    assert setup.refused(*BOUNDED).code == SETUP
    setup.send(log[900:])
    move_and_check(setup, 3)


def move_and_check(setup: Setup, partitions: int) -> None:
    """The way on: a savepoint, which a new checkpoint starts from."""
    savepoint = setup.folder / "savepoint"
    export = ("checkpoint", "export", "--checkpoint", str(setup.checkpoint), "--out", str(savepoint), "--quiet")
    moneystate(export, setup.folder)
    moved = setup._replace(folder=setup.folder / "moved")
    moved.folder.mkdir()
    moved.run(*BOUNDED, "--initial-state", str(savepoint))
    moved.check_output(Rules(lookup=False), drain=False)
    there = in_changelog(setup)
    assert all(partition == home(key, partitions) for partition, key in there)
    users = {key for group in range(KEY_GROUPS) for key, _ in Savepoint(savepoint).entries(group) if key[:1] == VALUE}
    assert users <= {key for _, key in there}


@pytest.mark.long
def test_a_changelog_that_was_created_again_is_refused_as_it_lacks_what_does_not_change_any_more(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "900")
    setup.send(log[:800])
    setup.run(*BOUNDED)
    settings = setup.checkpoint / "moneystate" / "settings.json"
    recorded = json.loads(settings.read_text())
    cluster, topic = Cluster(setup.bootstrap_servers, setup.prefix), setup.prefix + CHANGELOG
    settings.write_text(json.dumps({k: v for k, v in recorded.items() if k != "changelog_id"}))
    setup.run(*BOUNDED)  # a checkpoint of an earlier version takes the topic that is there
    assert json.loads(settings.read_text()) == recorded
    cluster.delete(topic)
    before = in_folder(setup)
    assert "found none" in setup.refused(*BOUNDED).err
    cluster.create(CHANGELOG, 2, cleanup_policy="compact")
    refused = setup.refused(*BOUNDED)
    assert refused.code == SETUP
    assert "found a new one of this name" in refused.err
    assert in_folder(setup) == before
    setup.send(log[800:])
    move_and_check(setup, 2)


def in_folder(setup: Setup) -> dict[Path, bytes]:
    own = (setup.checkpoint / "moneystate").rglob("*.json")
    return {file: file.read_bytes() for file in own}

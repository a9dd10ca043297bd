"""What a start refuses: one line that says so, an exit code that means something, and nothing written."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local.memory_clients import memory_log
from tests.job.harness import small_workload
from tests.job.test_setup_errors import assert_nothing_written
from tests.kafka.logs import Cluster
from tests.local.in_memory import InMemory
from tests.reference.model import TIMED_TOPICS, WALLET, Rules

CONFIG, SETUP, CHECKPOINT = 2, 3, 4
BOUNDED = ("--until-caught-up", "--max-records-per-batch", "300")
OTHER_RULES = ("--bound", "5s", "--session-wait", "10s")


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


# A first start


def test_missing_topics_that_must_not_be_created(in_memory: InMemory) -> None:
    setup = in_memory
    assert setup.refused("--no-create-topics").code == SETUP
    assert_nothing_written(setup)


def test_a_checkpoint_folder_below_a_file(in_memory: InMemory) -> None:
    setup = in_memory
    for path in ("file", "file/checkpoint"):
        (setup.folder / "file").touch()
        assert setup.refused("--checkpoint", str(setup.folder / path)).code == CHECKPOINT
    assert_nothing_written(setup)


def test_starting_offsets_that_cannot_be(in_memory: InMemory) -> None:
    """Also where the topics are still to be created."""
    setup = in_memory
    assert setup.refused("--starting-offsets", "latest").code == CONFIG
    assert_nothing_written(setup)


def test_a_compacted_input_topic(in_memory: InMemory) -> None:
    setup = in_memory
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    for topic in TIMED_TOPICS:
        cluster.create(topic, setup.partitions, cleanup_policy="compact" if topic == WALLET else "delete")
    before = setup.topics()
    refused = setup.refused()
    assert (refused.code, setup.topics()) == (SETUP, before)
    assert setup.prefix + WALLET in refused.err
    assert not setup.checkpoint.exists()


# A checkpoint with a batch that is planned and not finished


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InMemory]:
    """Batch 0 is done, batch 1 is planned."""
    with memory_log() as (_, address):
        setup = InMemory(address, f"p{uuid.uuid4().hex[:12]}-", tmp_path_factory.mktemp("planned"))
        setup.create_inputs()
        setup.send(small_workload("--events", "700", "--flush-marker"))
        setup.kill_at("planned@1", *BOUNDED)
        yield setup


@pytest.mark.parametrize(
    "other",
    [
        ("--key-groups", "16"),
        ("--partitions", "3"),
        ("--application-id", "other"),
        ("--topic-prefix", "other-"),
        OTHER_RULES,
        ("--session-lookup", "topic"),
    ],
    ids=" ".join,
)
def test_a_checkpoint_goes_on_only_as_what_it_was(planned: InMemory, other: tuple[str, ...]) -> None:
    before = files(planned.checkpoint), planned.topics()
    assert planned.refused(*BOUNDED, *other).code == CHECKPOINT
    assert (files(planned.checkpoint), planned.topics()) == before
    assert not Cluster(planned.bootstrap_servers, "other-").names()


def test_a_new_folder_for_an_application_that_has_written_is_refused(planned: InMemory, tmp_path: Path) -> None:
    assert planned.refused(*BOUNDED, "--checkpoint", str(tmp_path / "new")).code == CHECKPOINT
    assert not (tmp_path / "new").exists()


def test_finish_rollback_takeover_retention_and_loss(planned: InMemory, tmp_path: Path) -> None:
    """One application from an unfinished batch to a log that no longer has what is to be read next."""
    setup = planned._replace(folder=tmp_path)
    shutil.copytree(planned.checkpoint, setup.checkpoint)
    rules = Checkpoint(str(setup.checkpoint)).offset(1)["rules"]

    # the planned batch is finished by its own rules, and there is nothing more to finish
    setup.run(*BOUNDED, *OTHER_RULES, "--finish-batch")
    checkpoint = Checkpoint(str(setup.checkpoint))
    assert (checkpoint.last_planned(), checkpoint.last_committed(), checkpoint.offset(1)["rules"]) == (1, 1, rules)
    assert setup.refused(*BOUNDED, *OTHER_RULES, "--finish-batch").code == CHECKPOINT

    # it goes on, and a copy of before does not
    old = setup._replace(folder=tmp_path / "old")
    shutil.copytree(setup.checkpoint, old.checkpoint)
    setup.run(*BOUNDED)
    setup.check_output(Rules(lookup=False), drain=False)
    first = setup.enriched()
    before = files(old.checkpoint)
    assert old.refused(*BOUNDED).code == CHECKPOINT
    assert files(old.checkpoint) == before

    # another folder takes over on purpose, writes everything again, and the first one is out of the game
    new = setup._replace(folder=tmp_path / "new")
    new.folder.mkdir()
    new.run("--until-caught-up", "--new-epoch")
    assert sorted(new.enriched(), key=repr) == sorted(first + first, key=repr)
    assert setup.refused(*BOUNDED).code == CHECKPOINT

    # retention overtakes the next offset
    end = new.read(WALLET)[-1]
    new.send([end] * 5)
    Cluster(new.bootstrap_servers, new.prefix).delete_before(new.prefix + WALLET, end.offset + 3, end.partition)
    assert new.refused(*BOUNDED).code == SETUP

    # an input topic is gone: an empty one under its name would hide that its records are lost
    Cluster(new.bootstrap_servers, new.prefix).delete(new.prefix + WALLET)
    before = files(new.checkpoint)
    assert new.refused(*BOUNDED).code == SETUP
    assert WALLET not in new.topics()
    assert files(new.checkpoint) == before

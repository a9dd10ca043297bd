"""What a start looks at in Kafka before it goes on with a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.engine import plan as plans
from moneystate.engine.processor import InputTopic
from moneystate.errors import RetentionError, SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.startup import check_retention
from moneystate.kafka.starting import resolve_start
from tests.kafka.logs import Cluster, numbered

NAME = "in"


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


def checkpoint_at(cluster: Cluster, folder: Path, committed: int, planned: int) -> Checkpoint:
    """Batch 0 has read up to `committed`, batch 1 is planned up to `planned`."""
    checkpoint = Checkpoint(str(folder / "checkpoint"))
    start = resolve_start(cluster.admin, "earliest", cluster.prefix, [InputTopic(0, NAME, True, 0)])
    for number, end in enumerate((committed, planned)):
        offset = plans.Plan("rules", start.topic_ids, {(NAME, 0): plans.PartitionPlan(end, plans.ACTIVE)}).to_offset()
        checkpoint.folder.write(f"offsets/{number}", json.dumps(offset).encode())
    checkpoint.folder.write("commits/0", b"")
    return checkpoint


def test_a_log_that_has_all_that_is_wanted_is_gone_on_with(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create(NAME)
    cluster.send(topic, numbered(0, 10))
    checkpoint = checkpoint_at(cluster, tmp_path, 5, 10)
    cluster.delete_before(topic, 5)
    check_retention(cluster.admin, checkpoint, cluster.prefix)


def test_a_log_that_begins_behind_or_ends_before_what_is_wanted_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create(NAME)
    cluster.send(topic, numbered(0, 10))
    with pytest.raises(RetentionError):
        check_retention(cluster.admin, checkpoint_at(cluster, tmp_path / "shorter", 5, 11), cluster.prefix)
    checkpoint = checkpoint_at(cluster, tmp_path / "gone", 5, 10)
    cluster.delete_before(topic, 6)
    with pytest.raises(RetentionError):
        check_retention(cluster.admin, checkpoint, cluster.prefix)


def test_a_topic_made_anew_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create(NAME)
    checkpoint = checkpoint_at(cluster, tmp_path, 0, 0)
    cluster.delete(topic)
    cluster.create(NAME)
    with pytest.raises(SetupError):
        check_retention(cluster.admin, checkpoint, cluster.prefix)

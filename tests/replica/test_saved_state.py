"""A replica that is loaded from a savepoint answers as one that has read the whole changelog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from moneystate.errors import SavepointError
from moneystate.replica.log import Topics
from moneystate.replica.model import Version
from moneystate.replica.saved_state import unusable
from moneystate.replica.view import ReplicaView
from moneystate.savepoint.format import begin, finish, write_state
from moneystate.savepoint.manifest import EXPORT, ChangelogPosition, Manifest
from moneystate.serving.savepoint import saved_state
from moneystate.testing.simulation import Simulation
from services.enrichment import service
from state_tools.changelog_position import changelog_position
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import Rules
from tests.kafka.logs import Cluster
from tests.replica.changelog import GROUPS, Replica, Writer
from tests.replica.states import MODEL
from tests.replica.test_store_model import paged
from tests.workloads.workload_log import workload_log

RULES = Rules(lookup=True)
BATCHES, SAVED = 10, 5
SET = AlterConfigOpType.SET
OUTPUTS = 3


def savepoint(out: Path, sim: Simulation, batch: int, position: ChangelogPosition | None) -> str:
    folder = begin(out)
    files = [write_state(folder, n, sorted(state.entries.items())) for n, state in enumerate(sim.states)]
    about: dict[str, Any] = {"job": MODEL.plan.name, "schemas": [], "rules": {}, "partitions": OUTPUTS}
    about |= {"plan": None, "watermark": sim.watermark, "counts": {}, "fingerprint": "", "key_groups": GROUPS}
    of_version: dict[str, Any] = {"origins": ["one"], "origin_batch": batch + 1, "changelog": position}
    finish(out, Manifest(EXPORT, "", state=files, **about, **of_version))
    return str(out)


def answers(replica: Replica, version: Version) -> dict[str, Any]:
    """All that the state has at a version, by all ways that lead to it."""
    snapshot = replica.at(version)
    header = snapshot.header._replace(current_as_of_ms=0)
    return {
        "header": header,
        "users": paged(lambda after: snapshot.keys(snapshot.plan.kinds["user"], b"", b"", b"", 1_000, after)),
        "entries": paged(lambda after: snapshot.entries(limit=1_000, after=after)),
        "pending": service.pending(ReplicaView(snapshot), 10_000),
    }


def test_it_answers_as_a_replica_of_the_whole_changelog(
    cluster: Cluster, replica_of: Callable[..., Replica], tmp_path: Path
) -> None:
    records, partitions = workload_log("--events", "2500", "--users", "120", "--partitions", "2", "--seed", "11")
    sim = simulation(RULES, partitions, key_groups=GROUPS)
    writer = Writer(cluster, 2, OUTPUTS, counted=True, rules={"dedup_ttl_ms": RULES.dedup_ttl_ms})
    size = len(records) // BATCHES + 1
    whole, versions = replica_of(), list[Version]()

    def batch(number: int) -> None:
        sim.batch(inputs(records[number * size : (number + 1) * size]))
        versions.append(writer.batch(number, sim.changes, sim.watermark))
        sim.changes = []

    for number in range(SAVED):
        batch(number)
    find = partial(changelog_position, cluster.bootstrap_servers, {}, writer.topic, GROUPS)
    with pytest.raises(SavepointError, match="found that of one/4"):
        find(Version("one", SAVED - 2))
    place = savepoint(tmp_path / "savepoint", sim, SAVED - 1, find(Version("one", SAVED - 1)))
    at_once = replica_of(open_saved=partial(saved_state, place))
    assert answers(at_once, versions[-1]) == answers(whole, versions[-1])
    at_once.kill()  # before any version that it reads from the changelog

    for number in range(SAVED, BATCHES):
        batch(number)
    at_once.start()
    cut(cluster, writer.topic, saved_state(place).positions)
    late = replica_of(open_saved=partial(saved_state, place))
    for replica in (at_once, late):
        for version in versions[SAVED:]:
            got = answers(replica, version)
            assert len(got["users"]) > 50
            assert got == answers(whole, version)
        assert replica.reader.status().schema_counts == whole.reader.status().schema_counts
    check_refusals(late, place)


def cut(cluster: Cluster, topic: str, positions: Mapping[int, int]) -> None:
    """What retention may do to the log before these offsets."""
    allowed = ConfigResource(ResourceType.TOPIC, topic)
    allowed.add_incremental_config(ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=SET))
    (altered,) = cluster.admin.incremental_alter_configs([allowed]).values()
    altered.result()
    gone = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
    for tp, future in cluster.admin.delete_records(gone).items():
        assert future.result().low_watermark == positions[tp.partition] > 0


def check_refusals(replica: Replica, place: str) -> None:
    """The changelog does not continue what is older than its retention, or another one's."""
    saved, now = saved_state(place), Topics(replica.options, MODEL.changelog).describe()
    assert unusable(saved, now) == ""
    half_a_day_ms = now.delete_retention_ms // 2
    assert "may have lost tombstones" in unusable(replace(saved, read_ms=saved.read_ms - half_a_day_ms), now)
    assert "another topic" in unusable(replace(saved, topic_id="x"), now)
    assert "has 2 partitions, not 1" in unusable(replace(saved, positions={0: saved.positions[0]}), now)
    gone = {p: offset - 1 for p, offset in saved.positions.items()}  # the log begins after it
    assert "partition 0 of the changelog has offsets" in unusable(replace(saved, positions=gone), now)


def test_a_savepoint_without_a_position_is_refused(tmp_path: Path) -> None:
    sim = simulation(RULES, [], key_groups=GROUPS)
    with pytest.raises(SavepointError, match="without"):
        saved_state(savepoint(tmp_path / "savepoint", sim, 0, None))

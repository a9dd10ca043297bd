"""What a new checkpoint publishes before its first batch, on a real broker: whole, once, and after any crash."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from moneystate.engine.items import Output
from moneystate.engine.marker import Decision
from moneystate.errors import InstanceError
from moneystate.kafka import claims
from moneystate.kafka.client import new_client
from moneystate.kafka.markers import read_markers
from moneystate.kafka.publish import EmptyInitialState, Publisher
from moneystate.kafka.sink import BatchId, PartitionSink, SinkConfig
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference.kafka_log import read_log

OUT, COMMITS, CHANGES = "out", "commits", "changes"
START = "offset 0"
GROUPS, PARTITIONS, CHANGELOG_PARTITIONS = 4, 2, 3
CRASHED = 99  # exit code
DEADLINE_S = 60.0


class State:
    """Five entries and three outputs in each key group."""

    watermark = 77

    def __init__(self, crash_at: int = -1) -> None:
        self.crash_at = crash_at  # the process ends at this output of key group 2; -1: it does not

    def entries(self, group: int) -> Iterable[tuple[bytes, bytes]]:
        return [(f"u{group}-{n}".encode(), b"state") for n in range(5)]

    def outputs(self, group: int) -> Iterable[Output]:
        for n in range(3):
            if group == 2 and n == self.crash_at:
                os._exit(CRASHED)
            yield 0, f"user {group}".encode(), f"{group}-{n}".encode(), []


def config_of(cluster: Cluster, superseded: Iterable[str] = ()) -> SinkConfig:
    names = [cluster.prefix + name for name in (OUT, COMMITS, CHANGES)]
    return SinkConfig(
        cluster.bootstrap_servers, {}, cluster.prefix + "app", [names[0]], names[1], names[2],
        CHANGELOG_PARTITIONS, GROUPS, list(superseded),
    )  # fmt: skip


@pytest.fixture
def topics(cluster: Cluster) -> Cluster:
    cluster.create(OUT, 2)
    cluster.create(COMMITS, 4, cleanup_policy="compact")
    cluster.create(CHANGES, CHANGELOG_PARTITIONS, cleanup_policy="compact")
    return cluster


def group_owner(key: bytes) -> bytes:
    return key[1:]


def publish(
    config: SinkConfig, content: State | EmptyInitialState, epoch: str = "new", partitions: int = PARTITIONS
) -> None:
    """In transactions of two records."""
    Publisher(config, partitions, epoch, START, content, group_owner, {}, lambda _: None, part_records=2).run()


def seen(config: SinkConfig, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """Partition, key and value of all that is committed."""
    wait_until_stable(new_client(AdminClient, {"bootstrap.servers": config.bootstrap_servers}), [topic])
    return [(r.partition, r.key or b"", r.value) for r in read_log(config.bootstrap_servers, [topic])[0]]


def changelog(config: SinkConfig) -> dict[tuple[int, bytes], bytes]:
    """As compaction leaves it."""
    assert config.changelog is not None
    entries: dict[tuple[int, bytes], bytes] = {}
    for partition, key, value in seen(config, config.changelog):
        entries.pop((partition, key), None)
        if value is not None:
            entries[partition, key] = value
    return entries


def whole() -> dict[tuple[int, bytes], bytes]:
    """The entries of `State` where they belong."""
    state = State()
    return {
        (group % CHANGELOG_PARTITIONS, key): value for group in range(GROUPS) for key, value in state.entries(group)
    }


def entries(config: SinkConfig) -> dict[tuple[int, bytes], bytes]:
    return {place: value for place, value in changelog(config).items() if not place[1].startswith(b"e")}


def outputs(config: SinkConfig) -> list[bytes]:
    return sorted(value or b"" for _, _, value in seen(config, config.streams[0]))


ALL_OUTPUTS = sorted(f"{group}-{n}".encode() for group in range(GROUPS) for n in range(3))


def test_all_entries_and_outputs_are_there_and_the_version_is_whole(topics: Cluster) -> None:
    config = config_of(topics)
    publish(config, State())
    assert entries(config) == whole()
    assert outputs(config) == ALL_OUTPUTS
    ends = [json.loads(value) for (_, key), value in changelog(config).items() if key.startswith(b"e")]
    assert {(end["epoch"], end["batch"], end["watermark"], end["groups"]) for end in ends} == {("new", -1, 77, GROUPS)}
    assert sorted(group for end in ends for group in end["keyGroups"]) == list(range(GROUPS))


@pytest.mark.parametrize("crash_at", [0, 1, 2])
def test_after_a_crash_it_goes_on_and_no_output_is_there_twice(topics: Cluster, crash_at: int) -> None:
    config = config_of(topics)
    process = multiprocessing.get_context("spawn").Process(target=publish, args=(config, State(crash_at)))
    process.start()
    process.join(DEADLINE_S)
    assert process.exitcode == CRASHED
    publish(config, State())
    assert outputs(config) == ALL_OUTPUTS
    assert entries(config) == whole()


def test_once_published_nothing_is_written_again_and_the_first_batch_follows(topics: Cluster) -> None:
    config = config_of(topics)
    publish(config, State())
    before = seen(config, topics.prefix + CHANGES)
    publish(config, State())
    assert seen(config, topics.prefix + CHANGES) == before
    for partition in range(PARTITIONS):
        first = BatchId("new", 0, START, "offset 1")
        assert PartitionSink(config, partition).open(first) is Decision.WRITE


def test_keys_that_are_not_in_the_state_or_not_at_their_place_are_removed(topics: Cluster) -> None:
    config = config_of(topics)
    changes = topics.prefix + CHANGES
    for partition, key in ((0, b"uforeign"), (2, b"u0-0"), (0, b"u0-0"), (1, b"e" + config.end_key(3)[1:])):
        topics.send(changes, [b"old"], partition, key=key)
    publish(config, State())
    assert entries(config) == whole()
    assert all(not key.endswith(b"/3") for _, key in changelog(config))


def test_a_new_epoch_without_state_leaves_no_user_of_the_old_one(topics: Cluster) -> None:
    publish(config_of(topics), State(), "old", partitions=3)
    config = config_of(topics, superseded=["old"])
    publish(config, EmptyInitialState(), "new")
    assert entries(config) == {}


def test_jobs_that_wrote_before_are_fenced_also_those_of_output_partitions_that_are_no_more(topics: Cluster) -> None:
    config = config_of(topics)
    old = [PartitionSink(config, partition) for partition in range(3)]
    for sink in old:
        sink.open(BatchId("old", 0, START, "offset 1"))
        sink.commit(BatchId("old", 0, START, "offset 1"))
    new = replace(config_of(topics, ["old"]), instance="new")
    markers = read_markers(config.bootstrap_servers, {}, config.commits)
    partitions = claims.output_partitions(config.application_id, PARTITIONS, markers)
    claims.take(new, "the new one", partitions, 0).close()
    publish(new, State())
    for sink in old:
        following = BatchId("old", 1, "offset 1", "offset 2")
        sink.open(following)
        with pytest.raises(InstanceError, match="the new one"):
            sink.commit(following)

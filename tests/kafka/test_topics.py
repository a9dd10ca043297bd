"""Topics that a job creates, and those it refuses."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from moneystate.errors import SetupError
from moneystate.kafka.offsets import log_ends
from moneystate.kafka.topics import (
    Replication,
    TopicSpec,
    check_not_compacted,
    check_topics,
    ensure_topics,
    partition_counts,
    topic_settings,
)
from tests.kafka.logs import Cluster

DAY_MS = 86_400_000


def test_created_topics_are_at_hand_at_once(cluster: Cluster) -> None:
    wanted = [TopicSpec(f"{cluster.prefix}new-{n}", 4) for n in range(5)]
    assert ensure_topics(cluster.admin, wanted, True) == [t.name for t in wanted]
    partitions = [(t.name, p) for t in wanted for p in range(4)]
    assert log_ends(cluster.admin, partitions) == dict.fromkeys(partitions, 0)
    assert ensure_topics(cluster.admin, wanted, True) == []


def test_a_missing_topic_that_must_not_be_created_is_refused(cluster: Cluster) -> None:
    with pytest.raises(SetupError):
        ensure_topics(cluster.admin, [TopicSpec(cluster.prefix + "none", 1)], False)


def test_too_few_partitions_are_refused_only_where_their_number_matters(cluster: Cluster) -> None:
    topic = cluster.create("small", 2)
    assert check_topics(cluster.admin, [TopicSpec(topic, 3)], True) == []
    assert check_topics(cluster.admin, [TopicSpec(topic, 2, at_least=True)], True) == []
    with pytest.raises(SetupError):
        check_topics(cluster.admin, [TopicSpec(topic, 3, at_least=True)], False)


def test_a_topic_with_another_number_of_partitions_than_its_input_declares_is_refused(cluster: Cluster) -> None:
    topic = cluster.create("ordered", 2)
    wanted = TopicSpec(topic, 1, exactly=True)
    with pytest.raises(SetupError, match="expected 1 partition, as its input declares, found 2"):
        check_topics(cluster.admin, [wanted], True)
    assert check_topics(cluster.admin, [replace(wanted, partitions=2)], True) == []


def test_partitions_whose_number_matters_are_added(cluster: Cluster) -> None:
    topic = cluster.create("small", 2)
    ensure_topics(cluster.admin, [TopicSpec(topic, 3, at_least=True)], True)
    assert partition_counts(cluster.admin)[topic] == 3


def test_a_topic_that_takes_smaller_messages_than_will_be_written_is_refused(cluster: Cluster) -> None:
    topic = cluster.create("small", max_message_bytes="1000")
    assert check_topics(cluster.admin, [TopicSpec(topic, 1, message_bytes=1000)], True) == []
    with pytest.raises(SetupError):
        check_topics(cluster.admin, [TopicSpec(topic, 1, message_bytes=1001)], True)


def test_a_created_topic_takes_what_will_be_written_and_no_less_than_a_broker_does(cluster: Cluster) -> None:
    large, small = TopicSpec(cluster.prefix + "large", 1, message_bytes=3_000_000), TopicSpec(cluster.prefix + "s", 1)
    wanted = [large, replace(small, message_bytes=5)]
    ensure_topics(cluster.admin, wanted, True)
    settings = topic_settings(cluster.admin, [t.name for t in wanted])
    assert [settings[t.name]["max.message.bytes"] for t in wanted] == ["3000000", "1048588"]


def test_created_topics_have_the_replication_that_was_asked_for(cluster: Cluster) -> None:
    plain, asked = cluster.prefix + "plain", cluster.prefix + "asked"
    ensure_topics(cluster.admin, [TopicSpec(plain, 1)], True)
    ensure_topics(cluster.admin, [TopicSpec(asked, 1, compacted=True)], True, Replication(1, 7))
    settings = topic_settings(cluster.admin, [plain, asked])
    assert [settings[name]["min.insync.replicas"] for name in (plain, asked)] == ["1", "7"]
    assert settings[asked]["cleanup.policy"] == "compact"
    with pytest.raises(SetupError, match=r"(?i)replication.factor"):  # of one broker
        ensure_topics(cluster.admin, [TopicSpec(cluster.prefix + "three", 1)], True, Replication(3))


def test_a_compacted_topic_may_keep_records_for_some_time_only(cluster: Cluster) -> None:
    short, long = (
        TopicSpec(cluster.prefix + name, 1, compacted=True, retention_ms=days * DAY_MS)
        for name, days in (("short", 2), ("long", 400))
    )
    ensure_topics(cluster.admin, [short, long], True)
    settings = topic_settings(cluster.admin, [short.name, long.name])
    assert {settings[its.name]["cleanup.policy"] for its in (short, long)} == {"compact,delete"}
    assert [settings[its.name]["retention.ms"] for its in (short, long)] == [str(2 * DAY_MS), str(400 * DAY_MS)]
    assert [settings[its.name]["segment.ms"] for its in (short, long)] == [str(2 * DAY_MS), str(7 * DAY_MS)]


def test_a_topic_of_records_with_times_of_their_own_takes_those_of_the_future(cluster: Cluster) -> None:
    default, own = TopicSpec(cluster.prefix + "default", 1), TopicSpec(cluster.prefix + "own", 1, any_time=True)
    ensure_topics(cluster.admin, [default, own], True)
    errors: dict[str, str | None] = {}
    producer = cluster.producer()
    for topic in (default, own):
        in_a_day = time.time_ns() // 1_000_000 + DAY_MS
        producer.produce(
            topic.name, b"x", timestamp=in_a_day,
            on_delivery=lambda e, message: errors.update({str(message.topic()): None if e is None else e.name()}),
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert errors == {default.name: "INVALID_TIMESTAMP", own.name: None}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_input_topic_is_refused(cluster: Cluster, policy: str) -> None:
    retained, compacted = cluster.create("kept"), cluster.create("compacted", cleanup_policy=policy)
    check_not_compacted(cluster.admin, [retained])
    with pytest.raises(SetupError, match=compacted):
        check_not_compacted(cluster.admin, [retained, compacted])

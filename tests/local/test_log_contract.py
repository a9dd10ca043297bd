"""What the platform relies on in a Kafka log, of a real broker and of the log in memory alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from moneystate.job.local.memory_clients import memory_log
from moneystate.kafka.client import is_end_of_partition, new_client, range_consumer
from moneystate.kafka.groups import other_prefixes
from moneystate.kafka.offsets import existing_states, high_watermarks, log_ends, log_starts, offsets_at, topic_states
from moneystate.kafka.partitions import partition_of_key
from moneystate.kafka.topics import MESSAGE_BYTES, partition_counts, topic_settings
from tests.kafka.logs import Cluster, numbered
from tests.waiting import until

CALL_S = 60.0


@pytest.fixture(params=["broker", "memory"])
def cluster(request: pytest.FixtureRequest, topic_prefix: str) -> Iterator[Cluster]:
    if request.param == "broker":
        yield Cluster(request.getfixturevalue("broker").bootstrap_servers, topic_prefix)
        return
    with memory_log() as (_, address):
        yield Cluster(address, topic_prefix)


class Reader:
    """Reads one partition to its end."""

    def __init__(
        self, cluster: Cluster, topic: str, offset: int = OFFSET_BEGINNING, isolation: str = "read_committed"
    ) -> None:
        settings = {"fetch.wait.max.ms": 10, "isolation.level": isolation}
        self.consumer = range_consumer(cluster.bootstrap_servers, {}, "readers", **settings)
        self.consumer.assign([TopicPartition(topic, 0, offset)])

    def messages(self) -> tuple[list[Any], int]:
        """The records up to the end, and its offset."""
        messages: list[Any] = []
        while True:
            message: Any = self.consumer.poll(CALL_S)
            assert message is not None
            if is_end_of_partition(message):
                return messages, message.offset()
            assert message.error() is None, message.error()
            messages.append(message)

    def read(self) -> tuple[list[tuple[int, bytes | None]], int]:
        """Offsets and values of the records, and the end."""
        messages, end = self.messages()
        return [(message.offset(), message.value()) for message in messages], end


def transactional(cluster: Cluster, name: str = "writer") -> Producer:
    producer = cluster.producer(**{"transactional.id": f"{cluster.prefix}{name}"})
    producer.init_transactions(CALL_S)
    return producer


def write(producer: Producer, topic: str, *values: bytes) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(CALL_S) == 0


def test_a_marker_takes_up_an_offset_and_aborted_records_are_not_delivered(cluster: Cluster) -> None:
    topic = cluster.create("events")
    cluster.transaction(topic, numbered(0, 2))
    cluster.transaction(topic, numbered(2, 4), commit=False)
    cluster.send(topic, [b"4"])
    assert Reader(cluster, topic).read() == ([(0, b"0"), (1, b"1"), (6, b"4")], 7)
    every, end = Reader(cluster, topic, isolation="read_uncommitted").read()
    assert (every, end) == ([(0, b"0"), (1, b"1"), (3, b"2"), (4, b"3"), (6, b"4")], 7)


def test_readers_of_committed_records_wait_behind_an_open_transaction(cluster: Cluster) -> None:
    topic = cluster.create("events")
    reader = Reader(cluster, topic)
    assert reader.read() == ([], 0)
    producer = transactional(cluster)
    write(producer, topic, b"a")
    cluster.send(topic, [b"b"])
    assert log_ends(cluster.admin, [(topic, 0)]) == {(topic, 0): 0}
    assert high_watermarks(cluster.admin, [(topic, 0)]) == {(topic, 0): 2}
    assert reader.consumer.poll(0.1) is None
    producer.commit_transaction(CALL_S)
    cluster.wait_until_stable(topic)
    assert reader.read() == ([(0, b"a"), (1, b"b")], 3)
    assert log_ends(cluster.admin, [(topic, 0)]) == {(topic, 0): 3}


def test_a_new_producer_aborts_what_is_open_and_fences_the_one_before(cluster: Cluster) -> None:
    topic = cluster.create("events")
    first = transactional(cluster)
    write(first, topic, b"lost")
    second = transactional(cluster)
    write(second, topic, b"kept")
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(CALL_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    with pytest.raises(KafkaException):
        first.begin_transaction()
    second.commit_transaction(CALL_S)
    cluster.wait_until_stable(topic)
    assert Reader(cluster, topic).read() == ([(2, b"kept")], 4)


def test_a_reader_that_starts_outside_the_log_gets_an_error(cluster: Cluster) -> None:
    topic = cluster.create("events")
    cluster.send(topic, numbered(0, 5))
    cluster.delete_before(topic, 3)
    assert log_starts(cluster.admin, [(topic, 0)]) == {(topic, 0): 3}
    assert Reader(cluster, topic).read() == ([(3, b"3"), (4, b"4")], 5)
    assert Reader(cluster, topic, OFFSET_END).read() == ([], 5)
    assert Reader(cluster, topic, 5).read() == ([], 5)
    for outside in (1, 9):
        message = Reader(cluster, topic, outside).consumer.poll(CALL_S)
        error = None if message is None else message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_record_is_read_with_all_its_parts(cluster: Cluster) -> None:
    topic = cluster.create("events")
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    cluster.send(topic, [b"value"], key=b"key", headers=headers, timestamp=1_700_000_000_000)
    producer = cluster.producer()
    producer.produce(topic, None, "text", 0)
    assert producer.flush(CALL_S) == 0
    (first, second), _ = Reader(cluster, topic).messages()
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", headers)
    assert first.timestamp()[1] == 1_700_000_000_000
    assert len(first) == 5
    assert (second.key(), second.value(), second.headers()) == (b"text", None, None)
    assert abs(second.timestamp()[1] - time.time() * 1000) < 60_000
    assert first.timestamp()[0] == second.timestamp()[0]


def test_the_broker_gives_its_time_where_the_topic_says_so(cluster: Cluster) -> None:
    topic = cluster.create("arrivals", message_timestamp_type="LogAppendTime")
    told: list[tuple[int, int]] = []
    producer = cluster.producer()
    producer.produce(topic, b"a", timestamp=1_700_000_000_000, on_delivery=lambda _, m: told.append(m.timestamp()))
    assert producer.flush(CALL_S) == 0
    (message,), _ = Reader(cluster, topic).messages()
    assert message.timestamp() == told[0]
    assert message.timestamp()[1] > 1_700_000_000_000


def test_offsets_are_found_by_time(cluster: Cluster) -> None:
    topic = cluster.create("events")
    for number in range(3):
        cluster.send(topic, [b"x"], timestamp=1_700_000_000_000 + number)
    assert [offsets_at(cluster.admin, [(topic, 0)], 1_700_000_000_000 + n)[topic, 0] for n in (-5, 1, 2, 3)] == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent_random"])
def test_a_key_has_the_partition_of_its_partitioner(cluster: Cluster, partitioner: str) -> None:
    topic = cluster.create("keyed", 7)
    keys = [f"key-{n}".encode() for n in range(50)]
    chosen: dict[bytes | None, int | None] = {}
    producer = cluster.producer(partitioner=partitioner)
    for key in keys:
        producer.produce(topic, b"", key, on_delivery=lambda _, m: chosen.update({m.key(): m.partition()}))
    assert producer.flush(CALL_S) == 0
    java = {key: partition_of_key(key, 7) for key in keys}
    assert (chosen == java) is (partitioner == "murmur2_random")
    assert [chosen[key] for key in keys[:4]] == ([0, 5, 4, 4] if partitioner == "murmur2_random" else [6, 0, 3, 5])


def test_what_is_too_large_is_refused_by_the_client_or_the_topic(cluster: Cluster) -> None:
    topic = cluster.create("small", max_message_bytes="2000")
    with pytest.raises(KafkaException) as refused:
        cluster.producer(**{"message.max.bytes": 1500}).produce(topic, b"x" * 1600)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    errors: list[KafkaError | None] = []
    producer = cluster.producer()
    producer.produce(topic, b"x" * 2500, on_delivery=lambda error, _: errors.append(error))
    producer.flush(CALL_S)
    assert [error.code() for error in errors if error is not None] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_topics_are_described_created_enlarged_and_deleted(cluster: Cluster) -> None:
    topic = cluster.create("events", 2, cleanup_policy="compact")
    before = topic_states(cluster.admin, [topic])[topic]
    assert before.partitions == (0, 1)
    assert partition_counts(cluster.admin)[topic] == 2
    settings = topic_settings(cluster.admin, [topic])[topic]
    assert (settings["cleanup.policy"], settings["retention.ms"]) == ("compact", "-1")
    assert int(settings[MESSAGE_BYTES]) > 1_000_000
    cluster.grow({"events": 3})
    assert topic_states(cluster.admin, [topic])[topic].topic_id == before.topic_id
    cluster.delete(topic)
    assert existing_states(cluster.admin, [topic]) == {}
    cluster.create("events")
    assert topic_states(cluster.admin, [topic])[topic].topic_id != before.topic_id
    with pytest.raises(KafkaException):
        cluster.create("events")


def test_a_reader_continues_where_it_was_and_ends_are_told_again_after_news(cluster: Cluster) -> None:
    topic, other = cluster.create("events"), cluster.create("others")
    cluster.send(topic, numbered(0, 3))
    reader = Reader(cluster, topic)
    assert reader.read()[1] == 3
    cluster.send(topic, numbered(3, 5))
    assert reader.read() == ([(3, b"3"), (4, b"4")], 5)
    reader.consumer.incremental_assign([TopicPartition(other, 0, 0)])
    assert reader.read() == ([], 0)
    reader.consumer.incremental_unassign([TopicPartition(topic, 0)])
    cluster.send(topic, [b"5"])
    cluster.send(other, [b"x"])
    assert reader.read() == ([(0, b"x")], 1)


def test_committed_offsets_of_a_group_can_be_listed(cluster: Cluster) -> None:
    topic = cluster.create("events")
    cluster.send(topic, numbered(0, 3))
    group = f"{cluster.prefix}group"
    consumer: Consumer = new_client(Consumer, {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()

    def prefixes() -> list[str]:
        return other_prefixes(cluster.bootstrap_servers, {}, group, ["events"], "other-")

    until(lambda: prefixes() == [cluster.prefix], lambda: str(prefixes()), CALL_S)

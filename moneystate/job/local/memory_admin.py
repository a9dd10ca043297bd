"""The admin client of a log in memory. Each answer has the form that librdkafka's client gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Node,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    BrokerMetadata,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    PartitionMetadata,
    TopicDescription,
    TopicMetadata,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic, Uuid

from moneystate.job.local.memory_log import MemoryLog, failed

BROKER = Node(0, "memory", 0)
NO_OFFSET = -1


def metadata(log: MemoryLog, topic: str | None) -> Any:
    """All topics, or one, which has an error if it does not exist."""
    with log.lock:
        seen: Any = ClusterMetadata()
        broker: Any = BrokerMetadata()
        broker.id, broker.host, broker.port = BROKER.id, BROKER.host, BROKER.port
        seen.brokers = {broker.id: broker}
        seen.topics = {name: _topic(log, name) for name in ([topic] if topic else log.topics)}
        return seen


def _topic(log: MemoryLog, name: str) -> Any:
    seen: Any = TopicMetadata()
    seen.topic = name
    there = log.topics.get(name)
    if there is None:
        seen.error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return seen
    for number in range(len(there.partitions)):
        partition: Any = PartitionMetadata()
        partition.id, partition.leader, partition.replicas, partition.isrs = number, 0, [0], [0]
        seen.partitions[number] = partition
    return seen


def _done(answer: Callable[..., Any], *asked: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(answer(*asked))
    except KafkaException as e:
        future.set_exception(e)
    return future


class MemoryAdmin:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    def poll(self, timeout: float = 0) -> int:
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return metadata(self.log, topic)

    def describe_topics(self, topics: TopicCollection, **_: Any) -> dict[str, Future[Any]]:
        return {name: _done(self._description, name) for name in topics.topic_names}

    def _description(self, name: str) -> Any:
        with self.log.lock:
            there = self.log.topics.get(name)
            if there is None:
                raise failed(KafkaError.UNKNOWN_TOPIC_OR_PART)
            partitions = [TopicPartitionInfo(n, BROKER, [BROKER], [BROKER]) for n in range(len(there.partitions))]
            return TopicDescription(name, Uuid(0, there.number), False, partitions)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], isolation_level: Any = None, **_: Any
    ) -> dict[TopicPartition, Future[Any]]:
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        return {tp: _done(self._offset, tp, spec, committed) for tp, spec in wanted.items()}

    def _offset(self, tp: TopicPartition, spec: Any, committed: bool) -> Any:
        with self.log.lock:
            log = self.log.partition(tp.topic, tp.partition)
            if spec is OffsetSpec.earliest():  # type: ignore[no-untyped-call]
                offset = log.start
            elif spec is OffsetSpec.latest():  # type: ignore[no-untyped-call]
                offset = log.stable_end() if committed else log.end
            else:
                first = log.at(spec._value)
                offset = NO_OFFSET if first is None else first
            return ListOffsetsResultInfo(offset, -1, -1)

    def describe_configs(self, resources: Iterable[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {resource: _done(self._settings, resource) for resource in resources}

    def _settings(self, resource: Any) -> dict[str, Any]:
        if resource.restype is not ConfigResource.Type.TOPIC:
            return {}
        with self.log.lock:
            there = self.log.topics.get(resource.name)
            if there is None:
                raise failed(KafkaError.UNKNOWN_TOPIC_OR_PART)
            return {name: ConfigEntry(name, value) for name, value in there.settings.items()}

    def create_topics(
        self, topics: Sequence[NewTopic], validate_only: bool = False, **_: Any
    ) -> dict[str, Future[Any]]:
        return {new.topic: _done(self._create, new, validate_only) for new in topics}

    def _create(self, new: Any, validate_only: bool) -> None:
        if not validate_only:
            self.log.create(new.topic, new.num_partitions, {k: str(v) for k, v in new.config.items()})

    def create_partitions(self, topics: Sequence[NewPartitions], **_: Any) -> dict[str, Future[Any]]:
        return {new.topic: _done(self.log.grow, new.topic, new.new_total_count) for new in topics}

    def delete_topics(self, topics: Iterable[str], **_: Any) -> dict[str, Future[Any]]:
        return {name: _done(self.log.delete, name) for name in topics}

    def delete_records(self, partitions: Iterable[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
        return {tp: _done(self._delete_before, tp) for tp in partitions}

    def _delete_before(self, tp: TopicPartition) -> None:
        with self.log.lock:
            self.log.partition(tp.topic, tp.partition).delete_before(tp.offset)

    def list_consumer_group_offsets(
        self, groups: Sequence[ConsumerGroupTopicPartitions], **_: Any
    ) -> dict[str, Future[Any]]:
        return {asked.group_id: _done(self._group, asked.group_id) for asked in groups}

    def _group(self, group: str) -> Any:
        with self.log.lock:
            reached = [TopicPartition(*place, offset) for place, offset in self.log.groups.get(group, {}).items()]
            return ConsumerGroupTopicPartitions(group, reached)

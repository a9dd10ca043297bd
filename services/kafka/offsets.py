"""What the broker says of topics and of where their logs begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from services.errors import SetupError
from services.kafka.client import METADATA_TIMEOUT_S

FullPartition = tuple[str, int]  # topic with prefix, partition


@dataclass(frozen=True)
class TopicState:
    topic_id: str
    partitions: tuple[int, ...]


def topic_states(admin: AdminClient, topics: list[str]) -> dict[str, TopicState]:
    """Raises SetupError for a topic that is not there."""
    futures = admin.describe_topics(TopicCollection(topics), request_timeout=METADATA_TIMEOUT_S)
    states: dict[str, TopicState] = {}
    for topic, future in futures.items():
        try:
            described = future.result()
        except KafkaException as e:
            raise SetupError(
                f"{topic}: expected a topic, but {e.args[0].str()}.", "create it, or leave --create-topics on."
            ) from None
        states[topic] = TopicState(str(described.topic_id), tuple(p.id for p in described.partitions))
    return states


def log_ends(admin: AdminClient, partitions: Iterable[FullPartition]) -> dict[FullPartition, int]:
    """Where a read_committed reader's log ends at this moment (the last stable offset)."""
    return _list(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def log_starts(admin: AdminClient, partitions: Iterable[FullPartition]) -> dict[FullPartition, int]:
    return _list(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def offsets_at(admin: AdminClient, partitions: Iterable[FullPartition], timestamp_ms: int) -> dict[FullPartition, int]:
    """The first offsets with a Kafka timestamp at or after `timestamp_ms`; the log's end where there is none."""
    wanted = list(partitions)
    found = _list(admin, wanted, OffsetSpec.for_timestamp(timestamp_ms))
    ends = log_ends(admin, wanted)
    return {tp: ends[tp] if offset < 0 else offset for tp, offset in found.items()}


def _list(admin: AdminClient, partitions: Iterable[FullPartition], spec: OffsetSpec) -> dict[FullPartition, int]:
    request = {TopicPartition(topic, p): spec for topic, p in partitions}
    futures = admin.list_offsets(
        request, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=METADATA_TIMEOUT_S
    )
    return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}

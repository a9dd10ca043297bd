"""Asks the broker about topics and the start and end offsets of their logs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from moneystate.errors import BrokerError, SetupError
from moneystate.kafka.client import METADATA_TIMEOUT_S, MOVING, advice, reason

FullPartition = tuple[str, int]  # topic with prefix, partition
RETRY_S = 0.1
CHECK = "check the broker."


@dataclass(frozen=True)
class TopicState:
    topic_id: str
    partitions: tuple[int, ...]


def topic_states(admin: AdminClient, topics: list[str]) -> dict[str, TopicState]:
    """Raises SetupError for a topic that does not exist, and BrokerError if the broker does not answer."""
    states = existing_states(admin, topics)
    for topic in topics:
        if topic not in states:
            raise SetupError(
                f"{topic}: expected a topic, but the broker has none of this name.",
                "create it, or leave --create-topics on.",
            )
    return states


def existing_states(admin: AdminClient, topics: list[str]) -> dict[str, TopicState]:
    """Returns the states of those `topics` that exist. Raises BrokerError if the broker does not answer."""
    states: dict[str, TopicState] = {}
    if not topics:
        return states
    futures = admin.describe_topics(TopicCollection(topics), request_timeout=METADATA_TIMEOUT_S)
    for topic, future in futures.items():
        try:
            described = future.result()
        except KafkaException as e:
            if e.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise BrokerError(
                f"{topic}: expected its description, but {reason(e)}.", advice(e.args[0], CHECK)
            ) from None
        states[topic] = TopicState(str(described.topic_id), tuple(p.id for p in described.partitions))
    return states


def log_ends(admin: AdminClient, partitions: Iterable[FullPartition]) -> dict[FullPartition, int]:
    """The ends of the log for read_committed readers (last stable offsets). Like all functions here that ask for
    offsets, it raises BrokerError."""
    return _list(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def high_watermark(admin: AdminClient, topic: str, partition: int) -> int:
    return high_watermarks(admin, [(topic, partition)])[topic, partition]


def high_watermarks(admin: AdminClient, partitions: Iterable[FullPartition]) -> dict[FullPartition, int]:
    """The ends of the log including records of open transactions."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _list(admin, partitions, latest, IsolationLevel.READ_UNCOMMITTED)


def log_starts(admin: AdminClient, partitions: Iterable[FullPartition]) -> dict[FullPartition, int]:
    return _list(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def offsets_at(admin: AdminClient, partitions: Iterable[FullPartition], timestamp_ms: int) -> dict[FullPartition, int]:
    """The first offsets with a Kafka timestamp at or after `timestamp_ms`, or the log's end."""
    wanted = list(partitions)
    offsets = _list(admin, wanted, OffsetSpec.for_timestamp(timestamp_ms))
    ends = log_ends(admin, wanted)
    return {tp: ends[tp] if offset < 0 else offset for tp, offset in offsets.items()}


def _list(
    admin: AdminClient,
    partitions: Iterable[FullPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[FullPartition, int]:
    """Asks again for partitions whose leader is changing, starting, or not yet known because the topic is new."""
    left = {TopicPartition(topic, p): spec for topic, p in partitions}
    offsets: dict[FullPartition, int] = {}
    give_up = time.monotonic() + METADATA_TIMEOUT_S
    while left:
        futures = admin.list_offsets(left, isolation_level=isolation, request_timeout=METADATA_TIMEOUT_S)
        for tp, future in futures.items():
            why = "the broker does not know them yet"
            try:
                offset = future.result().offset
            except KafkaException as e:
                offset, why = OFFSET_INVALID, reason(e)
                if e.args[0].code() not in MOVING:
                    raise _no_offset(tp, why, advice(e.args[0], CHECK)) from None
            if offset != OFFSET_INVALID:  # a broker that has just started may answer so, without an error
                offsets[tp.topic, tp.partition] = offset
                del left[tp]
            elif time.monotonic() > give_up:
                raise _no_offset(tp, why)
        if left:
            time.sleep(RETRY_S)
            _refresh(admin)
    return offsets


def _refresh(admin: AdminClient) -> None:
    """Makes the client ask for leaders again: its cached leader epoch may be from before a broker's restart."""
    with contextlib.suppress(KafkaException):  # the broker is unreachable: the next request reports it
        admin.list_topics(timeout=METADATA_TIMEOUT_S)


def _no_offset(tp: TopicPartition, why: str, do: str = CHECK) -> BrokerError:
    return BrokerError(f"{tp.topic}, partition {tp.partition}: expected its offsets, but {why}.", do)

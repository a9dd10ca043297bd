"""Complete logs of a Kafka cluster as the reference model takes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tests.reference.model import LogRecord, Partition

METADATA_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 60.0  # without any progress, that is: a broker on the loopback answers within milliseconds


def read_log(
    bootstrap_servers: str, topics: Sequence[str], prefix: str = "", isolation: str = "read_committed",
    make: Callable[[dict[str, Any]], Consumer] = Consumer,
) -> tuple[list[LogRecord], list[Partition]]:  # fmt: skip
    """All records of `topics` (named without `prefix`) up to the end, by partition and offset, and all partitions.

    A partition's end is where the broker says that nothing more can be read (the last stable offset, with
    read_committed), not its last record: transaction markers and aborted records take up offsets that are never
    delivered. `make` creates the consumer. Raises `LookupError` for a topic that does not exist and `TimeoutError`
    where reading does not go on.
    """
    consumer = make(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reference-model",  # wanted by the client; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the broker keeps a reader waiting for so long before it tells of an end
            "auto.offset.reset": "error",
        }
    )
    try:
        partitions = [partition for topic in topics for partition in _partitions(consumer, prefix, topic)]
        records = _read_to_end(consumer, prefix, partitions) if partitions else []
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.topic, record.partition, record.offset)), partitions


def read_values(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """The committed values of a topic (its full name), by partition and offset."""
    records, _ = read_log(bootstrap_servers, [topic])
    return [record.value for record in records]


def _partitions(consumer: Consumer, prefix: str, topic: str) -> list[Partition]:
    metadata = consumer.list_topics(prefix + topic, timeout=METADATA_TIMEOUT_S).topics[prefix + topic]
    if metadata.error is not None:
        raise LookupError(f"topic {prefix + topic}: {metadata.error}")
    return [(topic, number) for number in sorted(metadata.partitions)]


def _read_to_end(consumer: Consumer, prefix: str, partitions: Sequence[Partition]) -> list[LogRecord]:
    consumer.assign([KafkaPartition(prefix + topic, number, OFFSET_BEGINNING) for topic, number in partitions])
    records: list[LogRecord] = []
    unfinished = set(partitions)
    deadline = time.monotonic() + READ_TIMEOUT_S
    while unfinished:
        for message in consumer.consume(10_000, timeout=0.1):
            deadline = time.monotonic() + READ_TIMEOUT_S
            place = _place(message, prefix)
            error = message.error()
            if error is None:
                records.append(_record(message, *place))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(place)
            else:
                raise KafkaException(error)
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing read for {READ_TIMEOUT_S} s, unfinished: {sorted(unfinished)}")
    return records


def _place(message: Message, prefix: str) -> Partition:
    topic, number = message.topic(), message.partition()
    if topic is None or number is None:
        raise KafkaException(message.error())
    return topic.removeprefix(prefix), number


def _record(message: Message, topic: str, partition: int) -> LogRecord:
    kind, timestamp_ms = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())  # what a consumer delivers
    return LogRecord(
        topic,
        partition,
        cast(int, message.offset()),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        tuple(headers or ()),
    )

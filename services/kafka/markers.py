"""The markers in the compacted commits topic (`services.engine.marker` says what they mean)."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from services.engine.marker import Marker, decode
from services.errors import BrokerError
from services.kafka.client import METADATA_TIMEOUT_S, range_consumer, reason


def read_markers(bootstrap_servers: str, extra: dict[str, str], topic: str) -> dict[bytes, Marker]:
    """All markers of the topic by key, as far as they are committed."""
    consumer = range_consumer(bootstrap_servers, extra, "moneystate-markers", **{"fetch.wait.max.ms": 10})
    try:
        return _read(consumer, topic)
    except KafkaException as e:
        raise BrokerError(f"{topic}: expected to read the markers, but {reason(e)}.", "check the broker.") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> dict[bytes, Marker]:
    partitions = consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    unread = set(partitions)
    markers: dict[bytes, Marker] = {}
    while unread:
        for message in consumer.consume(1000, 0.5):
            error = message.error()
            if error is None:
                _keep(markers, message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            elif error.code() != KafkaError._ALL_BROKERS_DOWN and not error.retriable():
                raise KafkaException(error)
    return markers


def _keep(markers: dict[bytes, Marker], key: bytes, value: bytes | None) -> None:
    if value is None:
        markers.pop(key, None)
    else:
        markers[key] = decode(value)

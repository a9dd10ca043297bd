"""The markers in the compacted commits topic (`services.engine.marker` says what they mean)."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from services.engine.marker import Marker, decode
from services.errors import BrokerError
from services.kafka.client import admin_client, is_end_of_partition, place, range_consumer, reason
from services.kafka.offsets import log_ends, log_starts, topic_states

POLL_S = 0.05


class MarkerLog:
    """The commits topic as far as it was read. `read` goes on from there, so a look in every batch is cheap."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str) -> None:
        self.topic = topic
        self.admin = admin_client(bootstrap_servers, extra)
        self.consumer: Consumer = range_consumer(
            bootstrap_servers, extra, "moneystate-markers", **{"fetch.wait.max.ms": 10}
        )
        self.positions: dict[int, int] = {}
        self.markers: dict[bytes, Marker] = {}

    def read(self) -> dict[bytes, Marker]:
        """All markers by key that are committed at this moment."""
        try:
            self._read()
        except KafkaException as e:
            raise BrokerError(
                f"{self.topic}: expected to read the markers, but {reason(e)}.", "check the broker."
            ) from None
        return self.markers

    def _read(self) -> None:
        if not self.positions:
            partitions = topic_states(self.admin, [self.topic])[self.topic].partitions
            starts = log_starts(self.admin, [(self.topic, p) for p in partitions])
            self.positions = {p: offset for (_, p), offset in starts.items()}
            self.consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in self.positions.items()])
        ends = log_ends(self.admin, [(self.topic, p) for p in self.positions])
        while any(self.positions[p] < end for (_, p), end in ends.items()):
            message = self.consumer.poll(POLL_S)
            if message is None:
                continue
            _, partition, offset = place(message)
            error = message.error()
            if error is None:
                self._keep(message.key() or b"", message.value())
                self.positions[partition] = offset + 1
            elif is_end_of_partition(message):
                self.positions[partition] = offset
            elif error.code() != KafkaError._ALL_BROKERS_DOWN and not error.retriable():
                raise KafkaException(error)

    def _keep(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.markers.pop(key, None)
        else:
            self.markers[key] = decode(value)

    def close(self) -> None:
        self.consumer.close()


def read_markers(bootstrap_servers: str, extra: dict[str, str], topic: str) -> dict[bytes, Marker]:
    """All committed markers, read once."""
    log = MarkerLog(bootstrap_servers, extra, topic)
    try:
        return dict(log.read())
    finally:
        log.close()

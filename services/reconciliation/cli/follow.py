"""Reads an output of the reconciliation, from the beginning and on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from moneystate.engine.avro import MAGIC, Malformed
from moneystate.errors import BrokerError
from moneystate.kafka.client import METADATA_TIMEOUT_S, range_consumer, reason
from moneystate.records.codec import Codec
from moneystate.records.json_text import parse
from moneystate.records.shapes import Shapes

GROUP: Final = "moneystate-reconciliation-status"  # nothing is committed
POLL_S: Final = 0.2
AT_ONCE: Final = 1_000

Take = Callable[[Any], None]


class Follower:
    """A reader of all partitions. `record`: the class of the topic's records. Raises BrokerError."""

    def __init__(self, servers: str, settings: dict[str, str], topic: str, record: type) -> None:
        self.topic = topic
        self.read = reader(record)
        self.consumer: Consumer = range_consumer(servers, settings, GROUP)
        partitions = self._partitions()
        self.consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        self.behind = set(partitions)  # partitions that have not been read to their end

    def _partitions(self) -> list[int]:
        try:
            metadata = self.consumer.list_topics(self.topic, timeout=METADATA_TIMEOUT_S).topics[self.topic]
        except KafkaException as e:
            raise BrokerError(f"{self.topic}: expected a broker, but {reason(e)}.", "check the broker.") from None
        if metadata.error is not None or not metadata.partitions:
            raise BrokerError(
                f"{self.topic}: expected a topic, found none.",
                "start moneystate run reconciliation, or check --topic-prefix.",
            )
        return sorted(metadata.partitions)

    def catch_up(self, take: Take, timeout_s: float) -> None:
        """Reads everything that is there. Raises BrokerError."""
        deadline = time.monotonic() + timeout_s
        while self.behind:
            if time.monotonic() > deadline:
                raise BrokerError(f"{self.topic}: expected to read it within {timeout_s:.0f} s.", "check the broker.")
            self.poll(take)

    def poll(self, take: Take) -> bool:
        """Whether there was a record."""
        any_record = False
        for message in self.consumer.consume(AT_ONCE, POLL_S):
            error = message.error()
            if error is None:
                value = message.value()
                if value is not None:
                    take(self.read(value))
                    any_record = True
            elif error.code() == KafkaError._PARTITION_EOF:
                self.behind.discard(message.partition() or 0)
            elif not error.retriable():
                raise BrokerError(
                    f"{self.topic}: expected to read it, but {reason(KafkaException(error))}.", "check the brokers."
                )
        return any_record

    def close(self) -> None:
        self.consumer.close()


def reader(record: type) -> Callable[[bytes], Any]:
    """Decodes a value in Avro or JSON, whatever the configuration says."""
    codec = Codec(Shapes("reconciliation").record(record, "an output of the reconciliation"))

    def read(value: bytes) -> Any:
        try:
            return codec.decode(value) if value.startswith(MAGIC) else codec.from_json(parse(value.decode()))
        except (Malformed, UnicodeDecodeError) as e:
            raise BrokerError(
                f"the topic: expected a record of {record.__name__}, found another ({e}).", "check --topic-prefix."
            ) from None

    return read

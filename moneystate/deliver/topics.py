"""Topics as the workers read them: the rows of two tables, and what an earlier worker has left of a partition."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from moneystate.errors import BrokerError
from moneystate.kafka.client import admin_client, is_end_of_partition, place, range_consumer
from moneystate.kafka.offsets import log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Message, Range, RangeReader

STALL_S: Final = 60.0
GROUP: Final = "moneystate-deliver"


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a table. `value` None: it is deleted."""

    topic: str
    key: str
    value: bytes | None
    partition: int
    offset: int
    time_ms: int | None = None  # Kafka's; None: it has none


class Tables:
    """The rows of tables as they come. Calls block."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topics: list[str]) -> None:
        """Raises SetupError if a topic is not there, and BrokerError."""
        self._admin = admin_client(bootstrap_servers, extra)
        states = topic_states(self._admin, topics)
        self._partitions = [(topic, number) for topic in topics for number in states[topic].partitions]
        starts = log_starts(self._admin, self._partitions)
        self.positions = dict(starts)
        self._consumer: Consumer = range_consumer(bootstrap_servers, extra, GROUP)
        self._consumer.assign([TopicPartition(*tp, starts[tp]) for tp in self._partitions])

    def read_all(self) -> Iterator[Row]:
        """All rows up to the present end. Raises BrokerError."""
        ends = log_ends(self._admin, self._partitions)
        moved = time.monotonic()
        while any(self.positions[tp] < end for tp, end in ends.items()):
            rows = list(self.read(0.2))
            moved = time.monotonic() if rows else moved
            if time.monotonic() - moved > STALL_S:
                raise BrokerError("the tables: expected rows, found none for a minute.", "check the broker.")
            yield from rows

    def read(self, wait_s: float) -> Iterator[Row]:
        """The rows that are there."""
        for message in self._consumer.consume(1_000, wait_s):
            topic, partition, offset = place(message)
            if is_end_of_partition(message):
                self.positions[topic, partition] = max(self.positions[topic, partition], offset)
            elif message.error() is None:
                self.positions[topic, partition] = offset + 1
                key = (message.key() or b"").decode(errors="replace")
                kind, time_ms = message.timestamp()
                yield Row(topic, key, message.value(), partition, offset, time_ms if kind else None)

    def close(self) -> None:
        self._consumer.close()


class Leftovers:
    """Topics of a partition, read to their present end. Calls block, and raise BrokerError."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str]) -> None:
        self._admin = admin_client(bootstrap_servers, extra)
        self._reader = RangeReader(bootstrap_servers, extra, GROUP)

        self._is_stopped = False

    def stop(self) -> None:
        """Another thread may call it: what is being read ends before its end."""
        self._is_stopped = True

    def latest(self, topic: str, partition: int) -> dict[bytes, bytes]:
        """The last value of each key that has one."""
        values: dict[bytes, bytes] = {}
        for key, value in self.records(topic, partition):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        return values

    def records(self, topic: str, partition: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys and values, those of a key in their order."""
        for message in self._messages(topic, partition, 0):
            yield message.key() or b"", message.value()

    def values(self, topic: str, partition: int, offset: int) -> Iterator[tuple[int, bytes | None]]:
        """Offsets and values from an offset on."""
        for message in self._messages(topic, partition, offset):
            yield message.offset(), message.value()

    def _messages(self, topic: str, partition: int, offset: int) -> Iterator[Message]:
        tp = topic, partition
        start, end = max(offset, log_starts(self._admin, [tp])[tp]), log_ends(self._admin, [tp])[tp]
        for message in self._reader.read([Range(topic, partition, start, end)]):
            if self._is_stopped:
                return
            yield message

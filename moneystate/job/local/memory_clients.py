"""Clients of a log in memory, with the methods of librdkafka's clients that the platform's jobs and readers call.

    with memory_log() as (log, address):
        run("--bootstrap-servers", address)

They take the place of librdkafka's clients where `new_client` gets the log's address. So planning, reading, claims,
markers and the sink run as they do with a broker.

A consumer joins no group, and has no methods for that. It reads the partitions that it is assigned. A producer writes
at once: `flush` and `poll` only call what waits for the delivery.
"""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from moneystate.engine.items import Header
from moneystate.job.local.memory_admin import MemoryAdmin, metadata
from moneystate.job.local.memory_log import MemoryLog, Place, Record, State, Transaction, failed
from moneystate.kafka.client import stand_in
from moneystate.kafka.partitions import partition_of_key

PRODUCER_BYTES: Final = 1_000_000  # librdkafka's default of `message.max.bytes`
Delivered = Callable[[KafkaError | None, Any], None]


_numbers: Final = itertools.count(1)


@contextmanager
def memory_log() -> Iterator[tuple[MemoryLog, str]]:
    """A new log, and its address in place of a broker's, which is valid in this process."""
    log, address = MemoryLog(), f"memory-{next(_numbers)}:9092"
    stand_in(address, partial(_client, log))
    try:
        yield log, address
    finally:
        stand_in(address, None)


def _client(log: MemoryLog, make: Any, config: Mapping[str, Any]) -> Any:
    """The client that takes the place of one of the class `make`."""
    if make is Consumer:
        return MemoryConsumer(log, config)
    if make is Producer:
        return MemoryProducer(log, config)
    return MemoryAdmin(log)


class MemoryConsumer:
    """Reads assigned partitions."""

    def __init__(self, log: MemoryLog, config: Mapping[str, Any]) -> None:
        self.log = log
        self.group = str(config["group.id"])
        self.committed_only = config.get("isolation.level", "read_committed") == "read_committed"
        self.tells_ends = bool(config.get("enable.partition.eof"))
        self.reset = str(config.get("auto.offset.reset", "latest"))
        self.positions: dict[Place, int] = {}  # a negative one is librdkafka's number for a place in the log
        self.ends: dict[Place, int] = {}  # of those partitions of which an end was told, where that was

    # Assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        with self.log.lock:
            self.unassign()
            self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        with self.log.lock:
            self.positions.update({(tp.topic, tp.partition): tp.offset for tp in partitions})

    def unassign(self) -> None:
        with self.log.lock:
            self.positions, self.ends = {}, {}

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        with self.log.lock:
            for tp in partitions:
                place = (tp.topic, tp.partition)
                del self.positions[place]
                self.ends.pop(place, None)

    def close(self) -> None:
        self.unassign()

    # Reading

    def poll(self, timeout: float | None = None) -> Message[bytes, bytes] | None:
        messages = self.consume(1, -1 if timeout is None else timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message[bytes, bytes]]:
        """Returns as soon as there is something. A negative time is no limit."""
        until = time.monotonic() + timeout
        with self.log.changed:
            while not (messages := self._take(num_messages)):
                left = until - time.monotonic()
                if timeout >= 0 and left <= 0:
                    break
                self.log.changed.wait(left if timeout >= 0 else None)
        return messages

    def _take(self, most: int) -> list[Message[bytes, bytes]]:
        messages: list[Message[bytes, bytes]] = []
        for place in list(self.positions):
            if len(messages) < most:
                try:
                    messages += self._take_from(place, most - len(messages))
                except KafkaException as e:
                    messages.append(_event(place, e.args[0], self.positions.pop(place)))
        return messages

    def _take_from(self, place: Place, most: int) -> list[Message[bytes, bytes]]:
        log = self.log.partition(*place)
        kind = TIMESTAMP_LOG_APPEND_TIME if self.log.topics[place[0]].has_brokers_time else TIMESTAMP_CREATE_TIME
        records, position = log.read(self._start(place), most, self.committed_only)
        self.positions[place] = position
        messages = [_message(place, record, kind) for record in records]
        at_end = position >= (log.stable_end() if self.committed_only else log.end)
        if self.tells_ends and at_end and len(messages) < most and self.ends.get(place) != position:
            self.ends[place] = position
            messages.append(_event(place, KafkaError(KafkaError._PARTITION_EOF), position))
        return messages

    def _start(self, place: Place) -> int:
        """Returns where to read next. Raises KafkaException if the log does not have that, and no other place is
        wanted."""
        log, position = self.log.partition(*place), self.positions[place]
        if position == OFFSET_BEGINNING:
            return log.start
        if position == OFFSET_END:
            return self._end(place)
        if position < 0:
            position = self.log.groups.get(self.group, {}).get(place, -1)
        if log.start <= position <= log.end:
            return position
        if self.reset == "error":
            raise failed(KafkaError._AUTO_OFFSET_RESET, f"the log goes from {log.start} to {log.end}, not {position}")
        return log.start if self.reset in ("earliest", "smallest", "beginning") else self._end(place)

    def _end(self, place: Place) -> int:
        log = self.log.partition(*place)
        return log.stable_end() if self.committed_only else log.end

    # Offsets

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        with self.log.lock:
            place = (partition.topic, partition.partition)
            return self.log.partition(*place).start, self._end(place)

    def commit(self, *, offsets: Iterable[TopicPartition], asynchronous: bool = True) -> None:
        with self.log.lock:
            reached = {(tp.topic, tp.partition): tp.offset for tp in offsets}
            self.log.groups.setdefault(self.group, {}).update(reached)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return metadata(self.log, topic)


class MemoryProducer:
    """Writes, in transactions if it has a transactional id."""

    def __init__(self, log: MemoryLog, config: Mapping[str, Any]) -> None:
        self.log = log
        self.name: str | None = config.get("transactional.id")
        self.most_bytes = int(config.get("message.max.bytes", PRODUCER_BYTES))
        self.as_java = config.get("partitioner") == "murmur2_random"
        self.epoch = 0
        self.error: KafkaException | None = None  # why the open transaction cannot be committed
        self.deliveries: list[tuple[Delivered, KafkaError | None, Any]] = []

    def __len__(self) -> int:
        return len(self.deliveries)

    def init_transactions(self, timeout: float = -1) -> None:
        assert self.name is not None
        self.epoch = self.log.begin_writer(self.name)

    def begin_transaction(self) -> None:
        assert self.name is not None
        with self.log.lock:
            self.log.writer(self.name, self.epoch).transaction = Transaction()
            self.error = None

    def commit_transaction(self, timeout: float = -1) -> None:
        assert self.name is not None
        self.poll()
        if self.error is not None:
            raise self.error
        self.log.end_transaction(self.name, self.epoch, State.COMMITTED)

    def abort_transaction(self, timeout: float = -1) -> None:
        assert self.name is not None
        self.poll()
        self.log.end_transaction(self.name, self.epoch, State.ABORTED)

    def produce(
        self, topic: str, value: bytes | str | None = None, key: bytes | str | None = None, partition: int = -1,
        on_delivery: Delivered | None = None, timestamp: int = 0,
        headers: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        key, value = _bytes(key), _bytes(value)
        if len(key or b"") + len(value or b"") > self.most_bytes:
            raise failed(KafkaError.MSG_SIZE_TOO_LARGE)
        named = headers.items() if isinstance(headers, Mapping) else headers or ()
        content: list[Header] = [(name, _bytes(part)) for name, part in named]
        with self.log.lock:
            transaction = self._transaction()
            error: KafkaError | None = None
            place = (topic, partition if partition >= 0 else self._partition(topic, key))
            try:
                record = self.log.append(place, key, value, content, timestamp, transaction)
                kind = TIMESTAMP_LOG_APPEND_TIME if self.log.topics[topic].has_brokers_time else TIMESTAMP_CREATE_TIME
                message = _message(place, record, kind)
            except KafkaException as e:
                self.error, error = e, e.args[0]
                message = Message(topic=topic, partition=place[1], error=error)
        if on_delivery is not None:
            self.deliveries.append((on_delivery, error, message))

    def _transaction(self) -> Transaction | None:
        if self.name is None:
            return None
        transaction = self.log.writer(self.name, self.epoch).transaction
        if transaction is None:
            raise failed(KafkaError._STATE, "there is no open transaction")
        return transaction

    def _partition(self, topic: str, key: bytes | None) -> int:
        there = self.log.topics.get(topic)
        count = 1 if there is None else len(there.partitions)
        if key is None:
            return random.randrange(count)
        return partition_of_key(key, count) if self.as_java else zlib.crc32(key) % count

    def poll(self, timeout: float = 0) -> int:
        waiting, self.deliveries = self.deliveries, []
        for delivered, error, message in waiting:
            delivered(error, message)
        return len(waiting)

    def flush(self, timeout: float = -1) -> int:
        self.poll()
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return metadata(self.log, topic)


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _message(place: Place, record: Record, kind: int) -> Message[bytes, bytes]:
    return Message(
        topic=place[0], partition=place[1], offset=record.offset, key=record.key, value=record.value,
        headers=list(record.headers) or None, timestamp=(kind, record.timestamp_ms),
    )  # fmt: skip


def _event(place: Place, error: KafkaError, offset: int) -> Message[bytes, bytes]:
    return Message(topic=place[0], partition=place[1], offset=offset, error=error)

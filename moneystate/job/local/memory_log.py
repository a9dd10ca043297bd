"""A Kafka log in the memory of this process: topics, partitions, transactions, compaction and retention.

`memory_clients` has its clients. A record has the offset that a broker gives it: the marker that ends a transaction
takes up one offset in each partition, and compaction leaves gaps. The log has one broker, which is never away. A
transaction has no time limit.
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from moneystate.engine.items import Header

Place = tuple[str, int]  # topic and partition
DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}


def failed(code: int, text: str = "", *, fatal: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, text or None, fatal))


class State(Enum):
    """Describes what became of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Transaction:
    def __init__(self) -> None:
        self.state = State.OPEN
        self.first: dict[Place, int] = {}  # its first offset in each partition


class Record(NamedTuple):
    """A record, or the marker that ends a transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp_ms: int
    transaction: Transaction | None
    is_marker: bool

    @property
    def is_committed(self) -> bool:
        return not self.is_marker and (self.transaction is None or self.transaction.state is State.COMMITTED)


class PartitionLog:
    """The records of one partition, in offset order."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.start = 0
        self.end = 0
        self.open: dict[Transaction, int] = {}  # with the first offset of each

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int,
        transaction: Transaction | None = None, is_marker: bool = False,
    ) -> int:  # fmt: skip
        """Returns the offset."""
        offset = self.end
        self.records.append(Record(offset, key, value, headers, timestamp_ms, transaction, is_marker))
        self.end += 1
        return offset

    def stable_end(self) -> int:
        """The end for readers of committed records."""
        return min(self.open.values(), default=self.end)

    def read(self, offset: int, most: int, committed: bool) -> tuple[list[Record], int]:
        """Up to `most` records from `offset` on, and the offset at which to go on."""
        end = self.stable_end() if committed else self.end
        records: list[Record] = []
        for number in range(self._index(offset), len(self.records)):
            record = self.records[number]
            if record.offset >= end:
                break
            if len(records) == most:
                return records, record.offset
            aborted = record.transaction is not None and record.transaction.state is State.ABORTED
            if not (record.is_marker or (committed and aborted)):
                records.append(record)
        return records, max(offset, end)

    def at(self, timestamp_ms: int) -> int | None:
        """The first offset with this time or a later one."""
        return next((r.offset for r in self.records if not r.is_marker and r.timestamp_ms >= timestamp_ms), None)

    def delete_before(self, offset: int) -> None:
        del self.records[: self._index(offset)]
        self.start = max(self.start, offset)

    def compact(self) -> None:
        """Leaves the last committed record of each key, and all that is not yet stable. Tombstones stay."""
        stable = self.stable_end()
        last = {record.key: record.offset for record in self.records if record.offset < stable and record.is_committed}
        self.records = [r for r in self.records if r.offset >= stable or last.get(r.key) == r.offset]

    def _index(self, offset: int) -> int:
        return bisect_left(self.records, offset, key=lambda record: record.offset)


class Topic:
    def __init__(self, number: int, partitions: int, settings: Mapping[str, str]) -> None:
        self.number = number  # no two topics have the same, even if they have the same name
        self.settings = {**DEFAULTS, **settings}
        self.partitions = [PartitionLog() for _ in range(partitions)]

    @property
    def has_brokers_time(self) -> bool:
        return self.settings["message.timestamp.type"] == "LogAppendTime"


class Writer:
    """A transactional id. The last producer that has called `init_transactions` has the latest epoch."""

    def __init__(self) -> None:
        self.epoch = 0
        self.transaction: Transaction | None = None


class MemoryLog:
    """A cluster of topics. Its clients take `lock` for whatever they do, and wait for `changed`."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.writers: dict[str, Writer] = {}
        self.groups: dict[str, dict[Place, int]] = {}
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._made = itertools.count(1)

    # Topics

    def create(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        with self.lock:
            if topic in self.topics:
                raise failed(KafkaError.TOPIC_ALREADY_EXISTS, f"topic {topic} exists already")
            self.topics[topic] = Topic(next(self._made), max(partitions, 1), settings or {})
            self.changed.notify_all()

    def delete(self, topic: str) -> None:
        with self.lock:
            self._topic(topic)
            del self.topics[topic]
            self.changed.notify_all()

    def grow(self, topic: str, partitions: int) -> None:
        with self.lock:
            logs = self._topic(topic).partitions
            if partitions <= len(logs):
                raise failed(KafkaError.INVALID_PARTITIONS, f"topic {topic} has {len(logs)} partitions")
            logs += [PartitionLog() for _ in range(partitions - len(logs))]
            self.changed.notify_all()

    def compact(self, topic: str) -> None:
        """Does what the broker's cleaner does to a compacted topic."""
        with self.lock:
            for log in self._topic(topic).partitions:
                log.compact()

    def partition(self, topic: str, partition: int) -> PartitionLog:
        logs = self._topic(topic).partitions
        if not 0 <= partition < len(logs):
            raise failed(KafkaError.UNKNOWN_TOPIC_OR_PART, f"topic {topic} has no partition {partition}")
        return logs[partition]

    def _topic(self, topic: str) -> Topic:
        if topic not in self.topics:
            raise failed(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {topic}")
        return self.topics[topic]

    # Writing

    def append(
        self, place: Place, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int,
        transaction: Transaction | None,
    ) -> Record:  # fmt: skip
        with self.lock:
            log = self.partition(*place)
            settings = self.topics[place[0]].settings
            if len(key or b"") + len(value or b"") > int(settings["max.message.bytes"]):
                raise failed(KafkaError.MSG_SIZE_TOO_LARGE, "the record is larger than the topic takes")
            now_ms = time.time_ns() // 1_000_000
            if self.topics[place[0]].has_brokers_time or timestamp_ms <= 0:
                timestamp_ms = now_ms
            offset = log.append(key, value, headers, timestamp_ms, transaction)
            if transaction is not None and place not in transaction.first:
                transaction.first[place] = log.open[transaction] = offset
            self.changed.notify_all()
            return log.records[-1]

    def begin_writer(self, name: str) -> int:
        """Aborts the open transaction of earlier producers with this transactional id, and fences them. Returns the
        epoch of the new one."""
        with self.lock:
            writer = self.writers.setdefault(name, Writer())
            if writer.transaction is not None:
                self._end(writer, State.ABORTED)
            writer.epoch += 1
            return writer.epoch

    def writer(self, name: str, epoch: int) -> Writer:
        """Raises KafkaException if another producer has fenced this one."""
        writer = self.writers[name]
        if writer.epoch != epoch:
            raise failed(KafkaError._FENCED, f"a newer producer has the transactional id {name}", fatal=True)
        return writer

    def end_transaction(self, name: str, epoch: int, state: State) -> None:
        with self.lock:
            self._end(self.writer(name, epoch), state)

    def _end(self, writer: Writer, state: State) -> None:
        transaction, writer.transaction = writer.transaction, None
        if transaction is None:
            raise failed(KafkaError._STATE, "there is no open transaction")
        transaction.state = state
        for topic, partition in transaction.first:
            if topic in self.topics:
                log = self.partition(topic, partition)
                log.open.pop(transaction, None)
                log.append(None, None, (), time.time_ns() // 1_000_000, transaction, is_marker=True)
        self.changed.notify_all()

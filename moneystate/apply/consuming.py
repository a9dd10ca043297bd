"""The consumer of one target: a member of its group whose partitions begin where the database says.

A partition that is assigned is not read before its position is known, however long the database takes to answer.
While a chunk is tried again, nothing is fetched, but the group is attended to, so that it does not throw this member
out. A partition may be taken away during that time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from moneystate.apply.chunks import Partition
from moneystate.apply.config import MAX_RECORDS
from moneystate.apply.records import Record
from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import (
    advice,
    consumer_config,
    headers_of,
    is_end_of_partition,
    is_passing,
    new_client,
    place,
)

SESSION_MS: Final = 6_000  # after which the partitions of a stopped instance go to another: brokers accept no less
HEARTBEAT_MS: Final = 2_000
METADATA_MS: Final = 4_000  # new partitions are noticed within it
POLL_S: Final = 0.1
COMMIT_EVERY_S: Final = 1.0


class GroupConsumer:
    """Reads records of the partitions whose positions are known."""

    def __init__(
        self, bootstrap_servers: str, kafka: dict[str, str], group: str, topics: Sequence[str],
        on_revoked: Callable[[list[Partition]], None],
    ) -> None:  # fmt: skip
        self.new: set[Partition] = set()  # assigned, and waiting for their positions
        self.begins: dict[Partition, int] = {}  # of partitions that are read: where the next transaction begins
        # Counts how often each was placed: records from before are no longer in order with those that follow
        self.placed: dict[Partition, int] = {}
        self.at_end: set[Partition] = set()  # of them: those that were read to their end
        self.stopped: set[Partition] = set()  # of them: those that cannot go on
        self._on_revoked = on_revoked
        self._pending_commits: dict[Partition, int] = {}
        self._committed_at = 0.0
        self._resting: dict[Partition, float] = {}  # until when a partition is not read
        config = {
            **consumer_config(bootstrap_servers, kafka),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 16_384,
        }
        self._consumer: Consumer = new_client(Consumer, config)
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    @property
    def assigned(self) -> set[Partition]:
        return self.new | self.begins.keys()

    def read(self, timeout_s: float = POLL_S) -> list[Record]:
        """The records that are there, at most as many as a transaction takes. Raises BrokerError and RetentionError."""
        self._wake_rested()
        messages: list[Any] = self._consumer.consume(1, timeout_s)
        if messages:
            messages += self._consumer.consume(MAX_RECORDS - 1, 0)
        records: list[Record] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif is_end_of_partition(message):
                topic, number, _ = place(message)
                self.at_end.add(Partition(topic, number))
            else:
                _check(message, error)
        self.at_end -= {Partition(r.topic, r.partition) for r in records}
        return records

    def attend(self, timeout_s: float) -> None:
        """Attends to the group for some time, without reading."""
        paused = [TopicPartition(*p) for p in self.begins]
        with contextlib.suppress(KafkaException):
            self._consumer.pause(paused)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            self._consumer.poll(min(left, POLL_S))
        with contextlib.suppress(KafkaException):
            self._consumer.resume([TopicPartition(*p) for p in self.begins if p not in self.stopped])

    def begin(self, partition: Partition, offset: int) -> None:
        """Reads the partition from there on."""
        if partition in self.begins:
            self._consumer.incremental_unassign([TopicPartition(*partition)])
        self.new.discard(partition)
        self.stopped.discard(partition)
        self.at_end.discard(partition)
        self.begins[partition] = offset
        self.placed[partition] = self.placed.get(partition, 0) + 1
        self._consumer.incremental_assign([TopicPartition(*partition, offset)])

    def rest(self, partition: Partition, seconds: float) -> None:
        """Goes back to where the partition left off, and reads on after some time."""
        self.begin(partition, self.begins[partition])
        self._consumer.pause([TopicPartition(*partition)])
        self._resting[partition] = time.monotonic() + seconds

    def stop(self, partition: Partition) -> None:
        """Reads the partition no further."""
        self.stopped.add(partition)
        self._consumer.pause([TopicPartition(*partition)])

    def commit(self, ends: dict[Partition, int]) -> None:
        """Moves on, and tells the group from time to time, for lag tools."""
        self.begins |= {p: end for p, end in ends.items() if p in self.begins}
        self._pending_commits |= ends
        if time.monotonic() - self._committed_at > COMMIT_EVERY_S:
            self._commit_pending(asynchronous=True)

    def close(self) -> None:
        self._commit_pending(asynchronous=False)
        self._consumer.close()

    def _commit_pending(self, asynchronous: bool) -> None:
        offsets = [TopicPartition(*p, end) for p, end in self._pending_commits.items() if p in self.begins]
        self._pending_commits.clear()
        self._committed_at = time.monotonic()
        if offsets:
            with contextlib.suppress(KafkaException):
                if asynchronous:
                    self._consumer.commit(offsets=offsets, asynchronous=True)
                else:
                    self._consumer.commit(offsets=offsets, asynchronous=False)

    def _wake_rested(self) -> None:
        now = time.monotonic()
        for partition in [p for p, until in self._resting.items() if until <= now]:
            del self._resting[partition]
            if partition in self.begins and partition not in self.stopped:
                self._consumer.resume([TopicPartition(*partition)])

    def _assigned(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.incremental_assign([])  # nothing is read before its position is known
        self.new |= {Partition(tp.topic, tp.partition) for tp in partitions}

    def _revoked(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        gone = [Partition(tp.topic, tp.partition) for tp in partitions]
        read = [p for p in gone if p in self.begins]
        self._on_revoked(gone)
        self._commit_pending(asynchronous=True)
        self._consumer.incremental_unassign([TopicPartition(*p) for p in read])
        for p in gone:
            self.new.discard(p)
            self.begins.pop(p, None)
            self.at_end.discard(p)
            self.stopped.discard(p)
            self._resting.pop(p, None)


def _record(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    headers = headers_of(message) if message.headers() else []
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    return Record(topic, partition, offset, message.key(), message.value(), timestamp if kind else -1, headers)


def _check(message: Any, error: KafkaError) -> None:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise RetentionError(
            f"{message.topic()} partition {message.partition()}: expected the next records in the log, but it no "
            "longer has them.",
            "start again; it says what to do.",
        )
    passing = (KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._RESOLVE)
    if not is_passing(error) and error.code() not in passing:
        raise BrokerError(
            f"{message.topic()}: expected records, but {error.str()}.", advice(error, "see the broker's log.")
        )

"""Workers of a consumer group that write what they make of the records, with their positions, in one transaction.

Each worker has its own transactional.id, so that workers do not fence each other. The consumer group keeps a worker
that has lost its partitions (a zombie) from writing (KIP-447). A transaction carries the member's id and generation
from the time when its partitions were assigned, and the coordinator refuses an old generation. A transaction that
writes for a partition always commits the partition's offset, even if it has not changed. So the next owner of the
partition, which asks for the committed offsets, waits until the transaction has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import admin_client, advice, base_config, consumer_config, is_passing, new_client, reason
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.offsets import log_starts
from moneystate.kafka.sizes import PRODUCER_BYTES, PRODUCER_SETTING

CALL_S = 30.0
# After this time the broker aborts the transaction of a killed worker. Its successors, and the job that reads the
# replies, wait for that. A transaction normally takes about ten milliseconds.
TRANSACTION_MS = 10_000
SESSION_MS = 10_000  # after this the group gives the partitions of a lost worker to others
RETRY_S = 0.1
ANY = -1  # the partition that the client chooses by the key
BROKER_AWAY_S = 120.0  # longer than the restart of a broker
OFFSETS_S = 90.0  # the longest wait for a predecessor's open transaction, longer than the broker keeps it open


@dataclass(eq=False)
class Assignment:
    """The partitions of this worker in one generation of the group."""

    member: object  # the group metadata of the consumer
    starts: dict[int, int]  # by partition: the offset at which the worker begins


@dataclass
class Polled:
    """Holds what one poll returned."""

    messages: list[Message] = field(default_factory=list)
    # Maps a partition to the end of the log, including transaction markers, if it was reached
    ends: dict[int, int] = field(default_factory=dict)


class Fenced(Exception):
    """The producer cannot continue: another one has its transactional.id, or the broker has aborted a transaction that
    took too long. It is not known whether the current transaction was committed."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record to write. `partition` None: that of its key."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class GroupReader:
    """The consumer. Only `poll` changes `assignment`. `records`: what errors call its records."""

    def __init__(
        self, bootstrap_servers: str, extra: dict[str, str], group: str, topic: str, records: str = "requests",
        lost: str = "requests were deleted before they were answered",
    ) -> None:  # fmt: skip
        """`lost`: what an error says if retention has overtaken a position."""
        self.topic = topic
        self.group = group
        self.records = records
        self.lost = lost
        self.assignment: Assignment | None = None
        self._admin = admin_client(bootstrap_servers, extra)
        self._paused = False
        self._failure: Exception | None = None
        self._consumer = new_client(
            Consumer,
            {
                "session.timeout.ms": SESSION_MS,
                **consumer_config(bootstrap_servers, extra),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                # committed offsets are also returned only after open transactions on them have ended (KIP-447)
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                # Both strategies reassign all partitions at once. So all partitions of a member have one generation.
                "partition.assignment.strategy": "range,roundrobin",
            },
        )

    def subscribe(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def rejoin(self) -> None:
        """Returns all partitions, and waits for a new assignment."""
        self._consumer.unsubscribe()
        self.assignment = None
        self.subscribe()

    def poll(self, wait_s: float, most: int) -> Polled:
        """Up to `most` records of the present assignment. Raises BrokerError, RetentionError."""
        polled = Polled()
        assignment = self.assignment
        for n in range(most):
            message = self._consumer.poll(wait_s if n == 0 else 0.0)
            if self._failure is not None:
                raise self._failure
            if self.assignment is not assignment:
                polled, assignment = Polled(), self.assignment
            if message is None:
                break
            if assignment is not None:
                self._take(message, polled)
        return polled

    def pause(self, paused: bool) -> None:
        """Stops delivery. Polling continues, and keeps the group membership alive."""
        if self.assignment is None or paused == self._paused:
            return
        partitions = [TopicPartition(self.topic, p) for p in self.assignment.starts]
        if paused:
            self._consumer.pause(partitions)
        else:
            self._consumer.resume(partitions)
        self._paused = paused

    def renew(self, positions: dict[int, int]) -> None:
        """Commits positions that are committed already: the group counts that as a sign of life, and refuses a member
        that it has given up. Raises BrokerError."""
        offsets = [TopicPartition(self.topic, p, offset) for p, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as e:
            raise BrokerError(
                f"{self.topic}: expected to be a member of group {self.group}, but {reason(e)}.", "check the broker."
            ) from None

    def committed(self, topic: str, partition: int) -> int | None:
        """Returns what the group has committed of another topic. None: nothing. Raises BrokerError."""
        offset = self._committed([TopicPartition(topic, partition)])[partition]
        return None if offset < 0 else offset

    def close(self) -> None:
        """Leaves the group, so that others get the partitions at once."""
        self._consumer.close()

    def _take(self, message: Message, polled: Polled) -> None:
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is None:
            polled.messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            if partition is not None and offset is not None:
                polled.ends[partition] = offset
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise self._lost(f"partition {partition}: {error.str()}")
        elif error.code() != KafkaError._MAX_POLL_EXCEEDED and not is_passing(error):
            do = advice(error, "see the broker's log.")
            raise BrokerError(f"{self.topic}: expected {self.records}, but {reason(KafkaException(error))}.", do)

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Stores an error for `poll` to raise, because the client's C code does not pass it on completely."""
        try:
            member = self._consumer.consumer_group_metadata()
            starts = self._starts(partitions)
            self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in starts.items()])
            # the client remembers the pause of partitions that this worker had before
            self._consumer.resume(partitions)
            self.assignment = Assignment(member, starts)
            self._paused = False
        except Exception as e:
            self._failure = e

    def _on_revoke(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.assignment = None

    def _starts(self, partitions: list[TopicPartition]) -> dict[int, int]:
        """The committed offsets, after open transactions on them have ended. A partition without one starts at the
        beginning of the log."""
        if not partitions:
            return {}
        committed = self._committed(partitions)
        firsts = log_starts(self._admin, [(self.topic, p) for p in committed])
        starts = {}
        for p, offset in committed.items():
            first = firsts[self.topic, p]
            if 0 <= offset < first:
                raise self._lost(f"partition {p}: group {self.group} is at offset {offset}, the log begins at {first}")
            starts[p] = max(offset, first)
        return starts

    def _committed(self, partitions: list[TopicPartition]) -> dict[int, int]:
        give_up = time.monotonic() + OFFSETS_S
        while True:
            try:
                committed = self._consumer.committed(partitions, timeout=CALL_S)
                for tp in committed:
                    if tp.error is not None:
                        raise KafkaException(tp.error)
                return {tp.partition: tp.offset for tp in committed}
            except KafkaException as e:
                if time.monotonic() > give_up:
                    raise BrokerError(
                        f"{self.topic}: expected the offsets of group {self.group}, but {reason(e)}.",
                        "check the broker, and whether transactions hang there.",
                    ) from None
                time.sleep(RETRY_S)

    def _lost(self, place: str) -> RetentionError:
        return RetentionError(
            f"{self.topic}, {place}: {self.lost}.",
            "raise the topic's retention; to continue without them, use another --group-id.",
        )


class GroupWriter:
    """The transactional producer. `name`: of its failpoints; `topic`: what errors name."""

    def __init__(
        self, bootstrap_servers: str, extra: dict[str, str], transactional_id: str, topic: str, name: str = "lookup",
        message_bytes: int = PRODUCER_BYTES,
    ) -> None:  # fmt: skip
        """`message_bytes`: the largest record. Raises BrokerError."""
        self.topic = topic
        self.name = name
        self._written = 0
        self._producer = new_client(
            Producer,
            {
                "transaction.timeout.ms": TRANSACTION_MS,
                **base_config(bootstrap_servers, extra),
                "transactional.id": transactional_id,
                "partitioner": "murmur2_random",
                "linger.ms": 0,
                PRODUCER_SETTING: message_bytes,  # by default that of a job, so that every record can be answered
            },
        )
        try:
            self._producer.init_transactions(CALL_S)
        except KafkaException as e:
            raise self._failed("to begin transactions", e) from None

    def write(
        self, records: Iterable[Written], positions: Mapping[tuple[str, int], int], assignment: Assignment
    ) -> bool:
        """Writes records and consumer offsets, by topic and partition, in one transaction. False: the group or the
        broker refused it, and nothing was written. Raises Fenced, and BrokerError if the broker remains unavailable."""
        number = self._written
        try:
            self._producer.begin_transaction()
            failpoint(f"{self.name} begun", number)
            for one in records:
                partition = ANY if one.partition is None else one.partition
                self._producer.produce(one.topic, one.value, one.key, partition, headers=[*one.headers])
            self._producer.flush(CALL_S)
            failpoint(f"{self.name} produced", number)
            offsets = [TopicPartition(topic, p, offset) for (topic, p), offset in positions.items()]
            self._retry(lambda: self._producer.send_offsets_to_transaction(offsets, assignment.member, CALL_S))
            failpoint(f"{self.name} offsets", number)
            self._retry(lambda: self._producer.commit_transaction(CALL_S))
        except KafkaException as e:
            self._abort(e)
            return False
        self._written += 1
        failpoint(f"{self.name} committed", number)
        return True

    def _retry(self, call: Callable[[], None]) -> None:
        """Retries a call while the broker is unavailable. The client says which errors can be retried."""
        give_up = time.monotonic() + BROKER_AWAY_S
        while True:
            try:
                return call()
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() > give_up:
                    raise

    def _abort(self, e: KafkaException) -> None:
        if e.args[0].fatal():
            raise Fenced(reason(e)) from None
        try:
            self._retry(lambda: self._producer.abort_transaction(CALL_S))
        except KafkaException as again:
            if again.args[0].fatal():
                raise Fenced(reason(again)) from None
            raise self._failed("to abort a transaction", again) from None

    def _failed(self, expected: str, e: KafkaException) -> BrokerError:
        return BrokerError(
            f"{self.topic}: expected {expected}, but {reason(e)}.",
            advice(e.args[0], "see the broker's log, and start the worker again: nothing is lost."),
        )

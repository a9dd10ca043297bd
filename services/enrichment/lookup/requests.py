"""The worker's Kafka side: consumes requests, and produces replies and consumer offsets in one transaction.

Each worker has a transactional.id of its own, so that no two fence each other. What keeps a worker that lost its
partitions (a zombie) from answering is the group (KIP-447): a transaction carries the member's id and generation as
they were when the partitions were assigned, and the coordinator refuses those of an old generation. A transaction with
a reply always carries the offset of its request's partition, also where that has not moved: the next owner's look at
the committed offsets then waits until the transaction has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import admin_client, advice, base_config, consumer_config, is_passing, new_client, reason
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.offsets import log_starts

CALL_S = 30.0
# The broker ends what a killed worker left open after this time; its successors and the job's reading of the replies
# wait for that. A transaction is open for some ten milliseconds.
TRANSACTION_MS = 10_000
SESSION_MS = 10_000  # after this the partitions of a worker that is gone go to others
RETRY_S = 0.1
BROKER_AWAY_S = 120.0  # restarting a broker takes less
OFFSETS_S = 90.0  # the longest wait for a predecessor's open transaction: more than the broker lets one live


@dataclass(eq=False)
class Assignment:
    """Partitions that are this worker's, with the offsets it begins at, for one generation of the group."""

    member: object
    starts: dict[int, int]


@dataclass
class Polled:
    """What one poll returned."""

    messages: list[Message] = field(default_factory=list)
    # where the log was read to its end, transaction markers included
    ends: dict[int, int] = field(default_factory=dict)


class Fenced(Exception):
    """The producer cannot go on: another has its transactional.id, or the broker ended a transaction that was over its
    time. What became of the one in hand is not known here."""


class RequestLog:
    """The consumer. `assignment` changes within `poll` only."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], group: str, topic: str) -> None:
        self.topic = topic
        self.group = group
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
                # also: committed offsets are given once no transaction is open on them (KIP-447)
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                # All partitions change hands at once, so a member's generation is that of all its partitions.
                "partition.assignment.strategy": "range,roundrobin",
            },
        )

    def subscribe(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def rejoin(self) -> None:
        """Gives all partitions back, to start again with the next assignment."""
        self._consumer.unsubscribe()
        self.assignment = None
        self.subscribe()

    def poll(self, wait_s: float, most: int) -> Polled:
        """Up to `most` requests of the present assignment. Raises BrokerError, RetentionError."""
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

    def close(self) -> None:
        """Leave the group: others have the partitions at once."""
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
            raise BrokerError(f"{self.topic}: expected requests, but {reason(KafkaException(error))}.", do)

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """An error goes through the client's C code only in part: it is kept for `poll` to raise."""
        try:
            member = self._consumer.consumer_group_metadata()
            starts = self._starts(partitions)
            self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in starts.items()])
            # the client keeps it of partitions that were this worker's before
            self._consumer.resume(partitions)
            self.assignment = Assignment(member, starts)
            self._paused = False
        except Exception as e:
            self._failure = e

    def _on_revoke(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.assignment = None

    def _starts(self, partitions: list[TopicPartition]) -> dict[int, int]:
        """The committed offsets, once no transaction is open on them; else where the log begins."""
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
                        "check the broker, and for transactions that hang there.",
                    ) from None
                time.sleep(RETRY_S)

    def _lost(self, place: str) -> RetentionError:
        return RetentionError(
            f"{self.topic}, {place}: requests were deleted before they were answered.",
            "raise the topic's retention; to go on without them, give the worker another --group-id.",
        )


class ReplyLog:
    """The transactional producer."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], transactional_id: str, topic: str) -> None:
        """Raises BrokerError."""
        self.topic = topic
        self._written = 0
        self._producer = new_client(
            Producer,
            {
                "transaction.timeout.ms": TRANSACTION_MS,
                **base_config(bootstrap_servers, extra),
                "transactional.id": transactional_id,
                "partitioner": "murmur2_random",
                "linger.ms": 0,
                "message.max.bytes": 8 * 1024 * 1024,  # as the job's own: what it could write can be answered
            },
        )
        try:
            self._producer.init_transactions(CALL_S)
        except KafkaException as e:
            raise self._failed("to begin transactions", e) from None

    def write(
        self, requests: str, replies: list[tuple[bytes, bytes]], offsets: dict[int, int], assignment: Assignment
    ) -> bool:
        """Replies (key, value) and the offsets of the topic `requests`, together; False where the group or the broker
        refused them, and nothing was written. Raises Fenced, and BrokerError where the broker stays away."""
        number = self._written
        try:
            self._producer.begin_transaction()
            failpoint("lookup begun", number)
            for key, value in replies:
                self._producer.produce(self.topic, value, key)
            self._producer.flush(CALL_S)
            failpoint("lookup produced", number)
            positions = [TopicPartition(requests, p, offset) for p, offset in offsets.items()]
            self._again(lambda: self._producer.send_offsets_to_transaction(positions, assignment.member, CALL_S))
            failpoint("lookup offsets", number)
            self._again(lambda: self._producer.commit_transaction(CALL_S))
        except KafkaException as e:
            self._abort(e)
            return False
        self._written += 1
        failpoint("lookup committed", number)
        return True

    def _again(self, call: Callable[[], None]) -> None:
        """A broker that is away for a moment is waited for; the client says which errors may be tried again."""
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
            self._again(lambda: self._producer.abort_transaction(CALL_S))
        except KafkaException as again:
            if again.args[0].fatal():
                raise Fenced(reason(again)) from None
            raise self._failed("to abort a transaction", again) from None

    def _failed(self, expected: str, e: KafkaException) -> BrokerError:
        return BrokerError(
            f"{self.topic}: expected {expected}, but {reason(e)}.",
            advice(e.args[0], "see the broker's log; start again, nothing is lost."),
        )

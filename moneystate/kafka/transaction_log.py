"""Reads the state of transactions from the brokers' own log of them, the topic `__transaction_state`.

librdkafka has no request that lists or describes transactions. The coordinator writes every change of a transaction
into this topic before it acts on it, so the last record of an id is its state. Layouts: Kafka's
`TransactionLogKey.json` and `TransactionLogValue.json`. All integers are big-endian. Version 1 of the value has compact
lengths (an unsigned varint, one more than the length) and tagged fields, which are skipped.

    key      version i16, id (length i16, bytes)
    value    version i16, producer id i64, epoch i16, timeout i32, state i8, topics, last change i64, start i64
    topics   number i32 (varint), then each: name (length i16 or varint, bytes), partitions (number i32 or varint, i32s)
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from moneystate.errors import BrokerError, SetupError
from moneystate.kafka.client import (
    METADATA_TIMEOUT_S,
    admin_client,
    advice,
    is_end_of_partition,
    is_passing_to_range,
    place,
    range_consumer,
    reason,
)
from moneystate.kafka.offsets import high_watermarks, log_starts

TOPIC: Final = "__transaction_state"
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"
)  # fmt: skip
OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
NEWEST_VERSION: Final = 1
MAX_SHIFT: Final = 63  # of a varint, whose numbers have 32 bits
POLL_S: Final = 0.1
STALL_S: Final = 30.0  # without any record
RECORDS: Final = 1000  # for each call of the client
GRANT: Final = f"grant this user Read on the topic {TOPIC} (docs/security.md)."


@dataclass(frozen=True)
class Transaction:
    """The state of a transactional id. Times are those of the coordinator's clock."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: list[tuple[str, int]]  # that the transaction has written to
    since_ms: int | None  # start of the open transaction
    changed_ms: int  # last change of the state
    timeout_ms: int  # after which the broker aborts the transaction
    coordinator: str = ""  # address of the broker

    @property
    def is_open(self) -> bool:
        """Whether read_committed readers of its partitions wait for it."""
        return self.state in OPEN


def transactions(bootstrap_servers: str, extra: dict[str, str], ids: Iterable[str]) -> dict[str, Transaction]:
    """The states of those of `ids` that the brokers know. Raises SetupError if this user cannot see the log, and
    BrokerError."""
    admin, wanted = admin_client(bootstrap_servers, extra), set(ids)
    coordinators = _coordinators(admin)
    partitions = sorted({partition_of(one, len(coordinators)) for one in wanted})
    by_id: dict[str, Transaction] = {}
    for message in whole_log(bootstrap_servers, extra, TOPIC, partitions):
        key = message.key() or b""
        name = key[4:].decode(errors="replace")
        if key[:2] != b"\0\0" or name not in wanted:
            continue
        by_id.pop(name, None)
        if (value := message.value()) is not None:  # else the broker has forgotten the id
            by_id[name] = decode(name, value, coordinators[place(message)[1]])
    return by_id


def _coordinators(admin: AdminClient) -> dict[int, str]:
    """The broker that coordinates the transactions of each partition of the log."""
    try:
        seen = admin.list_topics(timeout=METADATA_TIMEOUT_S)
    except KafkaException as e:
        raise BrokerError(f"{TOPIC}: expected its description, but {reason(e)}.", "check the broker.") from None
    if TOPIC not in seen.topics:
        raise SetupError(
            f"{TOPIC}: expected the brokers' log of transactions, found none: there has been no transaction, or this "
            "user may not see it.",
            GRANT,
        )
    return {number: str(seen.brokers.get(p.leader, "-")) for number, p in seen.topics[TOPIC].partitions.items()}


def partition_of(transactional_id: str, partitions: int) -> int:
    """The partition of an id, as the brokers compute it: by Java's `String.hashCode`."""
    units = transactional_id.encode("utf-16-be")
    digest = 0
    for (unit,) in struct.iter_unpack(">H", units):
        digest = (31 * digest + unit) & 0xFFFFFFFF
    signed = digest - (1 << 32) if digest >= 1 << 31 else digest
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def whole_log(
    bootstrap_servers: str, extra: dict[str, str], topic: str, partitions: Iterable[int]
) -> Iterator[Message[bytes, bytes]]:
    """All records of the partitions, those of open and aborted transactions, too. Raises BrokerError."""
    admin, places = admin_client(bootstrap_servers, extra), [(topic, p) for p in partitions]
    starts, ends = log_starts(admin, places), high_watermarks(admin, places)
    left = {p: ends[topic, p] for _, p in places if ends[topic, p] > starts[topic, p]}
    settings = {"isolation.level": "read_uncommitted", "fetch.wait.max.ms": 10}
    consumer = range_consumer(bootstrap_servers, extra, "moneystate-transactions", **settings)
    try:
        consumer.assign([TopicPartition(topic, p, starts[topic, p]) for p in left])
        yield from _up_to(consumer, topic, left)
    finally:
        consumer.close()


def _up_to(consumer: Consumer, topic: str, left: dict[int, int]) -> Iterator[Message[bytes, bytes]]:
    deadline = time.monotonic() + STALL_S
    while left:
        if time.monotonic() > deadline:
            raise BrokerError(f"{topic}: expected records, waited for {STALL_S:.0f} s.", "check the broker.")
        for message in consumer.consume(RECORDS, POLL_S):
            error = message.error()
            if error is None:
                yield message
            elif not is_end_of_partition(message):
                _check_passing(topic, error)
                continue
            deadline = time.monotonic() + STALL_S  # passing errors, which may repeat, are no progress
            _, partition, offset = place(message)
            reached = offset + 1 if error is None else offset
            if partition in left and reached >= left[partition]:
                del left[partition]


def _check_passing(topic: str, error: KafkaError) -> None:
    if not is_passing_to_range(error):
        raise BrokerError(
            f"{topic}: expected to read it, but {reason(KafkaException(error))}.", advice(error, "check the broker.")
        )


def decode(transactional_id: str, value: bytes, coordinator: str = "") -> Transaction:
    """Raises BrokerError for a version that this program does not know, and for a damaged record."""
    try:
        return _decode(transactional_id, value, coordinator)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError):
        raise BrokerError(
            f"{TOPIC}: expected the state of {transactional_id}, found {value[:40]!r}.",
            "use Kafka's kafka-transactions.sh.",
        ) from None


def _decode(transactional_id: str, value: bytes, coordinator: str) -> Transaction:
    read = _Fields(value)
    version = read.integer("h")
    if version > NEWEST_VERSION:
        raise BrokerError(
            f"{TOPIC}: expected records of version {NEWEST_VERSION} or earlier, found version {version}.",
            "use Kafka's kafka-transactions.sh; a newer moneystate may read it.",
        )
    read.compact = version > 0
    producer_id, epoch, timeout_ms = read.integer("q"), read.integer("h"), read.integer("i")
    state = STATES[read.integer("B")]
    partitions = read.topics()
    changed_ms, since_ms = read.integer("q"), read.integer("q")
    since = since_ms if state in OPEN else None
    return Transaction(
        transactional_id, producer_id, epoch, state, partitions, since, changed_ms, timeout_ms, coordinator
    )


class _Fields:
    """Reads the fields of a value in their order."""

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.at = 0
        self.compact = False

    def integer(self, form: str) -> int:
        number: Any
        (number,) = struct.unpack_from(f">{form}", self.value, self.at)
        self.at += struct.calcsize(f">{form}")
        return int(number)

    def topics(self) -> list[tuple[str, int]]:
        places = []
        for _ in range(self._length("i")):
            size = self._length("h")
            name = self.value[self.at : self.at + size].decode()
            self.at += size
            places += [(name, self.integer("i")) for _ in range(self._length("i"))]
            self._skip_tagged()
        return places

    def _length(self, form: str) -> int:
        """A length; 0 for null."""
        return max(0, self._varint() - 1 if self.compact else self.integer(form))

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.value[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > MAX_SHIFT:
                raise OverflowError

    def _skip_tagged(self) -> None:
        for _ in range(self._varint() if self.compact else 0):
            self._varint()
            self.at += self._varint()

"""Topics and transactions on a real broker, for the tests of the Kafka adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from moneystate.kafka.client import new_client
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord
from tests.waiting import until

FLUSH_S = 90.0
NO_TRANSACTION_YET = 0  # a producer's state after `init_transactions`: "Empty"


class Cluster:
    """One broker's topics under one prefix."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.admin = new_client(AdminClient, {"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create(self, name: str, partitions: int = 1, **config: str) -> str:
        """A new topic that keeps its records for good, with as many replicas as the broker has by default; its full
        name."""
        topic = self.prefix + name
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        for future in self.admin.create_topics([NewTopic(topic, partitions, -1, config=settings)]).values():
            future.result()
        # the controller has it before the broker knows of it
        until(
            lambda: self._ends_of(topic, partitions) == [0] * partitions, lambda: f"{topic} does not come up", FLUSH_S
        )
        return topic

    def _ends_of(self, topic: str, partitions: int) -> list[int] | None:
        """None: it is not described yet, or a partition has no leader."""
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        try:
            self.admin.describe_topics(TopicCollection([topic]))[topic].result()
            return _ends(self.admin, wanted, IsolationLevel.READ_COMMITTED)
        except KafkaException:
            return None

    def names(self) -> set[str]:
        """Returns the names of the topics of this prefix, in full."""
        return {name for name in self.admin.list_topics(timeout=FLUSH_S).topics if name.startswith(self.prefix)}

    def partitions(self, name: str) -> int:
        topic = self.prefix + name
        return len(self.admin.list_topics(topic, timeout=FLUSH_S).topics[topic].partitions)

    def grow(self, partitions: dict[str, int]) -> None:
        """Give topics so many partitions, and wait until the broker knows them."""
        more = [NewPartitions(self.prefix + name, n) for name, n in partitions.items()]
        for future in self.admin.create_partitions(more).values():
            future.result()
        for name, n in partitions.items():
            until(partial(self._has, name, n), lambda: f"not yet: {partitions}", FLUSH_S)

    def _has(self, name: str, partitions: int) -> bool:
        return self.partitions(name) == partitions and self._ends_of(self.prefix + name, partitions) is not None

    def delete(self, topic: str) -> None:
        """A topic of this prefix, by its full name. Wait until the broker has forgotten it."""
        assert topic.startswith(self.prefix)
        for future in self.admin.delete_topics([topic]).values():
            future.result()
        until(lambda: topic not in self.names(), lambda: f"{topic} stays", FLUSH_S)

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """As retention does."""
        for future in self.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result()

    def producer(self, **settings: Any) -> Producer:
        ordered = {"linger.ms": 0, "enable.idempotence": True}  # a record that is sent again keeps its place
        return new_client(
            Producer, {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **ordered, **settings}
        )

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0, **more: Any) -> None:
        producer = self.producer()
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(FLUSH_S) == 0

    def transaction(self, topic: str, values: Sequence[bytes], partition: int = 0, *, commit: bool = True) -> None:
        """The values and, in the log, a marker after them."""
        producer = self.producer(**{"transactional.id": f"{self.prefix}{topic}-{partition}"})
        producer.init_transactions(FLUSH_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(FLUSH_S) == 0
        if commit:
            producer.commit_transaction(FLUSH_S)
        else:
            producer.abort_transaction(FLUSH_S)
        self.wait_until_stable(topic)

    def read(self, *topics: str) -> list[LogRecord]:
        """All committed records of topics of this prefix, once no transaction is open in them."""
        self.wait_until_stable(*(self.prefix + topic for topic in topics))
        return read_log(self.bootstrap_servers, topics, self.prefix, make=new_consumer)[0]

    def wait_until_stable(self, *topics: str) -> None:
        """Wait for the markers of transactions that have ended: the broker writes them after it has said so."""
        wait_until_stable(self.admin, topics)


def wait_until_stable(admin: AdminClient, topics: Iterable[str]) -> None:
    """Until no transaction is open in `topics`. Raises AssertionError where one stays open."""
    partitions = [
        TopicPartition(topic, number)
        for topic in topics
        for number in admin.list_topics(topic, timeout=FLUSH_S).topics[topic].partitions
    ]

    def ends(isolation: IsolationLevel) -> list[int]:
        return _ends(admin, partitions, isolation)

    until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        lambda: f"a transaction stays open in {topics}",
        FLUSH_S,
    )


def _ends(admin: AdminClient, partitions: list[TopicPartition], isolation: IsolationLevel) -> list[int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(dict.fromkeys(partitions, latest), isolation_level=isolation)
    return [future.result().offset for future in futures.values()]


def producers_begun(bootstrap_servers: str) -> Counter[str]:
    """How often `init_transactions` was called for each transactional id, by the broker's own log of transactions."""
    records, _ = read_log(bootstrap_servers, ["__transaction_state"], isolation="read_uncommitted")
    # a key is version, length and id; a value begins with version, producer id, epoch, timeout and state
    return Counter(
        (r.key or b"")[4:].decode() for r in records if r.value is not None and r.value[16] == NO_TRANSACTION_YET
    )


def new_consumer(config: dict[str, Any]) -> Consumer:
    """Also of a log in memory."""
    return new_client(Consumer, config)


def places(messages: Sequence[Message]) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value."""
    return [(cast(int, m.partition()), cast(int, m.offset()), m.value() or b"") for m in messages]


def numbered(first: int, end: int) -> list[bytes]:
    return [str(n).encode() for n in range(first, end)]

"""The changelog as one stream of message batches, and how far behind its reader is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from moneystate.errors import BrokerError, MoneystateError
from moneystate.kafka.client import (
    admin_client,
    advice,
    is_end_of_partition,
    is_passing_to_range,
    place,
    range_consumer,
)
from moneystate.kafka.offsets import TopicState, high_watermark, log_ends, log_starts, topic_states
from moneystate.kafka.topics import topic_settings
from moneystate.replica.files import Rebuild

MAX_POLL_RECORDS: Final = 5_000
WAIT_S: Final = 0.05
POLL_S: Final = 0.25  # how often the log's ends are polled; the precision of staleness
TOPIC_CHECK_POLLS: Final = 8
DELETE_RETENTION_MS: Final = 86_400_000  # Kafka's own default

Message = Any  # every part is optional in the client's types


class Options(Protocol):
    """The follower's options. None in `history_ms` or `history_versions`: no limit."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def topic_prefix(self) -> str: ...
    @property
    def history_ms(self) -> int | None: ...
    @property
    def history_versions(self) -> int | None: ...
    @property
    def kafka_config(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Changelog:
    """The changelog topic as it is at the start."""

    topic_id: str
    starts: dict[int, int]
    ends: dict[int, int]  # offsets after the last committed record
    asked_ms: int  # when `ends` was read, by the wall clock
    delete_retention_ms: int


class Topics:
    """The changelog of one replica."""

    def __init__(self, options: Options, changelog: str) -> None:
        """`changelog`: the topic's name, without prefix."""
        self.changelog = options.topic_prefix + changelog
        self.admin = admin_client(options.bootstrap_servers, options.kafka_config)

    def describe(self) -> Changelog:
        """Raises SetupError if the topic does not exist, and BrokerError."""
        asked_ms = int(time.time() * 1000)
        state = self.state()
        partitions = [(self.changelog, p) for p in state.partitions]
        starts = {p: offset for (_, p), offset in log_starts(self.admin, partitions).items()}
        ends = self.ends(state.partitions)
        retention_ms = _delete_retention_ms(self.admin, self.changelog)
        return Changelog(state.topic_id, starts, ends, asked_ms, retention_ms)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        return {p: offset for (_, p), offset in log_ends(self.admin, [(self.changelog, p) for p in partitions]).items()}

    def is_quiet(self, ends: dict[int, int]) -> bool:
        """Whether no transaction was open at these ends of the log."""
        return all(high_watermark(self.admin, self.changelog, p) == end for p, end in ends.items())

    def state(self) -> TopicState:
        return topic_states(self.admin, [self.changelog])[self.changelog]


def _delete_retention_ms(admin: AdminClient, topic: str) -> int:
    return int(topic_settings(admin, [topic])[topic].get("delete.retention.ms", DELETE_RETENTION_MS))


class ChangelogConsumer:
    """Reads the changelog. `read_to`: by changelog partition, the offset up to which everything is read."""

    def __init__(self, options: Options, topics: Topics, positions: dict[int, int]) -> None:
        self.topics = topics
        self.read_to = dict(positions)
        self.consumer = range_consumer(
            options.bootstrap_servers,
            options.kafka_config,
            "moneystate-replica",
            **{
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 10,
                "queued.min.messages": 20_000,
                "queued.max.messages.kbytes": 32_768,
            },
        )
        self.consumer.incremental_assign([TopicPartition(topics.changelog, p, n) for p, n in positions.items()])

    def read(self) -> list[Message]:
        """Reads records for a short time; there may be none. Raises Rebuild if the log no longer has the next records,
        and BrokerError if the broker refuses."""
        messages = []
        for message in self.consumer.consume(MAX_POLL_RECORDS, WAIT_S):
            error = message.error()
            if error is None:
                messages.append(message)
            elif is_end_of_partition(message):
                _, partition, offset = place(message)
                self.read_to[partition] = max(self.read_to[partition], offset)
            else:
                self._check(message, error)
        return messages

    def _check(self, message: Message, error: KafkaError) -> None:
        code = error.code()
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Rebuild(f"{message.topic()}, partition {message.partition()}: the log no longer has the next records")
        if code != KafkaError._RESOLVE and not is_passing_to_range(error):  # otherwise the client retries for ever
            raise BrokerError(
                f"{message.topic()}: expected records, but {error.str()}.", advice(error, "see the broker's log.")
            )

    def close(self) -> None:
        self.consumer.close()


class LogEndMonitor:
    """Polls, in its own thread, where the log ends, and whether it is still the same topic."""

    def __init__(self, topics: Topics, first: Changelog) -> None:
        self.topics = topics
        self.topic = TopicState(first.topic_id, tuple(first.starts))
        self.seen: tuple[float, dict[int, int]] = (0.0, first.ends)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name="ends", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        polls = 0
        while not self.stopped.wait(POLL_S):
            asked = time.time()
            try:
                self.seen = (asked, self.topics.ends(self.seen[1]))
                if polls % TOPIC_CHECK_POLLS == 0:
                    self.topic = self.topics.state()
                polls += 1
            except MoneystateError:
                continue  # staleness shows it

    def lag(self, read_to: dict[int, int]) -> tuple[int, int]:
        """The number of committed records not yet read, including transaction markers, and the wall-clock time in ms at
        which it was known."""
        asked, ends = self.seen
        return sum(max(0, end - read_to.get(p, 0)) for p, end in ends.items()), int(asked * 1000)

    def close(self) -> None:
        self.stopped.set()
        self.thread.join()

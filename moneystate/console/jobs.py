"""What the broker says of services: each has a topic of commits, which its jobs write with every batch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from moneystate.errors import BrokerError, MoneystateError
from moneystate.kafka.client import METADATA_TIMEOUT_S, admin_client, reason
from moneystate.kafka.dead_letter_log import DeadLetterLog, Filter
from moneystate.kafka.markers import MarkerLog
from moneystate.kafka.offsets import FullPartition, log_ends

COMMITS, LETTERS = "-commits", "-dead-letters"
HOUR_MS: Final = 3_600_000
MOST_LETTERS: Final = 5_000  # that are counted by reason
LETTERS_EVERY_S: Final = 10.0


@dataclass(frozen=True)
class Batch:
    """The last batch of a job. `partitions`: how many output partitions have committed it."""

    application: str
    epoch: str
    number: int
    partitions: int
    who: str  # runs it, as its claim says; empty: not known


@dataclass(frozen=True)
class Lag:
    """Records of an input that are not in a committed batch."""

    topic: str
    partition: int
    records: int


@dataclass(frozen=True)
class Job:
    """`committed_at_ms`: the broker's time of the last commit; `letters`: of the last hour, by reason; `topics`: those
    that begin with the service's name."""

    service: str
    batch: Batch | None
    committed_at_ms: int | None
    lags: tuple[Lag, ...]
    letters: dict[str, int] = field(default_factory=dict)
    letters_cut: bool = False
    topics: tuple[str, ...] = ()
    problem: str = ""

    @property
    def lag(self) -> int:
        return sum(one.records for one in self.lags)


class Jobs:
    """Reads block: run them in one thread at a time."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic_prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.prefix = topic_prefix
        self.admin: AdminClient = admin_client(bootstrap_servers, extra)
        self.there: dict[str, int] = {}  # partitions by topic, as of the last `all`
        self.markers: dict[str, MarkerLog] = {}
        self.letters: dict[str, tuple[float, dict[str, int], bool]] = {}

    def topics(self) -> dict[str, int]:
        """All topics behind the prefix, without it, and their numbers of partitions. Raises BrokerError."""
        try:
            topics = self.admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
        except KafkaException as e:
            raise BrokerError(f"{self.bootstrap_servers}: expected topics, but {reason(e)}.", "check it.") from None
        return {
            name.removeprefix(self.prefix): len(topic.partitions)
            for name, topic in sorted(topics.items())
            if name.startswith(self.prefix) and not name.startswith("__consumer") and not name.startswith("__trans")
        }

    def all(self) -> list[Job]:
        """Raises BrokerError."""
        topics = self.there = self.topics()
        return [self._job(name.removesuffix(COMMITS), topics) for name in topics if name.endswith(COMMITS)]

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Offsets that these topics have had, over all their partitions; a topic that is not there is left out. Raises
        BrokerError."""
        partitions = [(self.prefix + name, number) for name in topics for number in range(self.there.get(name, 0))]
        totals: dict[str, int] = {}
        for (topic, _), end in log_ends(self.admin, partitions).items():
            name = topic.removeprefix(self.prefix)
            totals[name] = totals.get(name, 0) + end
        return totals

    def _job(self, service: str, topics: dict[str, int]) -> Job:
        try:
            batch = self._batch(service)
            committed_at_ms = self._committed_at(service, topics[service + COMMITS])
            lags = tuple(self._lags(batch.application)) if batch else ()
            letters, cut = self._letters(service) if service + LETTERS in topics else ({}, False)
        except MoneystateError as e:
            return Job(service, None, None, (), problem=str(e))
        own = tuple(name for name in topics if name.startswith(f"{service}-"))
        return Job(service, batch, committed_at_ms, lags, letters, cut, own)

    def _batch(self, service: str) -> Batch | None:
        topic = self.prefix + service + COMMITS
        log = self.markers.get(topic)
        if log is None:
            log = self.markers[topic] = MarkerLog(self.bootstrap_servers, self.extra, topic)
        by_application: dict[str, list[tuple[str, int]]] = {}
        for key, marker in log.read().items():
            application, slash, partition = key.decode(errors="replace").rpartition("/")
            if slash and partition.isdigit() and marker.epoch:
                by_application.setdefault(application, []).append((marker.epoch, marker.next_batch - 1))
        if not by_application:
            return None
        application = max(by_application, key=lambda name: max(number for _, number in by_application[name]))
        written = by_application[application]
        epoch, number = max(written, key=lambda one: one[1])
        claims = [claim.who for key, claim in log.claims.items() if key.startswith(application.encode() + b"/")]
        return Batch(application, epoch, number, len(written), claims[-1] if claims else "")

    def _committed_at(self, service: str, partitions: int) -> int | None:
        topic = self.prefix + service + COMMITS
        latest = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
        times = []
        for future in self.admin.list_offsets(wanted, request_timeout=METADATA_TIMEOUT_S).values():
            with suppress(KafkaException):
                times.append(future.result().timestamp)
        known = [time_ms for time_ms in times if time_ms is not None and time_ms > 0]
        return max(known) if known else None

    def _lags(self, application: str) -> Iterator[Lag]:
        """Computes lags by what the job has told its consumer group."""
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(application)])
        try:
            offsets = asked[application].result().topic_partitions
        except KafkaException:
            return
        read: dict[FullPartition, int] = {(tp.topic, tp.partition): tp.offset for tp in offsets if tp.offset >= 0}
        for (topic, partition), end in sorted(log_ends(self.admin, read).items()):
            yield Lag(topic.removeprefix(self.prefix), partition, max(0, end - read[topic, partition]))

    def _letters(self, service: str) -> tuple[dict[str, int], bool]:
        now = time.monotonic()
        known = self.letters.get(service)
        if known is not None and now - known[0] < LETTERS_EVERY_S:
            return known[1], known[2]
        since = Filter(since_ms=time.time_ns() // 1_000_000 - HOUR_MS)
        log = self.dead_letters(service)
        reasons = Counter(one.about.get("reason", "") for one in islice(log.read(since), MOST_LETTERS))
        counted = dict(reasons.most_common()), sum(reasons.values()) >= MOST_LETTERS
        self.letters[service] = now, *counted
        return counted

    def dead_letters(self, service: str) -> DeadLetterLog:
        return DeadLetterLog(self.bootstrap_servers, self.extra, self.prefix + service + LETTERS, self.prefix)

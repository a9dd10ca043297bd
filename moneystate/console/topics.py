"""Reads records of topics for pages: a few at a place, or the last ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from moneystate.engine.deadletter import Letter
from moneystate.kafka.client import admin_client, is_end_of_partition, letter_of, range_consumer
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at, topic_states

MOST: Final = 100  # records of a page
SCANNED: Final = 20_000  # records that a search by key looks at
MOST_BYTES: Final = 64 * 2**20  # of the records that are read at once
AT_ONCE: Final = 200  # records that are taken from the consumer
WITHIN_S: Final = 5.0


@dataclass(frozen=True)
class Wanted:
    """Chooses records. `partition`: None: all; `offset`: the first one; None: the last ones; `since_ms`: of the
    broker's time, instead of an offset; `key`: only records with this key."""

    partition: int | None = None
    offset: int | None = None
    since_ms: int | None = None
    key: bytes | None = None
    limit: int = 20

    def pick(self, record: Letter) -> Letter | None:
        return record if self.key is None or record.key == self.key else None


@dataclass(frozen=True)
class Page:
    """`ends`: of the log, by partition: where it starts and ends; `scanned`: how many records were looked at;
    `is_short`: others were not read, because these are too large or take too long."""

    records: Sequence[Letter]
    ends: dict[int, tuple[int, int]]
    scanned: int
    is_short: bool


Pick = Callable[[Letter], Letter | None]  # the record as it is kept; None: it is not wanted


@dataclass
class Reading:
    """Records that were read: those that `pick` keeps, of those that were looked at. `is_whole`: all of them;
    `is_short`: there are more, but these are too large or take too long."""

    pick: Pick
    records: list[Letter] = field(default_factory=list)
    scanned: int = 0
    size: int = 0
    is_whole: bool = True
    is_short: bool = False

    def take(self, one: Letter) -> None:
        self.scanned += 1
        picked = self.pick(one)
        if picked is not None:
            self.records.append(picked)
            self.size += len(picked.key or b"") + len(picked.value or b"")


def whole(record: Letter) -> Letter:
    return record


class Topics:
    """Reads block: run them in a thread."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic_prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.prefix = topic_prefix
        self.admin: AdminClient = admin_client(bootstrap_servers, extra)

    def page(self, topic: str, wanted: Wanted) -> Page:
        """The records, the newest first. Raises SetupError if there is no such topic, and BrokerError."""
        partitions, starts, ends = self._bounds(topic)
        chosen = [tp for tp in partitions if wanted.partition in (None, tp[1])]
        begins = self._begins(chosen, starts, ends, wanted)
        read = self._read(begins, ends, wanted)
        forwards = wanted.offset is not None or wanted.since_ms is not None
        read.records.sort(key=lambda one: (one.timestamp_ms, one.offset), reverse=not forwards)
        bounds = {tp[1]: (starts[tp], ends[tp]) for tp in partitions}
        return Page(read.records[: min(wanted.limit, MOST)], bounds, read.scanned, read.is_short)

    def _begins(
        self, chosen: Sequence[FullPartition], starts: dict[FullPartition, int], ends: dict[FullPartition, int],
        wanted: Wanted,
    ) -> dict[FullPartition, int]:  # fmt: skip
        if wanted.offset is not None:
            return {tp: max(starts[tp], min(wanted.offset, ends[tp])) for tp in chosen}
        if wanted.since_ms is not None:
            return offsets_at(self.admin, chosen, wanted.since_ms)
        each = SCANNED // max(1, len(chosen)) if wanted.key is not None else wanted.limit
        return {tp: max(starts[tp], ends[tp] - each) for tp in chosen}

    def _read(
        self, begins: dict[FullPartition, int], ends: dict[FullPartition, int], wanted: Wanted
    ) -> Reading:  # fmt: skip
        most = SCANNED if wanted.key is not None else min(wanted.limit, MOST) * len(begins)
        return self.between(begins, {tp: ends[tp] for tp in begins}, most, wanted.pick)

    def newest(self, topic: str, pick: Pick, limit: int) -> list[Letter]:
        """The newest first, of the last SCANNED records. Raises SetupError if there is no such topic, and
        BrokerError."""
        partitions, starts, ends = self._bounds(topic)
        each = SCANNED // max(1, len(partitions))
        read = self.between({tp: max(starts[tp], ends[tp] - each) for tp in partitions}, ends, SCANNED, pick)
        return nlargest(limit, read.records, key=lambda one: (one.timestamp_ms, one.offset))

    def _bounds(
        self, topic: str
    ) -> tuple[list[FullPartition], dict[FullPartition, int], dict[FullPartition, int]]:  # fmt: skip
        """The partitions, and where each begins and ends."""
        name = self.prefix + topic
        partitions = [(name, number) for number in topic_states(self.admin, [name])[name].partitions]
        return partitions, log_starts(self.admin, partitions), log_ends(self.admin, partitions)

    def between(
        self, begins: dict[FullPartition, int], stops: dict[FullPartition, int], most: int, pick: Pick = whole
    ) -> Reading:
        """The records from some offsets to others, those of a partition in order. `most`: that are looked at. Raises
        BrokerError."""
        left = {tp for tp, begin in begins.items() if begin < stops[tp]}
        read = Reading(pick)
        if not left:
            return read
        consumer: Consumer = range_consumer(self.bootstrap_servers, self.extra, "moneystate-console")
        try:
            consumer.assign([TopicPartition(*tp, begins[tp]) for tp in left])
            deadline = time.monotonic() + WITHIN_S
            while left and read.scanned < most and not read.is_short:
                for message in consumer.consume(AT_ONCE, 0.2):
                    tp = (str(message.topic()), int(message.partition() or 0))
                    if is_end_of_partition(message):
                        left.discard(tp)
                    elif message.error() is None:
                        read.take(letter_of(message))
                        if int(message.offset() or 0) + 1 >= stops[tp]:
                            left.discard(tp)
                read.is_short = bool(left) and (read.size > MOST_BYTES or time.monotonic() > deadline)
        finally:
            consumer.close()
        read.is_whole = not left
        return read

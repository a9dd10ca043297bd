"""Reads records of topics for pages: a few at a place, or the last ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from moneystate.engine.deadletter import Letter
from moneystate.kafka.client import admin_client, is_end_of_partition, letter_of, range_consumer
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at, topic_states

MOST: Final = 100  # records of a page
SCANNED: Final = 20_000  # records that a search by key looks at
WITHIN_S: Final = 5.0


@dataclass(frozen=True)
class Wanted:
    """Which records. `partition`: None: all; `offset`: the first one; None: the last ones; `since_ms`: of the broker's
    time, instead of an offset; `key`: only records with this key."""

    partition: int | None = None
    offset: int | None = None
    since_ms: int | None = None
    key: bytes | None = None
    limit: int = 20


@dataclass(frozen=True)
class Page:
    """`ends`: of the log, by partition: where it starts and ends; `scanned`: how many records were looked at."""

    records: Sequence[Letter]
    ends: dict[int, tuple[int, int]]
    scanned: int


class Topics:
    """Reads block: run them in a thread."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic_prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.prefix = topic_prefix
        self.admin: AdminClient = admin_client(bootstrap_servers, extra)

    def page(self, topic: str, wanted: Wanted) -> Page:
        """The records, the newest first. Raises SetupError if there is no such topic, and BrokerError."""
        name = self.prefix + topic
        partitions = [(name, number) for number in topic_states(self.admin, [name])[name].partitions]
        starts, ends = log_starts(self.admin, partitions), log_ends(self.admin, partitions)
        chosen = [tp for tp in partitions if wanted.partition in (None, tp[1])]
        begins = self._begins(chosen, starts, ends, wanted)
        records = self._read(begins, ends, wanted)
        wanted_ones = [one for one in records if wanted.key is None or one.key == wanted.key]
        forwards = wanted.offset is not None or wanted.since_ms is not None
        wanted_ones.sort(key=lambda one: (one.timestamp_ms, one.offset), reverse=not forwards)
        bounds = {tp[1]: (starts[tp], ends[tp]) for tp in partitions}
        return Page(wanted_ones[: min(wanted.limit, MOST)], bounds, len(records))

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
    ) -> list[Letter]:  # fmt: skip
        most = SCANNED if wanted.key is not None else min(wanted.limit, MOST) * len(begins)
        return self.between(begins, {tp: ends[tp] for tp in begins}, most)[0]

    def between(
        self, begins: dict[FullPartition, int], stops: dict[FullPartition, int], most: int
    ) -> tuple[list[Letter], bool]:
        """The records from some offsets to others, those of a partition in order. False: not all of them, because there
        are more than `most` or they take too long. Raises BrokerError."""
        left = {tp for tp, begin in begins.items() if begin < stops[tp]}
        records: list[Letter] = []
        if not left:
            return records, True
        consumer: Consumer = range_consumer(self.bootstrap_servers, self.extra, "moneystate-console")
        try:
            consumer.assign([TopicPartition(*tp, begins[tp]) for tp in left])
            deadline = time.monotonic() + WITHIN_S
            while left and len(records) < most and time.monotonic() < deadline:
                for message in consumer.consume(500, 0.2):
                    tp = (str(message.topic()), int(message.partition() or 0))
                    if is_end_of_partition(message):
                        left.discard(tp)
                    elif message.error() is None:
                        records.append(letter_of(message))
                        if int(message.offset() or 0) + 1 >= stops[tp]:
                            left.discard(tp)
        finally:
            consumer.close()
        return records, not left

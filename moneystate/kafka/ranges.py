"""Reading exactly the records of given offset ranges.

Consumers are kept by the process between batches: the next range mostly begins where the last one ended, and its
records are then already here. Compacted or aborted records and transaction markers leave gaps in the offsets, so a
range ends where the consumer's position says so (a later record, or the end of the partition), not at a count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import is_passing, range_consumer

# The client's types make every part of a message optional; checking five parts of each record would cost more than
# reading it.
Message = Any

CONSUME_AT_ONCE = 10_000
POLL_S = 0.02  # how long the tail of a range with gaps may wait for records that do not exist
MOST_AHEAD = 100_000  # of one partition; a reader with more of it begins anew, or it would keep them all
NEAR_END = 10_000  # records
STALL_S = 60.0  # a broker that gives nothing for as long as this is taken as gone


@dataclass(frozen=True)
class Range:
    """Offsets `start` (read) to `end` (not read) of a topic's partition; the topic with its prefix."""

    topic: str
    partition: int
    start: int
    end: int


class RangeReader:
    """One consumer and where it stands."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], group: str) -> None:
        self.consumer: Consumer = range_consumer(
            bootstrap_servers,
            extra,
            group,
            **{
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 10,
                "queued.min.messages": 100_000,
                "queued.max.messages.kbytes": 65_536,
                "fetch.message.max.bytes": 4 * 1024 * 1024,
            },
        )
        self.ends: dict[tuple[str, int], int] = {}  # where the last range of each assigned partition ended
        self.ahead: dict[tuple[str, int], list[Message]] = {}  # what came beyond it with its last records

    def read(self, ranges: list[Range]) -> Iterator[Message]:
        """The records of `ranges`, each partition's in offset order, partitions mixed.

        Raises RetentionError where the log no longer has the start of a range, BrokerError where the broker falls
        silent.
        """
        open_ranges = {(r.topic, r.partition): r for r in ranges if r.end > r.start}
        if not open_ranges:
            return
        early = self._move_to(open_ranges)
        self.ends = {tp: r.end for tp, r in open_ranges.items()}
        left = {tp: r.end - r.start for tp, r in open_ranges.items()}
        yield from self._within(early, open_ranges, left)
        last_news = time.monotonic()
        while open_ranges:
            wanted = sum(left[tp] for tp in open_ranges)
            messages = self.consumer.consume(min(CONSUME_AT_ONCE, wanted), POLL_S)
            if messages:
                last_news = time.monotonic()
            elif time.monotonic() - last_news > STALL_S:
                raise BrokerError(
                    f"{sorted(open_ranges)}: expected records, none came for {STALL_S:.0f} s.", "check the broker."
                )
            yield from self._within(messages, open_ranges, left)
        self._rest(ranges)

    def _rest(self, ranges: list[Range]) -> None:
        """Stop fetching ahead where next to nothing is there to be fetched: at the end of the log a consumer asks the
        broker for each record that comes, and another process may well read the next range."""
        for r in ranges:
            _, high = self.consumer.get_watermark_offsets(TopicPartition(r.topic, r.partition), cached=True)
            if high - r.end > NEAR_END:
                return
        self.consumer.unassign()
        self.ends, self.ahead = {}, {}

    def _within(
        self, messages: list[Message], open_ranges: dict[tuple[str, int], Range], left: dict[tuple[str, int], int]
    ) -> Iterator[Message]:
        for message in messages:
            error = message.error()
            tp = (message.topic(), message.partition())
            offset = message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._fail(error, tp)
            wanted = open_ranges.get(tp)
            if wanted is None or offset >= wanted.end:
                # the news that the log ends here, too: the consumer gives it once, and a later range may wait for it
                self._keep(tp, message)
            elif error is None:
                yield message
            if wanted is not None:
                left[tp] = wanted.end - (offset if error is not None else offset + 1)
                if left[tp] <= 0:
                    del open_ranges[tp]

    def _keep(self, tp: tuple[str, int], message: Message) -> None:
        kept = self.ahead.setdefault(tp, [])
        kept.append(message)
        if len(kept) > MOST_AHEAD:
            kept.clear()
            self.ends = {}

    def _move_to(self, open_ranges: dict[tuple[str, int], Range]) -> list[Message]:
        """Go on where the last ranges ended, with what was read beyond them, or assign anew."""
        if self.ends.keys() == open_ranges.keys() and all(self.ends[tp] == r.start for tp, r in open_ranges.items()):
            early = [message for messages in self.ahead.values() for message in messages]
        else:
            early = []
            self.consumer.assign([TopicPartition(r.topic, r.partition, r.start) for r in open_ranges.values()])
        self.ahead = {}
        return early

    def _fail(self, error: KafkaError, tp: tuple[str, int]) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: the log no longer has the offsets that are to be read ({error.str()}).",
                "start anew from a savepoint or --starting-offsets, and raise the topic's retention.",
            )
        if not is_passing(error):
            raise BrokerError(f"{tp[0]}, partition {tp[1]}: {error.str()}.", "see the broker's log.")


_readers: dict[tuple[str, str, str, int], RangeReader] = {}


def cached_reader(bootstrap_servers: str, extra: dict[str, str], group: str, slot: int) -> RangeReader:
    """This process's reader for task number `slot`."""
    key = (bootstrap_servers, repr(sorted(extra.items())), group, slot)
    if key not in _readers:
        _readers[key] = RangeReader(bootstrap_servers, extra, group)
    return _readers[key]


def discard_readers() -> None:
    """After an error: positions are unknown."""
    for reader in _readers.values():
        reader.consumer.close()
    _readers.clear()

"""Reads exactly the records of given offset ranges.

The process keeps its consumers between batches. The next range usually starts where the last one ended, and then its
records have already been fetched. Compacted or aborted records and transaction markers leave gaps in the offsets, so
the consumer's position ends a range (a later record, or the end of the partition), not a count.

The records that are fetched ahead are bounded in bytes, for all partitions of a reader together
(`FETCHED_AHEAD_BYTES`). A partition that gets further ahead of its range than its share allows is dropped, and fetched
again when it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import advice, is_passing_to_range, range_consumer

# In the client's types every part of a message is optional. Checking five parts of each record would cost more than
# reading it.
Message = Any

MIB = 1024 * 1024
QUEUE_BYTES = 24 * MIB  # librdkafka fetches no more while it holds so much
FETCH_BYTES = 16 * MIB  # in one response of a broker (compressed); can be in addition to the queue
CONSUME_BYTES = 8 * MIB  # about this much is taken from librdkafka at once
KEPT_BYTES = 16 * MIB  # records that arrived beyond their ranges
FETCHED_AHEAD_BYTES = QUEUE_BYTES + FETCH_BYTES + CONSUME_BYTES + KEPT_BYTES
# The bytes of one partition in one response. All partitions together get one response, or one could get far ahead of
# its range.
LEAST_OF_PARTITION, MOST_OF_PARTITION = 128 * 1024, 4 * MIB
MESSAGE_BYTES = 512  # what a message costs beside its value
MAX_POLL_RECORDS = 10_000
CONSUME_FIRST = 100  # messages, before their size is known
POLL_S = 0.02  # how long the tail of a range with gaps may wait for records that do not exist
NEAR_END = 10_000  # records
STALL_S = 60.0  # a broker that sends nothing for this long counts as dead


@dataclass(frozen=True)
class Range:
    """Offsets `start` to before `end` of a topic's partition. The topic has its prefix."""

    topic: str
    partition: int
    start: int
    end: int


class RangeReader:
    """One consumer and its positions. It reads about `partitions` partitions at a time."""

    def __init__(
        self, bootstrap_servers: str, extra: dict[str, str], group: str, partitions: int = 1,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:  # fmt: skip
        fetch_bytes = min(FETCH_BYTES, queue_bytes)
        each = max(LEAST_OF_PARTITION, min(MOST_OF_PARTITION, fetch_bytes // max(1, partitions)))
        self.consumer: Consumer = range_consumer(
            bootstrap_servers,
            extra,
            group,
            **{
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 10,
                "queued.min.messages": 100_000,
                "queued.max.messages.kbytes": queue_bytes // 1024,
                "fetch.max.bytes": fetch_bytes,
                "fetch.message.max.bytes": each,
            },
        )
        self.ends: dict[tuple[str, int], int] = {}  # where the last range of each assigned partition ended
        self.ahead: dict[tuple[str, int], list[Message]] = {}  # records that arrived beyond it
        self.ahead_bytes = 0
        self.at_once = CONSUME_FIRST

    def read(self, ranges: list[Range]) -> Iterator[Message]:
        """The records of `ranges`: each partition's in offset order, partitions mixed.

        Raises RetentionError if the log no longer has the start of a range, and BrokerError if the broker stops
        answering.
        """
        open_ranges = {(r.topic, r.partition): r for r in ranges if r.end > r.start}
        if not open_ranges:
            return
        early = self._move_to(open_ranges)
        left = {tp: r.end - r.start for tp, r in open_ranges.items()}
        yield from self._within(early, open_ranges, left)
        last_news = time.monotonic()
        while open_ranges:
            wanted = sum(left[tp] for tp in open_ranges)
            messages = self.consumer.consume(min(self.at_once, wanted), POLL_S)
            if messages:
                each = sum(map(len, messages)) // len(messages) + MESSAGE_BYTES
                self.at_once = min(MAX_POLL_RECORDS, 1 + CONSUME_BYTES // each)
            elif time.monotonic() - last_news > STALL_S:
                raise BrokerError(
                    f"{sorted(open_ranges)}: expected records, found none for {STALL_S:.0f} s.", "check the broker."
                )
            yield from self._within(messages, open_ranges, left)
            if messages:
                last_news = time.monotonic()  # the caller may take long to process the records
                messages = []  # so that they are not in memory together with the next ones
        self._rest(ranges)

    def _rest(self, ranges: list[Range]) -> None:
        """Stops fetching near the end of the logs. There a consumer would ask the broker for each single record, and
        the next range may well be read by another process."""
        for r in ranges:
            _, high = self.consumer.get_watermark_offsets(TopicPartition(r.topic, r.partition), cached=True)
            if high - r.end > NEAR_END:
                return
        self.let_go()

    def let_go(self) -> None:
        """Drops all records and stops fetching."""
        if self.ends:
            self.consumer.unassign()
        self.ends, self.ahead, self.ahead_bytes = {}, {}, 0

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
                # this includes the event that the log ends here: the consumer reports it once, and a later range may
                # need it
                self._keep(tp, message)
            elif error is None:
                yield message
            if wanted is not None:
                left[tp] = wanted.end - (offset if error is not None else offset + 1)
                if left[tp] <= 0:
                    del open_ranges[tp]

    def _keep(self, tp: tuple[str, int], message: Message) -> None:
        if tp not in self.ends:
            return  # dropped: it arrived before librdkafka knew
        self.ahead.setdefault(tp, []).append(message)
        self.ahead_bytes += _cost(message)
        if self.ahead_bytes > KEPT_BYTES:
            self._let_go_of(tp)

    def _let_go_of(self, tp: tuple[str, int]) -> None:
        """Stops fetching a partition that is ahead of its range. Its next range seeks again."""
        self.consumer.incremental_unassign([TopicPartition(*tp)])
        self.ahead_bytes -= sum(map(_cost, self.ahead.pop(tp)))
        del self.ends[tp]

    def _move_to(self, open_ranges: dict[tuple[str, int], Range]) -> list[Message]:
        """Continues where the last ranges ended, with the records beyond them. Other partitions are assigned again."""
        going_on = {tp for tp, r in open_ranges.items() if self.ends.get(tp) == r.start}
        over = [TopicPartition(*tp) for tp in self.ends if tp not in going_on]
        starting = [
            TopicPartition(r.topic, r.partition, r.start) for tp, r in open_ranges.items() if tp not in going_on
        ]
        if not going_on:
            self.consumer.assign(starting)
        else:
            if over:
                self.consumer.incremental_unassign(over)
            if starting:
                self.consumer.incremental_assign(starting)
        early = [message for tp in going_on for message in self.ahead.get(tp, ())]
        self.ends = {tp: r.end for tp, r in open_ranges.items()}
        self.ahead, self.ahead_bytes = {}, 0
        return early

    def _fail(self, error: KafkaError, tp: tuple[str, int]) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: the log no longer has the offsets that are to be read ({error.str()}).",
                "start again from a savepoint or --starting-offsets, and raise the topic's retention.",
            )
        if not is_passing_to_range(error):
            raise BrokerError(f"{tp[0]}, partition {tp[1]}: {error.str()}.", advice(error, "see the broker's log."))


def _cost(message: Message) -> int:
    return len(message) + MESSAGE_BYTES


_readers: dict[tuple[str, str, str, int], RangeReader] = {}


def cached_reader(bootstrap_servers: str, extra: dict[str, str], group: str, slot: int, partitions: int) -> RangeReader:
    """This process's reader for task number `slot`, which reads `partitions` partitions. A process runs one task at a
    time, so records that its other readers have prefetched are dropped: other processes read them now."""
    key = (bootstrap_servers, repr(sorted(extra.items())), group, slot)
    if key not in _readers:
        _readers[key] = RangeReader(bootstrap_servers, extra, group, partitions)
    for other, reader in _readers.items():
        if other != key:
            reader.let_go()
    return _readers[key]


def discard_readers() -> None:
    """Discards all readers after an error, because their positions are unknown."""
    for reader in _readers.values():
        reader.consumer.close()
    _readers.clear()

"""Reads a topic of dead letters, and sends their records to the input topics again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.engine.deadletter import ORIGIN, PREFIX, STEP, TIMER, Letter, Place, texts_of
from moneystate.engine.items import Header
from moneystate.errors import BrokerError
from moneystate.kafka.client import admin_client, base_config, letter_of, new_client, reason
from moneystate.kafka.offsets import log_ends, log_starts, offsets_at, topic_states
from moneystate.kafka.originals import Originals
from moneystate.kafka.ranges import Range, RangeReader

# marks a record that was sent again; its content: TOPIC/PARTITION/OFFSET of the letter
RESENT: Final = PREFIX + "resent"
SENT_S = 30.0
Progress = Callable[[int, int], None]  # gets how much is done, and how much there is


def no_progress(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class StoredLetter:
    """A dead letter in its topic."""

    letter: Letter  # the Kafka record

    @cached_property
    def about(self) -> dict[str, str]:
        """Returns what its headers say about the rejection, by name without the prefix."""
        return texts_of(self.letter.headers)

    @property
    def place(self) -> str:
        return f"{self.letter.partition}/{self.letter.offset}"

    @property
    def source(self) -> Place | None:
        """The place of the rejected record; None: a timer was rejected, or no service wrote this letter."""
        about = self.about
        if (ORIGIN, TIMER) in self.letter.headers or not {"topic", "partition", "offset"} <= about.keys():
            return None
        return about["topic"], int(about["partition"]), int(about["offset"])

    @property
    def headers(self) -> list[Header]:
        """The record's own headers."""
        return [(name, content) for name, content in self.letter.headers if not name.startswith(PREFIX)]

    def needs_original(self) -> bool:
        """Whether the letter itself does not have the record as it was sent: it was too large, or no longer in the log
        when a step's letter was written."""
        is_of_step = (ORIGIN, STEP) in self.letter.headers
        return "value-sha256" in self.about or (is_of_step and self.about.get("timestamp") == "-1")


@dataclass(frozen=True)
class Filter:
    """Chooses letters. Empty: all."""

    reasons: frozenset[str] = frozenset()
    since_ms: int | None = None  # of the letter's Kafka timestamp
    until_ms: int | None = None
    key: bytes | None = None
    places: frozenset[str] = frozenset()  # PARTITION/OFFSET

    def takes(self, one: StoredLetter) -> bool:
        if self.reasons and one.about.get("reason") not in self.reasons:
            return False
        if self.key is not None and one.letter.key != self.key:
            return False
        if self.until_ms is not None and one.letter.timestamp_ms >= self.until_ms:
            return False
        if self.since_ms is not None and one.letter.timestamp_ms < self.since_ms:
            return False
        return not self.places or one.place in self.places


class Resend(NamedTuple):
    """A record to send again."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class DeadLetterLog:
    """The dead letters of a service."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str, topic_prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.topic = topic
        self.originals = Originals(bootstrap_servers, extra, topic_prefix)

    def read(self, wanted: Filter, on_progress: Progress = no_progress) -> Iterator[StoredLetter]:
        """The letters, partition by partition. `on_progress` gets done and total offsets. Raises SetupError if there is
        no such topic, and BrokerError."""
        ranges = self._ranges(wanted)
        total, before = sum(r.end - r.start for r in ranges), 0
        reader = RangeReader(self.bootstrap_servers, self.extra, f"{self.topic}-reader")
        try:
            for one in ranges:
                for message in reader.read([one]):
                    stored = StoredLetter(letter_of(message))
                    on_progress(before + message.offset() + 1 - one.start, total)
                    if wanted.takes(stored):
                        yield stored
                before += one.end - one.start
        finally:
            reader.consumer.close()

    def _ranges(self, wanted: Filter) -> list[Range]:
        admin = admin_client(self.bootstrap_servers, self.extra)
        partitions = [(self.topic, p) for p in topic_states(admin, [self.topic])[self.topic].partitions]
        starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
        if wanted.places:
            chosen = [(self.topic, int(p), int(o)) for p, o in (place.split("/") for place in wanted.places)]
            there = [one for one in sorted(chosen) if one[:2] in ends and starts[one[:2]] <= one[2] < ends[one[:2]]]
            return [Range(*one, one[2] + 1) for one in there]
        if wanted.since_ms is not None:
            starts = offsets_at(admin, partitions, wanted.since_ms)
        return [Range(*tp, starts[tp], ends[tp]) for tp in sorted(partitions)]

    def planned(self, letters: Iterable[StoredLetter]) -> tuple[list[Resend], list[StoredLetter]]:
        """The records to send again, and the letters whose records are gone."""
        wanted = list(letters)
        missing = [one.source for one in wanted if one.source is not None and one.needs_original()]
        originals = self.originals.read(missing)
        sends: list[Resend] = []
        gone: list[StoredLetter] = []
        for one in wanted:
            source = one.source
            original = originals.get(source) if source is not None else None
            if source is None or (original is None and one.needs_original()):
                gone.append(one)
                continue
            key, value, headers = one.letter.key, one.letter.value, one.headers
            if original is not None:
                key, value = original.key, original.value
                headers = [header for header in original.headers if not header[0].startswith(PREFIX)]
            mark = f"{self.topic}/{one.place}".encode()
            sends.append(Resend(self.originals.full_name(source[0]), source[1], key, value, [*headers, (RESENT, mark)]))
        return sends, gone

    def send(self, sends: list[Resend], on_progress: Progress = no_progress) -> None:
        """Raises BrokerError. Records before the failed one may have been sent."""
        config = {**base_config(self.bootstrap_servers, self.extra), "acks": "all", "enable.idempotence": True}
        producer: Producer = new_client(Producer, config)
        failures: list[str] = []
        delivered = 0

        def done(error: KafkaError | None, _: object) -> None:
            nonlocal delivered
            if error is not None:
                failures.append(str(error))
            else:
                delivered += 1
                on_progress(delivered, len(sends))

        try:
            for one in sends:
                self._produce(producer, one, done)
            left = producer.flush(SENT_S)
        except KafkaException as e:
            raise BrokerError(
                f"expected to send records, but {reason(e)}.", "check the broker and the rights."
            ) from None
        if failures or left:
            why = failures[0] if failures else "the broker does not answer"
            raise BrokerError(
                f"expected to send {len(sends)} records, sent {delivered}: {why}.",
                "check the broker, and send the others again.",
            )

    def _produce(self, producer: Producer, one: Resend, done: Callable[[KafkaError | None, object], None]) -> None:
        while True:
            try:
                producer.produce(
                    one.topic, one.value, one.key, partition=one.partition, headers=list(one.headers), on_delivery=done
                )
                return
            except BufferError:
                producer.poll(0.1)

"""The events behind a version of a value: those of its key whose order times are between two watermarks.

An event comes at most `max_future_ms` before its time by Kafka's clock, and was there when the batch was written. So
the records between these times have all events of a version. The engine's intake decides about each of them, as in a
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from moneystate.console.topics import Topics
from moneystate.engine.block import merge
from moneystate.engine.deadletter import Letter
from moneystate.engine.inputs import Inputs
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import END_OF_TIME, EVENT_TIME, KEY, NO_TIME, TIME, Item
from moneystate.engine.place import topic_of, where
from moneystate.kafka.client import METADATA_TIMEOUT_S
from moneystate.kafka.convert import converters
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at, topic_states
from moneystate.kafka.source_spec import load_decoder
from moneystate.runtime.job import service_spec

MOST: Final = 50_000  # records that are read
MARGIN_MS: Final = 60_000  # for clocks that differ


@dataclass(frozen=True)
class Cause:
    """An event: its topic without the prefix, its record, its own time, and its order time."""

    topic: str
    record: Letter
    event_time_ms: int
    order_time_ms: int


@dataclass(frozen=True)
class Causes:
    """`is_whole`: all records that could be events of the version were read; `read`: how many."""

    events: Sequence[Cause]
    read: int
    is_whole: bool


class Inquiry:
    """Reads the inputs of one service, whose rules are those of its declaration and configuration."""

    def __init__(self, topics: Topics, reference: str, registry_url: str) -> None:
        service = service_spec(reference)
        self.topics = topics
        self.formats = dict(service.formats)
        self.spec = service.job({})
        self.registry_url = registry_url

    def causes(self, key: str, since_ms: int | None, before_ms: int | None, written_at_ms: int) -> Causes:
        """The events of a key from one watermark to before another one, in their order, of a version that was written
        at a time. None: from the beginning, or to the end. Blocks. Raises BrokerError and ConfigError."""
        begins, stops = self._ranges(since_ms, written_at_ms)
        read = self.topics.between(begins, stops, MOST)
        letters = read.records
        wanted = key.encode()
        least, end = NO_TIME if since_ms is None else since_ms, END_OF_TIME if before_ms is None else before_ms
        items = [item for item in self._items(letters, begins) if item[KEY] == wanted and least <= item[TIME] < end]
        by_place = {(one.topic, one.partition, one.offset): one for one in letters}
        names = {one.code: one.name for one in self.spec.inputs}
        events = []
        for item in sorted(items):
            topic = topic_of(item, names)
            record = by_place[self.topics.prefix + topic, *where(item)]
            events.append(Cause(topic, record, item[EVENT_TIME], item[TIME]))
        return Causes(events, read.scanned, read.is_whole)

    def _ranges(
        self, since_ms: int | None, written_at_ms: int
    ) -> tuple[dict[FullPartition, int], dict[FullPartition, int]]:
        admin, prefix = self.topics.admin, self.topics.prefix
        there = {name.removeprefix(prefix) for name in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics}
        inputs = Inputs(self.spec.inputs)
        names = [prefix + name for name in [*(set(inputs.named) & there), *inputs.matching(there)]]
        states = topic_states(admin, names)
        partitions = [(name, number) for name in names for number in states[name].partitions]
        starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
        if since_ms is not None:
            furthest = [self.spec.max_future_ms if one.max_future_ms is None else one.max_future_ms
                        for one in self.spec.inputs]  # fmt: skip
            first_ms = max(0, since_ms - max(furthest, default=0) - MARGIN_MS)
            starts = {tp: max(starts[tp], offset) for tp, offset in offsets_at(admin, partitions, first_ms).items()}
        return starts, {
            tp: min(ends[tp], offset) for tp, offset in offsets_at(admin, partitions, written_at_ms + MARGIN_MS).items()
        }

    def _items(self, letters: Sequence[Letter], begins: Iterable[FullPartition]) -> list[Item]:
        """Returns what the intake makes of the records."""
        intake, inputs = self._intake(begins), Inputs(self.spec.inputs)
        for letter in letters:
            topic = letter.topic.removeprefix(self.topics.prefix)
            code, first = inputs.first(topic)
            name, partition = inputs.name(topic), first + letter.partition
            if code in intake.reads:
                letter.name = name
                intake.add_whole(code, partition, letter)
            else:
                intake.add(code, partition, letter.offset, letter.timestamp_ms, letter.value, name)
        return merge(intake.close(set())[:1]).items

    def _intake(self, begins: Iterable[FullPartition]) -> Intake:
        spec = self.spec
        inputs, decoder = Inputs(spec.inputs), load_decoder(spec.decoder)
        converts = converters(self.formats, spec.inputs, self.registry_url or None, service=spec.service)
        partitions = [
            PlannedPartition(*inputs.place((topic.removeprefix(self.topics.prefix), partition)), 1)
            for topic, partition in begins
        ]
        intake = Intake(
            decoder, spec.inputs, partitions, 1, spec.bound_ms, spec.max_future_ms, spec.dead_letter_stream, converts,
            spec.max_record_bytes, decoder.reads(self.formats, converts), decoder.values(self.formats),
        )  # fmt: skip
        intake.open(0, 1, NO_TIME)
        return intake

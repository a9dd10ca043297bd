"""Tables in a bootstrap: the first loads come before all other records, and each key group reads copies of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moneystate.bootstrap.chunks import Chunk
from moneystate.bootstrap.files import NO_TIMESTAMP
from moneystate.bootstrap.history import PartitionHistory
from moneystate.bootstrap.reading import FileCursor
from moneystate.engine.deadletter import Letter
from moneystate.engine.inputs import Inputs, place_text
from moneystate.engine.order import Partition
from moneystate.engine.plan import TopicPartition
from moneystate.engine.processor import Processor
from moneystate.errors import ArchiveError
from moneystate.job.table_feed import KafkaFeed
from moneystate.kafka.convert import converters
from moneystate.kafka.source_spec import SourceSpec, load_decoder
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.processor import ServiceProcessor
from moneystate.runtime.table_copies import TableCopies, TableRange


class HistoryFeed:
    """`moneystate.runtime.table_copies.Feed` for the tables of a history."""

    def __init__(self, spec: SourceSpec, partitions: Sequence[PartitionHistory]) -> None:
        inputs = Inputs(spec.inputs)
        self.spec = spec
        self.histories = {inputs.place(p.tp): p for p in partitions if inputs.is_table(p.topic)}
        self.cursors = {place: FileCursor(p) for place, p in self.histories.items()}
        self.in_kafka = KafkaFeed(spec)

    def __call__(self, ranges: Sequence[TableRange]) -> Iterator[tuple[Partition, Letter]]:
        for code, partition, start, end in ranges:
            p = self.histories[code, partition]
            for offset, r in self.cursors[code, partition].between(start, end):
                time_ms = r.timestamp_ms if r.timestamp_type != NO_TIMESTAMP else NO_TIMESTAMP
                topic = self.spec.topic(p.topic)
                yield (code, partition), Letter(topic, p.partition, offset, time_ms, r.key, r.value, r.headers)
            kafka_from = end if p.kafka_from is None else max(start, p.kafka_from)
            if kafka_from < end:
                yield from self.in_kafka([(code, partition, kafka_from, end)])


@dataclass(frozen=True)
class Tables:
    """The tables of a history, as they are sent to the tasks that run key groups."""

    spec: SourceSpec
    partitions: list[PartitionHistory]

    def copies(self) -> TableCopies:
        s = self.spec
        decoder = load_decoder(s.decoder)
        assert isinstance(decoder, ServiceDecoder)  # only services have tables
        converts = converters(s.formats, s.inputs, s.registry_url, service=s.service)
        return TableCopies(decoder, s.formats, converts, HistoryFeed(s, self.partitions), s.max_record_bytes)


def with_tables(processor: Processor[Any], copies: TableCopies | None) -> Processor[Any]:
    if copies is not None:
        assert isinstance(processor, ServiceProcessor)
        processor.use_tables(copies)
    return processor


def first_loads(spec: SourceSpec, partitions: Sequence[PartitionHistory]) -> dict[TopicPartition, int]:
    """Returns where the first load of each partition ends, of tables that other inputs wait for. Raises ArchiveError if
    it does not end in the history."""
    waits = {t.name for t in spec.inputs if t.waits}
    waiting = [p for p in partitions if p.topic in waits]
    if not waiting:
        return {}
    decoder, inputs, feed = load_decoder(spec.decoder), Inputs(spec.inputs), HistoryFeed(spec, waiting)
    loaded: dict[TopicPartition, int] = {}
    for p in waiting:
        code, partition = inputs.place(p.tp)
        for _, letter in feed([(code, partition, p.start, p.end)]):
            end = decoder.ends_load(code, letter)
            if end is not None:
                loaded[p.tp] = end
                break
        else:
            raise ArchiveError(
                f"{place_text(p.tp)}: expected the end of the table's first load (TableLoaded), found none.",
                "cut the history later (--as-of), or load the table first.",
            )
    return loaded


def load_first(
    partitions: Sequence[PartitionHistory], loaded: Mapping[TopicPartition, int]
) -> tuple[list[Chunk], list[PartitionHistory]]:
    """A chunk with the first loads alone, if there are any, and the histories after it."""
    if not loaded:
        return [], list(partitions)
    until = {p.tp: min(p.end, max(p.start, loaded.get(p.tp, p.start))) for p in partitions}
    chunk: Chunk = {p.tp: (p.start, until[p.tp]) for p in partitions}
    return [chunk], [replace(p, start=until[p.tp]) for p in partitions]

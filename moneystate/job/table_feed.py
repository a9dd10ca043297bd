"""The copies of a job's tables in a Python worker: it reads the tables' topics itself.

A batch brings the offsets up to which it reads each partition. So a worker's copies go on from the last batch that it
ran, and a new worker reads the topics from their beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moneystate.engine.deadletter import Letter
from moneystate.engine.order import Partition
from moneystate.engine.processor import Processor
from moneystate.kafka.client import letter_of
from moneystate.kafka.convert import converters
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.source_spec import SourceSpec, load_decoder
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.processor import ServiceProcessor
from moneystate.runtime.table_copies import TableCopies, TableRange

FEW: Final = 10_000  # records
QUEUE_BYTES: Final = 4 * 1024 * 1024  # each worker reads all rows, so each has one


class KafkaFeed:
    """`moneystate.runtime.table_copies.Feed`."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.names = {t.code: spec.topic(t.name) for t in spec.inputs if t.table}
        self.reader: RangeReader | None = None

    def __call__(self, ranges: Sequence[TableRange]) -> Iterator[tuple[Partition, Letter]]:
        """Raises BrokerError, and RetentionError if the log no longer has the first of the records."""
        if self.reader is None:
            s = self.spec
            self.reader = RangeReader(s.bootstrap_servers, s.extra, s.group, len(ranges), QUEUE_BYTES)
        codes = {self.names[code]: code for code, *_ in ranges}
        wanted = [Range(self.names[code], partition, start, end) for code, partition, start, end in ranges]
        is_whole = False
        try:
            for message in self.reader.read(wanted):
                letter = letter_of(message)
                yield (codes[letter.topic], letter.partition), letter
            is_whole = True
        finally:
            # after an error its position is unknown, and after many records it holds memory that it needs no more
            if not is_whole or sum(end - start for _, _, start, end in ranges) > FEW:
                self.reader.consumer.close()
                self.reader = None


_copies: dict[str, TableCopies] = {}


def give_tables(processor: Processor[Any], run: str, spec: SourceSpec) -> TableCopies:
    """Gives the processor this process's copies for a run of a job."""
    assert isinstance(processor, ServiceProcessor)  # only services have tables
    copies = _of_run(run, spec)
    processor.use_tables(copies)
    return copies


def _of_run(run: str, spec: SourceSpec) -> TableCopies:
    if run not in _copies:
        decoder = load_decoder(spec.decoder)
        assert isinstance(decoder, ServiceDecoder)
        converts = converters(spec.formats, spec.inputs, spec.registry_url, service=spec.service)
        _copies[run] = TableCopies(decoder, spec.formats, converts, KafkaFeed(spec), spec.max_record_bytes)
    return _copies[run]

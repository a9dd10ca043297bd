"""The first phase: reads the records of chunks through the live job's intake into shuffle files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moneystate.bootstrap.chunks import Chunk
from moneystate.bootstrap.files import NO_TIMESTAMP, ArchivedRecord, read_file
from moneystate.bootstrap.history import PartitionHistory
from moneystate.bootstrap.shuffle_files import shuffle_path, write_shuffle_file
from moneystate.engine.deadletter import Letter
from moneystate.engine.inputs import Inputs
from moneystate.engine.intake import Intake
from moneystate.engine.items import NO_TIME
from moneystate.engine.plan import TopicPartition
from moneystate.job.source_reading import TaskRead, open_intake, take_in
from moneystate.kafka.ranges import discard_readers
from moneystate.kafka.source_spec import SourceSpec


@dataclass(frozen=True)
class ReadUnit:
    """A source task's share of consecutive chunks. It reads its partitions without interruption."""

    work: Path
    task: int
    tasks: int
    chunks: dict[int, Chunk]  # by number
    partitions: list[PartitionHistory]
    loaded: Mapping[TopicPartition, int] = field(default_factory=dict)  # as in `BootstrapPlan`


def read_unit(spec: SourceSpec, unit: ReadUnit) -> None:
    """Writes the shuffle files that chunks lack. Raises ArchiveError, BrokerError and RetentionError."""
    cursors = {p.tp: FileCursor(p) for p in unit.partitions}
    try:
        for number, chunk in unit.chunks.items():
            path = shuffle_path(unit.work, number, unit.task)
            if not path.exists():
                write_shuffle_file(path, _blocks(spec, unit, chunk, cursors))
    finally:
        discard_readers()  # other tasks cannot use the records that they have read ahead


def _blocks(spec: SourceSpec, unit: ReadUnit, chunk: Chunk, cursors: dict[tuple[str, int], FileCursor]) -> list[bytes]:
    in_kafka, planned = [], []
    for p in unit.partitions:
        start, end = chunk[p.tp]
        loaded = unit.loaded.get(p.tp, 0)
        planned.append((p.topic, p.partition, start, end, 1, NO_TIME, loaded))
        kafka_from = end if p.kafka_from is None else max(start, p.kafka_from)
        if kafka_from < end:
            in_kafka.append((p.topic, p.partition, kafka_from, end, 1, NO_TIME, loaded))
    intake = open_intake(spec, TaskRead(unit.task, unit.tasks, NO_TIME, planned, None))
    for p in unit.partitions:
        start, end = chunk[p.tp]
        _take_files(intake, spec, p, cursors[p.tp].between(start, end))
    if in_kafka:
        take_in(intake, spec, unit.task, in_kafka)
    return intake.close()


def _take_files(
    intake: Intake, spec: SourceSpec, p: PartitionHistory, records: Iterator[tuple[int, ArchivedRecord]]
) -> None:
    inputs, topic = Inputs(spec.inputs), spec.topic(p.topic)
    (code, partition), name = inputs.place(p.tp), inputs.name(p.topic)
    for offset, record in records:
        timestamp = record.timestamp_ms if record.timestamp_type != NO_TIMESTAMP else NO_TIMESTAMP
        letter = Letter(topic, p.partition, offset, timestamp, record.key, record.value, record.headers)
        if code in intake.reads:
            letter.name = name
            why = intake.add_whole(code, partition, letter)
        else:
            why = intake.add(code, partition, offset, timestamp, record.value, name)
        if why is not None:
            intake.reject(letter, why)


class FileCursor:
    """Reads a partition's files, one range after the other."""

    def __init__(self, history: PartitionHistory) -> None:
        self.history = history
        self.position = -1
        self.records: Iterator[tuple[int, ArchivedRecord]] = iter(())
        self.next: tuple[int, ArchivedRecord] | None = None

    def between(self, start: int, end: int) -> Iterator[tuple[int, ArchivedRecord]]:
        """Offset and record of each record from `start` to before `end`. Raises ArchiveError."""
        if start != self.position:
            self.records = self._from(start)
            self.next = next(self.records, None)
        self.position = end
        while self.next is not None and self.next[0] < end:
            yield self.next
            self.next = next(self.records, None)

    def _from(self, start: int) -> Iterator[tuple[int, ArchivedRecord]]:
        for file_range in self.history.files:
            if file_range.end <= start:
                continue
            for number, record in enumerate(read_file(Path(file_range.path))):
                offset = file_range.first + number if file_range.counted else record.offset
                if offset >= start:
                    yield offset, record

"""Archives topics from Kafka into files (`moneystate.bootstrap.layout`).

Finished files are kept. The same command resumes an archive that was stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moneystate.bootstrap.archive_folder import ArchiveFolder
from moneystate.bootstrap.files import AVRO, NO_TIMESTAMP, ArchivedRecord, write_file
from moneystate.bootstrap.history import BEGIN_ADVICE, Cut, parse_cut, read_initial_highs
from moneystate.bootstrap.layout import RangeNote
from moneystate.engine.inputs import Inputs
from moneystate.engine.items import NO_TIME
from moneystate.engine.place import MARK, header_of
from moneystate.engine.plan import TopicPartition
from moneystate.engine.processor import Decoder, InputTopic, Rejected
from moneystate.engine.reading import EventTimes
from moneystate.errors import ArchiveError, ConfigError, RetentionError
from moneystate.kafka.client import admin_client, check_reachable, headers_of, letter_of
from moneystate.kafka.convert import converters
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at
from moneystate.kafka.ranges import Message, Range, RangeReader
from moneystate.kafka.starting import EARLIEST, resolve_start


@dataclass(frozen=True)
class ArchiveOptions:
    """Holds what to archive, and where."""

    bootstrap_servers: str
    out: str  # path or URI
    topic_prefix: str = ""
    starting_offsets: str = EARLIEST  # where each partition's range begins
    as_of: str = "end"  # where each partition's range ends
    initial_highs: Path | None = None
    records_per_file: int = 100_000  # at most so many offsets in one file
    file_format: str = AVRO  # one of moneystate.bootstrap.files
    formats: dict[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    kafka_config: dict[str, str] = field(default_factory=dict)
    service: str = ""  # as in `JobSpec`


@dataclass(frozen=True)
class PartitionWork:
    """Offsets `start` to before `end` of one partition."""

    topic: str
    partition: int
    start: int
    done: int  # offsets before this one are archived
    end: int
    high: int | None  # the initial high, if there is no note yet
    note: RangeNote | None  # of an earlier run


class Archiver:
    """One run. The constructor checks everything and writes nothing."""

    def __init__(self, options: ArchiveOptions, inputs: list[InputTopic], decoder: Decoder) -> None:
        o = self.options = options
        self.archive = ArchiveFolder(o.out)
        self.inputs = Inputs(inputs)
        self.timed = {t.name for t in inputs if t.timed}
        names = [t.name for t in inputs]
        self.cut: Cut = parse_cut(o.as_of, names)
        self.highs = read_initial_highs(o.initial_highs, names)
        converts = converters(o.formats, inputs, o.registry_url, service=o.service)
        self.times = EventTimes(decoder, o.formats, converts, inputs)
        check_reachable(o.bootstrap_servers, o.kafka_config)
        self.admin: AdminClient = admin_client(o.bootstrap_servers, o.kafka_config)
        begin = resolve_start(self.admin, o.starting_offsets, o.topic_prefix, inputs)
        self.ids = begin.topic_ids
        self.names: dict[TopicPartition, FullPartition] = {(t, p): (o.topic_prefix + t, p) for t, p in begin.partitions}
        self.starts = log_starts(self.admin, self.names.values())
        self.ends = self._ends()
        self.work = [self._planned(tp, planned.end) for tp, planned in sorted(begin.partitions.items())]

    def _ends(self) -> dict[TopicPartition, int]:
        ends = log_ends(self.admin, self.names.values())
        if self.cut.at_ms is not None:
            ends = offsets_at(self.admin, self.names.values(), self.cut.at_ms)
        end_offsets = {tp: ends[full] for tp, full in self.names.items()}
        for tp, end in self.cut.offsets.items():
            if tp not in end_offsets or end > end_offsets[tp]:
                raise ConfigError(
                    f"--as-of: expected an offset up to {end_offsets.get(tp, 'none')} for {tp[0]}, partition {tp[1]}, "
                    f"found {end}.",
                    "give offsets that the log has.",
                )
            end_offsets[tp] = end
        return end_offsets

    def _planned(self, tp: TopicPartition, start: int) -> PartitionWork:
        """The remaining work for a partition. An earlier run's note says where the archive began."""
        note = self.archive.note(tp)
        first = self.starts[self.names[tp]]
        if note is None:
            high = self._known_high(tp, start, first)
            return PartitionWork(*tp, start, start, max(start, self.ends[tp]), high, None)
        if note.topic_id != self.ids[tp[0]]:
            raise ArchiveError(
                f"{self.archive.name(tp)}: expected the archive of topic {self.ids[tp[0]]}, found one of "
                f"{note.topic_id}.",
                "give another --archive.",
            )
        done = note.done
        if done < first and done < self.ends[tp]:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected to continue at offset {done}, but the log begins at {first}.",
                "the records in between are lost; give another --archive.",
            )
        return PartitionWork(*tp, note.start, done, max(done, self.ends[tp]), note.initial_high, note)

    def _known_high(self, tp: TopicPartition, start: int, first: int) -> int | None:
        """The initial high of a range that does not start at its partition's beginning, if the user gave one. Otherwise
        it is computed while archiving, from the records before the range."""
        if start > 0 and first > 0 and tp not in self.highs:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected a log from offset 0 on, found one from {first} on.", BEGIN_ADVICE
            )
        return self.highs.get(tp)

    def total(self) -> int:
        return sum(w.end - w.start for w in self.work)

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Archives everything. Calls `on_progress` with the number of finished offsets. Raises MoneystateError."""
        o = self.options
        reader = RangeReader(o.bootstrap_servers, o.kafka_config, f"{o.topic_prefix or 'moneystate'}-archive")
        done = sum(w.done - w.start for w in self.work)
        try:
            for w in self.work:
                for offsets in self._partition(reader, w):
                    done += offsets
                    on_progress(done)
        finally:
            reader.consumer.close()

    def _partition(self, reader: RangeReader, w: PartitionWork) -> Iterator[int]:
        tp = (w.topic, w.partition)
        note = w.note
        if note is None:
            high = w.high
            if tp not in self.highs and w.start > 0:
                high = self._high_before(reader, tp, w.start)
            note = RangeNote(w.start, w.end, high, self.ids[w.topic])
        note.end = w.end
        self.archive.begin(tp, note)
        for first in range(w.done, w.end, self.options.records_per_file):
            end = min(first + self.options.records_per_file, w.end)
            self._file(reader, tp, note, first, end)
            yield end - first

    def _file(self, reader: RangeReader, tp: TopicPartition, note: RangeNote, first: int, end: int) -> None:
        name = f"{first:020d}-{end - 1:020d}.{self.options.file_format}"
        with self.archive.new_file(tp, name) as path:
            records = write_file(path, map(_archived_record, reader.read([Range(*self.names[tp], first, end)])))
            with path.open("rb") as f:
                sha256 = hashlib.file_digest(f, "sha256").hexdigest()
        note.files[name] = {"offsets": end - first, "records": records, "sha256": sha256}
        self.archive.put_note(tp, note)

    def _high_before(self, reader: RangeReader, tp: TopicPartition, start: int) -> int | None:
        code, _ = self.inputs.place(tp)
        high = NO_TIME
        for message in reader.read([Range(*self.names[tp], 0, start)]):
            if tp[0] in self.timed and header_of(headers_of(message), MARK) is None:
                continue  # only marks advance its time
            try:
                event_time_ms = self.times.event_time(code, letter_of(message))
            except Rejected:
                continue
            if event_time_ms is not None:
                high = max(high, event_time_ms)
        return None if high == NO_TIME else high


def _archived_record(message: Message) -> ArchivedRecord:
    kind, timestamp = message.timestamp()
    if not kind:
        timestamp = NO_TIMESTAMP
    headers = headers_of(message)
    return ArchivedRecord(message.offset(), timestamp, kind - 1, message.key(), message.value(), headers)

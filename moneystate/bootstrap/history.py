"""The records that a bootstrap reads: for each partition a range of offsets, from archive files, from Kafka, or from
both in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moneystate.bootstrap.inspect import FileFacts
from moneystate.bootstrap.layout import NOTE, ArchivedPartition, ArchiveFile
from moneystate.engine.inputs import matches
from moneystate.engine.json_object import read_object
from moneystate.engine.plan import ACTIVE, EMPTY, PartitionPlan, Plan, TopicPartition
from moneystate.errors import ArchiveError, ConfigError, RetentionError
from moneystate.kafka.starting import is_file, offsets_from_file, time_ms

END = "end"
AS_OF, INITIAL_HIGHS = "--as-of", "--initial-highs"
BEGIN_ADVICE = f"give the missing records with another --from, or start there with {INITIAL_HIGHS} FILE."


@dataclass(frozen=True)
class Cut:
    """Describes where the history ends: a time (ms, of record timestamps), offsets of some partitions, or the ends of
    the logs."""

    at_ms: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


def parse_cut(text: str, topics: list[str]) -> Cut:
    """`end`, an ISO-8601 time with its zone, or a JSON file {topic: {partition: offset}}. Raises ConfigError."""
    if text == END:
        return Cut()
    if is_file(text):
        return Cut(offsets=offsets_from_file(Path(text), topics, AS_OF))
    return Cut(at_ms=time_ms(text, AS_OF, END))


def read_initial_highs(path: Path | None, topics: list[str]) -> dict[TopicPartition, int | None]:
    """JSON {topic: {partition: ms or null}} of `topics`, which are names of inputs.

    The number is the highest event time before a range that does not begin at its partition's beginning; null: nothing
    is known, the range is taken as the beginning. Raises ConfigError.
    """
    if path is None:
        return {}
    try:
        content = read_object(path.read_text())
        highs = {
            (topic, int(p)): None if high is None else int(high)
            for topic, by in content.items()
            for p, high in by.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, OverflowError) as e:
        raise ConfigError(
            f"{INITIAL_HIGHS} {path}: expected JSON {{topic: {{partition: ms}}}}, but {e}.",
            "check the path and the file.",
        ) from None
    unknown = sorted(topic for topic in content if not any(matches(name, topic) for name in topics))
    if unknown:
        raise ConfigError(
            f"{INITIAL_HIGHS} {path}: expected topics of {', '.join(topics)}, found {unknown[0]}.",
            "name topics without --topic-prefix.",
        )
    return highs


@dataclass(frozen=True)
class FileRange:
    """A file with the offsets from `first` to before `end`."""

    path: str
    first: int
    end: int
    counted: bool  # its records have no offsets; they are counted from `first`
    stamp: str  # size and modification time when it was inspected


def _stamp(path: str) -> str:
    """Raises ArchiveError."""
    try:
        stat = Path(path).stat()
    except OSError as e:
        raise ArchiveError(f"{path}: expected a file of the archive, but {e.strerror}.", "put it back.") from None
    return f"{stat.st_size} {stat.st_mtime_ns}"


def check_unchanged(history: History) -> None:
    """Raises ArchiveError if a file has changed since it was inspected, because some of it may already be in use."""
    for file_range in [file_range for partition in history.partitions for file_range in partition.files]:
        if _stamp(file_range.path) != file_range.stamp:
            raise ArchiveError(
                f"{file_range.path}: expected the file that this bootstrap began with, found a changed one.",
                "put it back, or remove the --work folder to start from the beginning.",
            )


@dataclass(frozen=True)
class PartitionHistory:
    """Offsets `start` to before `end` of one partition: first from archive files, then from Kafka."""

    topic: str
    partition: int
    start: int
    end: int
    initial_high: int | None = None
    files: list[FileRange] = field(default_factory=list)
    kafka_from: int | None = None  # from this offset on, records come from Kafka; None: all come from files
    points: list[tuple[int, int]] = field(default_factory=list)  # offset and event time (ms) of some records, by offset

    @property
    def counted(self) -> bool:
        return any(file_range.counted for file_range in self.files)

    @property
    def tp(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True)
class History:
    """All records that a bootstrap reads."""

    partitions: list[PartitionHistory]
    topic_ids: Mapping[str, str]  # Kafka's; empty: the archive does not record them

    def tps(self) -> list[TopicPartition]:
        return [p.tp for p in self.partitions]

    def records(self) -> int:
        """Number of offsets to read: at least the number of records."""
        return sum(p.end - p.start for p in self.partitions)

    def plan(self, rules_hash: str) -> Plan | None:
        """The plan to continue from; None if offsets are counted, because those are not positions in any log."""
        if any(p.counted for p in self.partitions):
            return None
        ends = {p.tp: PartitionPlan(p.end, ACTIVE if p.end > p.start else EMPTY) for p in self.partitions}
        return Plan(rules_hash, self.topic_ids, ends)


@dataclass(frozen=True)
class KafkaLog:
    """Holds what Kafka holds of the topics. Names are without prefix."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    cut: Mapping[TopicPartition, int]  # offsets of the requested end time, or the ends
    topic_ids: Mapping[str, str]


def from_archive(
    archived: ArchivedPartition, facts: list[FileFacts], highs: Mapping[TopicPartition, int | None]
) -> PartitionHistory:
    """The whole archive of one partition. Raises ArchiveError if its files do not fit together."""
    full = [(file, fact) for file, fact in zip(archived.files, facts, strict=True) if fact.records]
    has_offsets = [fact.has_offsets for _, fact in full]
    if any(has_offsets) and not all(has_offsets):
        without = next(file.path for file, fact in full if not fact.has_offsets)
        raise ArchiveError(
            f"{without}: expected offsets in its records, as other files of the partition have them.",
            "keep one kind of file.",
        )
    if full and not any(has_offsets):
        return _counted(archived, facts, highs)
    return _with_offsets(archived, facts, highs)


def _counted(
    archived: ArchivedPartition, facts: list[FileFacts], highs: Mapping[TopicPartition, int | None]
) -> PartitionHistory:
    file_ranges, points, position = [], [], 0
    for file, fact in zip(archived.files, facts, strict=True):
        file_ranges.append(FileRange(file.path, position, position + fact.records, True, _stamp(file.path)))
        points += [(position + number, ms) for number, ms in fact.points]
        position += fact.records
    high = highs.get((archived.topic, archived.partition))
    return PartitionHistory(archived.topic, archived.partition, 0, position, high, file_ranges, None, points)


def _with_offsets(
    archived: ArchivedPartition, facts: list[FileFacts], highs: Mapping[TopicPartition, int | None]
) -> PartitionHistory:
    tp = (archived.topic, archived.partition)
    note = archived.first_note()
    file_ranges = [FileRange(file.path, *_span(file), False, _stamp(file.path)) for file in archived.files]
    first = file_ranges[0].first if file_ranges else (note.start if note else 0)
    if first > (note.start if note else 0) and tp not in highs:
        raise ArchiveError(
            f"{archived.topic}, partition {archived.partition}: expected offsets from {note.start if note else 0} on, "
            f"the "
            f"archive begins at {first}.",
            BEGIN_ADVICE,
        )
    end = file_ranges[-1].end if file_ranges else first
    points = [point for fact in facts for point in fact.points]
    high = highs.get(tp, note.initial_high if note else None)
    return PartitionHistory(archived.topic, archived.partition, first, end, high, file_ranges, None, points)


def _span(file: ArchiveFile) -> tuple[int, int]:
    assert file.first is not None
    assert file.last is not None
    return file.first, file.last + 1


def archive_cut(history: PartitionHistory, facts: list[FileFacts]) -> int | None:
    """The offset of the first record with a timestamp at or after the time that the inspection looked for."""
    for file_range, fact in zip(history.files, facts, strict=True):
        if fact.first_at is not None:
            return fact.first_at + (file_range.first if file_range.counted else 0)
    return None


def archive_topic_ids(archived: Mapping[TopicPartition, ArchivedPartition], topics: list[str]) -> dict[str, str]:
    """The topic ids by topic; empty: no note has one. Raises ArchiveError if notes differ."""
    ids: dict[str, str] = {}
    for topic in topics:
        known = sorted({n.topic_id for (t, _), f in archived.items() if t == topic for n in f.notes if n.topic_id})
        if len(known) > 1:
            raise ArchiveError(
                f"{topic}: expected archives of one topic, their {NOTE} name {', '.join(known)}.",
                "give archives of one topic.",
            )
        ids[topic] = known[0] if known else ""
    return ids


def from_kafka(
    tp: TopicPartition, log: KafkaLog, highs: Mapping[TopicPartition, int | None], start: int | None
) -> PartitionHistory:
    """The partition from `start` (None: from its beginning). Raises RetentionError if the log no longer has it."""
    first = log.starts[tp]
    if start is None:
        if first > 0 and tp not in highs:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected a log from offset 0 on, found one from {first} on.", BEGIN_ADVICE
            )
        start = first
    if not first <= start <= log.ends[tp]:
        raise RetentionError(
            f"{tp[0]}, partition {tp[1]}: expected a log with offset {start}, found {first} to {log.ends[tp]}.",
            "read it from an archive.",
        )
    return PartitionHistory(*tp, start, log.cut[tp], highs.get(tp), [], start)


def joined(archived: PartitionHistory, log: KafkaLog) -> PartitionHistory:
    """An archive, continued from Kafka where it ends. Raises if they do not meet."""
    tp, end = archived.tp, archived.end
    if archived.counted:
        raise ConfigError(
            f"--from kafka: expected an archive with offsets, found none in {archived.files[0].path}.",
            "give only one of the two.",
        )
    if tp not in log.starts or not log.starts[tp] <= end <= log.ends[tp]:
        has = f"{log.starts[tp]} to {log.ends[tp]}" if tp in log.starts else "no such partition"
        raise RetentionError(
            f"{tp[0]}, partition {tp[1]}: expected Kafka to continue at offset {end}, the archive's end, found {has}.",
            "archive the missing records, or give the archive of this cluster.",
        )
    return PartitionHistory(
        *tp, archived.start, max(end, log.cut[tp]), archived.initial_high, archived.files, end, archived.points
    )


def cut_at(history: PartitionHistory, end: int) -> PartitionHistory:
    """Returns the same history up to `end`. Raises ConfigError if it does not reach that far."""
    if not history.start <= end <= history.end:
        raise ConfigError(
            f"{AS_OF}: expected an offset between {history.start} and {history.end} for {history.topic}, partition "
            f"{history.partition}, found {end}.",
            "give offsets that the history has.",
        )
    h = history
    files = [file_range for file_range in h.files if file_range.first < end]
    kafka_from = h.kafka_from if h.kafka_from is not None and h.kafka_from < end else None
    points = [point for point in h.points if point[0] < end]
    return PartitionHistory(h.topic, h.partition, h.start, end, h.initial_high, files, kafka_from, points)

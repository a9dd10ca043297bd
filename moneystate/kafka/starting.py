"""Determines the offsets at which a new checkpoint starts to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moneystate.engine.avro import Malformed
from moneystate.engine.inputs import matches
from moneystate.engine.json_object import read_object
from moneystate.engine.plan import EMPTY, PartitionPlan, TopicPartition
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, RetentionError
from moneystate.kafka.input_topics import topics_at_start
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at
from moneystate.records.iso_time import to_ms

EARLIEST = "earliest"
FLAG = "--starting-offsets"


@dataclass(frozen=True)
class Start:
    """Describes where a new checkpoint starts to read: a plan that has read nothing yet."""

    topic_ids: dict[str, str]
    partitions: dict[TopicPartition, PartitionPlan]  # by topic without prefix, and partition


@dataclass(frozen=True)
class Wanted:
    """The value of `--starting-offsets`: a time, or offsets of some partitions."""

    at_ms: int | None  # compared with Kafka timestamps
    offsets: dict[TopicPartition, int]


def parse_start(text: str, topics: Sequence[str]) -> Wanted:
    """Parses `earliest`, an ISO-8601 time with its zone, or a JSON file {topic: {partition: offset}} of `topics`,
    without prefix. Raises ConfigError for anything else."""
    if text == EARLIEST:
        return Wanted(None, {})
    if is_file(text):
        return Wanted(None, offsets_from_file(Path(text), topics, FLAG))
    return Wanted(time_ms(text, FLAG, EARLIEST), {})


def resolve_start(admin: AdminClient, text: str, prefix: str, inputs: Sequence[InputTopic]) -> Start:
    """Resolves `text` (see `parse_start`) to offsets. Raises ConfigError for partitions that do not exist, and
    RetentionError for offsets that the log no longer has."""
    wanted = parse_start(text, [t.name for t in inputs])
    states = topics_at_start(admin, inputs, prefix)
    names = {(prefix + t, p): (t, p) for t, state in states.items() for p in state.partitions}
    ids = {t: state.topic_id for t, state in states.items()}
    if wanted.at_ms is not None:
        tables = {t.name for t in inputs if t.table}  # each row counts, however old
        by_time = [full for full, (topic, _) in names.items() if topic not in tables]
        whole = [full for full, (topic, _) in names.items() if topic in tables]
        chosen = {**offsets_at(admin, by_time, wanted.at_ms), **log_starts(admin, whole)}
    else:
        chosen = log_starts(admin, names)
        if wanted.offsets:
            chosen = _with_offsets(admin, chosen, {(prefix + t, p): n for (t, p), n in wanted.offsets.items()})
    return Start(ids, {names[full]: PartitionPlan(offset, EMPTY) for full, offset in chosen.items()})


def time_ms(text: str, flag: str, word: str) -> int:
    """A time with its zone, whose date may be followed by a blank. Raises ConfigError that names `flag`, which takes
    `word` or a file, too."""
    try:
        return to_ms(text.replace(" ", "T", 1))
    except Malformed:
        raise ConfigError(
            f"{flag} {text}: expected {word}, an ISO-8601 time with its zone, or a file that exists.",
            "for example 2026-01-31T00:00:00Z, or a JSON file {topic: {partition: offset}}.",
        ) from None


def is_file(text: str) -> bool:
    """Whether the text is the path of a file, and not a time."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # no path can be so long, or have such characters
        return False


def offsets_from_file(path: Path, topics: Sequence[str], flag: str) -> dict[TopicPartition, int]:
    """JSON {topic: {partition: offset}} of `topics`, which are names of inputs. Raises ConfigError that names
    `flag`."""
    try:
        content = read_object(path.read_text())
        offsets = {(topic, int(p)): int(offset) for topic, by in content.items() for p, offset in by.items()}
    except (OSError, ValueError, AttributeError, TypeError, OverflowError) as e:
        raise ConfigError(
            f"{flag} {path}: expected JSON {{topic: {{partition: offset}}}}, but {e}.", "check the file."
        ) from None
    unknown = sorted(topic for topic in content if not any(matches(name, topic) for name in topics))
    if unknown:
        raise ConfigError(
            f"{flag} {path}: expected topics of {', '.join(topics)}, found {unknown[0]}.",
            "name topics without --topic-prefix.",
        )
    return offsets


def _with_offsets(
    admin: AdminClient, starts: dict[FullPartition, int], wanted: dict[FullPartition, int]
) -> dict[FullPartition, int]:
    unknown = sorted(wanted.keys() - starts.keys())
    if unknown:
        topic, partition = unknown[0]
        raise ConfigError(
            f"{FLAG}: expected partitions that exist, found {topic}, partition {partition}.",
            "name partitions of the topic.",
        )
    chosen = {**starts, **wanted}
    _check(chosen, starts, log_ends(admin, starts))
    return chosen


def _check(chosen: dict[FullPartition, int], starts: dict[FullPartition, int], ends: dict[FullPartition, int]) -> None:
    for (topic, partition), offset in chosen.items():
        first, end = starts[topic, partition], ends[topic, partition]
        if not first <= offset <= end:
            raise RetentionError(
                f"{topic}, partition {partition}: expected a start between {first} and {end}, found {offset}.",
                "give offsets that the log has.",
            )

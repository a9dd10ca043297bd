"""Where a new checkpoint begins to read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient

from services.engine.plan import EMPTY, PartitionPlan, TopicPartition
from services.errors import ConfigError, RetentionError
from services.kafka.offsets import FullPartition, log_ends, log_starts, offsets_at, topic_states

EARLIEST = "earliest"


@dataclass(frozen=True)
class Start:
    """`partitions`: by topic without prefix; a plan that has read nothing yet."""

    topic_ids: dict[str, str]
    partitions: dict[TopicPartition, PartitionPlan]


def resolve_start(admin: AdminClient, wanted: str, prefix: str, topics: list[str]) -> Start:
    """`wanted`: `earliest`, an ISO-8601 time (Kafka timestamps), or a JSON file {topic: {partition: offset}}.

    Raises ConfigError for what is none of these, RetentionError for offsets that the log does not have.
    """
    states = topic_states(admin, [prefix + t for t in topics])
    names = {(prefix + t, p): (t, p) for t in topics for p in states[prefix + t].partitions}
    starts = log_starts(admin, names)
    if wanted == EARLIEST:
        chosen = starts
    elif Path(wanted).is_file():
        chosen = {**starts, **_from_file(Path(wanted), prefix, names)}
        _check(chosen, starts, log_ends(admin, names))
    else:
        chosen = offsets_at(admin, names, _timestamp_ms(wanted))
    ids = {t: states[prefix + t].topic_id for t in topics}
    return Start(ids, {names[full]: PartitionPlan(offset, EMPTY) for full, offset in chosen.items()})


def _timestamp_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--starting-offsets {text}: expected earliest, an ISO-8601 time or a file that exists.",
            "for example 2026-01-31T00:00:00Z, or a JSON file {topic: {partition: offset}}.",
        ) from None
    if at.tzinfo is None:
        raise ConfigError(f"--starting-offsets {text}: expected a time with its zone.", f"for example {text}Z.")
    return int(at.timestamp() * 1000)


def _from_file(path: Path, prefix: str, known: dict[FullPartition, TopicPartition]) -> dict[FullPartition, int]:
    try:
        content = json.loads(path.read_text())
        offsets = {(prefix + t, int(p)): int(offset) for t, by in content.items() for p, offset in by.items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise ConfigError(f"{path}: expected JSON of the form {{topic: {{partition: offset}}}} ({e}).") from None
    unknown = sorted(offsets.keys() - known.keys())
    if unknown:
        raise ConfigError(f"{path}: expected input topics and their partitions, came {unknown[0][0]}/{unknown[0][1]}.")
    return offsets


def _check(chosen: dict[FullPartition, int], starts: dict[FullPartition, int], ends: dict[FullPartition, int]) -> None:
    for (topic, partition), offset in chosen.items():
        first, end = starts[topic, partition], ends[topic, partition]
        if not first <= offset <= end:
            raise RetentionError(
                f"{topic}, partition {partition}: expected a start between {first} and {end}, came {offset}.",
                "give offsets that the log has.",
            )

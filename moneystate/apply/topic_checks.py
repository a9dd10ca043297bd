"""Whether a position still belongs to its topic: the topic's id, the ends of its log, and how long it was left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from moneystate.apply.chunks import Partition
from moneystate.apply.config import Start
from moneystate.errors import RetentionError, SetupError
from moneystate.kafka.offsets import high_watermarks, log_ends, log_starts, topic_states
from moneystate.kafka.topics import topic_settings

DELETE_RETENTION_MS = 86_400_000  # Kafka's own default


@dataclass(frozen=True)
class Logs:
    """Holds what the brokers say of some topics, and of all their partitions."""

    ids: Mapping[str, str]  # by topic
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]  # for readers of committed records
    highs: Mapping[Partition, int]
    left_s: Mapping[str, float]  # by compacted topic: how long a position may have been left


def logs_of(admin: AdminClient, topics: Sequence[str]) -> Logs:
    """Raises SetupError for a topic that is missing, and BrokerError."""
    states = topic_states(admin, list(topics))
    partitions = [Partition(topic, p) for topic in topics for p in states[topic].partitions]
    pairs = [(p.topic, p.number) for p in partitions]
    starts, ends, highs = log_starts(admin, pairs), log_ends(admin, pairs), high_watermarks(admin, pairs)
    left: dict[str, float] = {}
    for topic, settings in topic_settings(admin, list(topics)).items():
        if "compact" in settings.get("cleanup.policy", "").split(","):
            left[topic] = int(settings.get("delete.retention.ms", DELETE_RETENTION_MS)) / 2000
    return Logs(
        {topic: state.topic_id for topic, state in states.items()},
        {p: starts[p.topic, p.number] for p in partitions},
        {p: ends[p.topic, p.number] for p in partitions},
        {p: highs[p.topic, p.number] for p in partitions},
        left,
    )


def begin_of(partition: Partition, logs: Logs, start: Start) -> int:
    """Returns where a partition without a position begins."""
    return logs.ends[partition] if start is Start.latest else logs.starts[partition]


def check_id(target: str, topic: str, known: str, actual: str) -> None:
    """Raises SetupError for a topic that was deleted and made again: the position is one of another log."""
    if known != actual:
        raise SetupError(
            f"target {target}, topic {topic}: expected the topic with the id {known}, found one with {actual}: it was "
            "deleted and made again.",
            f"run moneystate apply rebuild {target} for a target of rows or state; for a handler delete the target's "
            "rows of moneystate_positions, and it begins from its start setting.",
        )


def check_left(target: str, partition: Partition, logs: Logs, left_s: float) -> None:
    """Raises RetentionError if compaction may have removed deletions that the position has not passed yet."""
    most = logs.left_s.get(partition.topic)
    if most is not None and left_s > most:
        raise RetentionError(
            f"target {target}, {partition.topic} partition {partition.number}: expected to have read to its end within "
            f"{most:.0f} s, half of delete.retention.ms, found {left_s:.0f} s: deletions may be missing from the log.",
            f"run moneystate apply rebuild {target}.",
        )


def position_in(target: str, partition: Partition, position: int, logs: Logs, skip_lost: bool) -> tuple[int, int]:
    """Returns where to go on, and how many offsets are skipped. Raises RetentionError for a position outside the
    log."""
    first, end = logs.starts[partition], logs.highs[partition]
    if position < first and skip_lost:
        return first, first - position
    if not first <= position <= end:
        raise RetentionError(
            f"target {target}, {partition.topic} partition {partition.number}: expected the position {position} in the "
            f"log, which has {first} to {end}.",
            f"run moneystate apply rebuild {target}, or start with --skip-lost to go on without the lost records."
            if position < first
            else f"find out who cut the log off, then run moneystate apply rebuild {target}.",
        )
    return position, 0

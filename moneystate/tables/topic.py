"""The topic of a table: kept for good, not compacted, and with the broker's timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from moneystate.errors import SetupError
from moneystate.kafka.offsets import existing_states
from moneystate.kafka.sizes import PRODUCER_BYTES
from moneystate.kafka.topics import (
    BROKER_MESSAGE_BYTES,
    MAY_BE_HIDDEN,
    MESSAGE_BYTES,
    Replication,
    TopicSpec,
    check_timestamps,
    ensure_topics,
    topic_settings,
)

# names of settings, with what a table needs, and what happens otherwise
NEEDED: Final = (
    ("cleanup.policy", "delete", "compaction takes rows that a replay needs"),
    ("retention.ms", "-1", "rows would be deleted by their age"),
    ("retention.bytes", "-1", "rows would be deleted to save space"),
)


def create_topic(admin: AdminClient, topic: str, partitions: int, replication: Replication) -> None:
    """Creates it if it is missing. Raises SetupError."""
    spec = TopicSpec(topic, partitions, keep_for_good=True, broker_time=True)
    ensure_topics(admin, [spec], create=True, replication=replication)


def check_topic(admin: AdminClient, topic: str) -> int:
    """The size that a record may have. Raises SetupError for a topic that is missing or unfit."""
    if topic not in existing_states(admin, [topic]):
        raise SetupError(
            f"{topic}: expected a topic, but the broker has none of this name.",
            f"create it, or give --create-topic. {MAY_BE_HIDDEN}",
        )
    settings = topic_settings(admin, [topic])[topic]
    check_settings(topic, settings)
    check_timestamps(admin, [topic])
    return min(int(settings.get(MESSAGE_BYTES, BROKER_MESSAGE_BYTES)), PRODUCER_BYTES)


def check_settings(topic: str, settings: Mapping[str, str]) -> None:
    """`settings`: empty if this user may not read them. Raises SetupError."""
    for name, wanted, why in NEEDED:
        actual = settings.get(name, wanted)
        if actual != wanted:
            raise SetupError(
                f"{topic}: expected {name}={wanted}, found {actual}: {why}.",
                "change the topic's setting; --create-topic makes new topics so.",
            )

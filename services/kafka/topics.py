"""Creating and checking the topics of a job."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.errors import SetupError
from services.kafka.client import METADATA_TIMEOUT_S, reason


@dataclass(frozen=True)
class TopicSpec:
    """`name` with prefix; `compacted`: it keeps the last record of each key, else its records are kept by time."""

    name: str
    partitions: int
    compacted: bool = False
    keep_for_good: bool = False

    def config(self) -> dict[str, str]:
        config: dict[str, str] = {}
        if self.compacted:
            config["cleanup.policy"] = "compact"
        if self.keep_for_good:
            config["retention.ms"] = "-1"
        return config


def ensure_topics(admin: AdminClient, wanted: list[TopicSpec], create: bool, replication: int = -1) -> list[str]:
    """The names of those that were created. Raises SetupError for one that is missing and must not or cannot be
    created."""
    try:
        there = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
    except KafkaException as e:
        raise SetupError(f"expected the list of topics, but {reason(e)}.", "check the broker.") from None
    missing = [t for t in wanted if t.name not in there]
    if missing and not create:
        names = ", ".join(t.name for t in missing)
        raise SetupError(f"{names}: expected to exist, missing.", "create them, or leave out --no-create-topics.")
    if missing:
        _create(admin, missing, replication)
    return [t.name for t in missing]


def _create(admin: AdminClient, missing: list[TopicSpec], replication: int) -> None:
    new = [NewTopic(t.name, t.partitions, replication, config=t.config()) for t in missing]
    for name, future in admin.create_topics(new, operation_timeout=30).items():
        try:
            future.result()
        except KafkaException as e:
            if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SetupError(
                    f"{name}: expected to create the topic, but {reason(e)}.", "create it by hand."
                ) from None

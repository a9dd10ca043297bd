"""Creates and checks a job's topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

from moneystate.errors import BrokerError, RetentionError, SetupError
from moneystate.kafka.client import METADATA_TIMEOUT_S, NOT_ALLOWED, advice, reason
from moneystate.kafka.offsets import log_ends, topic_states

UP_S = 30.0  # until a new topic's partitions have their leaders
POLL_S = 0.05
MESSAGE_BYTES = "max.message.bytes"
TIMESTAMPS, BROKERS = "message.timestamp.type", "LogAppendTime"
BROKER_MESSAGE_BYTES = 1_048_588  # a broker's default
MAY_BE_HIDDEN = "A topic on which this user may do nothing is hidden, too (docs/security.md)."
COMPACT_AND_DELETE: Final = "compact,delete"
LONGEST_SEGMENT_MS: Final = 7 * 86_400_000  # a broker's default


@dataclass(frozen=True)
class TopicSpec:
    """A topic that a job needs."""

    name: str  # with prefix
    partitions: int
    compacted: bool = False  # keeps the last record of each key; otherwise records are kept by time
    keep_for_good: bool = False
    at_least: bool = False  # an existing topic must have this many partitions, or gets them
    exactly: bool = False  # an existing topic must have this many partitions
    message_bytes: int = 0  # least `max.message.bytes` that is accepted; 0: any
    bytes_advice: str = "raise it, or lower --max-record-bytes."  # if a topic accepts less
    broker_time: bool = False  # a new topic has the broker's timestamps
    needs_broker_time: bool = False  # an existing one must have them, too
    retention_ms: int = 0  # 0: the broker's default, unless `keep_for_good`
    any_time: bool = False  # a new topic takes timestamps of any time; by default a broker refuses those of the future

    def config(self) -> dict[str, str]:
        config: dict[str, str] = {}
        if self.compacted:
            config["cleanup.policy"] = COMPACT_AND_DELETE if self.retention_ms else "compact"
        if self.keep_for_good:
            config["retention.ms"] = "-1"
        if self.retention_ms:
            config["retention.ms"] = str(self.retention_ms)
            config["segment.ms"] = str(min(self.retention_ms, LONGEST_SEGMENT_MS))  # only whole segments are deleted
        if self.broker_time:
            config[TIMESTAMPS] = BROKERS
        if self.any_time:
            config["message.timestamp.after.max.ms"] = str(2**63 - 1)
        if self.message_bytes:
            config[MESSAGE_BYTES] = str(max(BROKER_MESSAGE_BYTES, self.message_bytes))
        return config


@dataclass(frozen=True)
class Replication:
    """Replication of topics that are created."""

    factor: int = 0  # 0: the broker's default
    min_insync: int = 0  # 0: the broker's default

    def config(self) -> dict[str, str]:
        return {"min.insync.replicas": str(self.min_insync)} if self.min_insync else {}


AS_THE_BROKER = Replication()


def partition_counts(admin: AdminClient) -> dict[str, int]:
    """The number of partitions of every topic. Raises BrokerError."""
    try:
        there = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
    except KafkaException as e:
        raise BrokerError(f"expected the list of topics, but {reason(e)}.", "check the broker.") from None
    return {name: len(topic.partitions) for name, topic in there.items()}


def check_topics(admin: AdminClient, wanted: list[TopicSpec], create: bool) -> list[TopicSpec]:
    """Returns the missing topics. Raises SetupError for a topic that may not be created or extended, and for one
    that does not accept the largest message."""
    there = partition_counts(admin)
    missing = _check(wanted, there, create)
    _check_sizes(admin, [t for t in wanted if t.message_bytes and t.name in there])
    check_timestamps(admin, [t.name for t in wanted if t.needs_broker_time and t.name in there])
    return missing


def check_timestamps(admin: AdminClient, names: list[str]) -> None:
    """Raises SetupError for a topic that does not have the broker's timestamps."""
    for name, settings in topic_settings(admin, names).items():
        kind = settings.get(TIMESTAMPS, BROKERS)
        if kind != BROKERS:
            raise SetupError(
                f"{name}: expected {TIMESTAMPS}={BROKERS}, as an input in arrival order needs it, found {kind}.",
                "change the topic's setting, or declare the input with a bound_ms that covers the way from its "
                "producers to the broker.",
            )


def _check_sizes(admin: AdminClient, wanted: list[TopicSpec]) -> None:
    settings = topic_settings(admin, [t.name for t in wanted])
    for t in wanted:
        limit = int(settings[t.name].get(MESSAGE_BYTES, t.message_bytes))
        if limit < t.message_bytes:
            raise SetupError(
                f"{t.name}: expected {MESSAGE_BYTES} of at least {t.message_bytes}, found {limit}: one large record "
                "would end what writes it.",
                t.bytes_advice,
            )


def topic_settings(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    """Settings by topic; empty for a topic whose settings this user may not read. Raises BrokerError."""
    if not names:
        return {}
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    settings: dict[str, dict[str, str]] = {}
    for resource, future in admin.describe_configs(wanted, request_timeout=METADATA_TIMEOUT_S).items():
        try:
            settings[resource.name] = {name: entry.value for name, entry in future.result().items()}
        except KafkaException as e:
            if e.args[0].code() not in NOT_ALLOWED:
                raise BrokerError(
                    f"{resource.name}: expected its settings, but {reason(e)}.", "check the broker."
                ) from None
            settings[resource.name] = {}
    return settings


def _is_compacted(settings: Mapping[str, str]) -> bool:
    return "compact" in settings.get("cleanup.policy", "").split(",")


def is_compacted(admin: AdminClient, name: str) -> bool:
    return _is_compacted(topic_settings(admin, [name])[name])


def check_not_compacted(admin: AdminClient, names: list[str]) -> None:
    """Raises RetentionError for a topic that may lose a record between two attempts at the same batch."""
    for name, settings in topic_settings(admin, names).items():
        if _is_compacted(settings):
            raise RetentionError(
                f"{name}: expected an input topic with cleanup.policy=delete, found {settings['cleanup.policy']}: a "
                "record that compaction takes between two attempts at a batch would make state and output differ.",
                "set its cleanup.policy to delete, or copy it to a topic that is not compacted.",
            )


def check_kept_for_good(admin: AdminClient, names: list[str]) -> None:
    """Raises RetentionError for a table's topic that loses rows: each worker reads it from its beginning."""
    for name, settings in topic_settings(admin, names).items():
        for setting in ("retention.ms", "retention.bytes"):
            if int(settings.get(setting, -1)) != -1:
                raise RetentionError(
                    f"{name}: expected a table's topic with {setting}=-1, found {settings[setting]}: it loses rows.",
                    f"set {setting}=-1, and load the table again if rows are gone already.",
                )


def _check(wanted: list[TopicSpec], there: dict[str, int], create: bool) -> list[TopicSpec]:
    missing = [t for t in wanted if t.name not in there]
    if missing and not create:
        names = ", ".join(t.name for t in missing)
        raise SetupError(
            f"{names}: expected to exist, missing.", f"create them, or leave out --no-create-topics. {MAY_BE_HIDDEN}"
        )
    for t in wanted:
        count = there.get(t.name, t.partitions)
        if t.exactly and count != t.partitions:
            raise SetupError(
                f"{t.name}: expected {t.partitions} partition{'s' * (t.partitions > 1)}, as its input declares, found "
                f"{count}.",
                "let its producer write to a topic of this many partitions.",
            )
    for t in _too_small(wanted, there):
        if not create:
            raise SetupError(
                f"{t.name}: expected at least {t.partitions} partitions, found {there[t.name]}.",
                "add partitions to it, or leave out --no-create-topics.",
            )
    return missing


def _too_small(wanted: list[TopicSpec], there: dict[str, int]) -> list[TopicSpec]:
    return [t for t in wanted if t.at_least and there.get(t.name, t.partitions) < t.partitions]


def ensure_topics(
    admin: AdminClient, wanted: list[TopicSpec], create: bool, replication: Replication = AS_THE_BROKER
) -> list[str]:
    """Creates missing topics and returns their names, once they can be read and written. Raises SetupError as
    `check_topics` does, and for a topic that cannot be created."""
    there = partition_counts(admin)
    missing = _check(wanted, there, create)
    if missing:
        _create(admin, missing, replication)
        _await(admin, [t.name for t in missing])
    _enlarge(admin, _too_small(wanted, there))
    return [t.name for t in missing]


def _await(admin: AdminClient, names: list[str], partitions: int = 0) -> None:
    """Waits until the broker knows a new topic, or its `partitions`, and all partitions have leaders. The controller
    knows earlier."""
    deadline = time.monotonic() + UP_S
    while True:
        try:
            states = topic_states(admin, names)
            if any(len(state.partitions) < partitions for state in states.values()):
                raise SetupError(
                    f"{names}: expected {partitions} partitions, found fewer.", "check that all brokers run."
                )
            log_ends(admin, [(name, p) for name in names for p in states[name].partitions])
            return
        except SetupError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)


def _enlarge(admin: AdminClient, small: list[TopicSpec]) -> None:
    for t in small:
        future = admin.create_partitions([NewPartitions(t.name, t.partitions)])[t.name]
        try:
            future.result()
        except KafkaException as e:
            raise SetupError(
                f"{t.name}: expected to add partitions up to {t.partitions}, but {reason(e)}.",
                advice(e.args[0], "add them by hand."),
            ) from None
        _await(admin, [t.name], t.partitions)


def check_creation(admin: AdminClient, missing: list[TopicSpec], replication: Replication = AS_THE_BROKER) -> None:
    """Asks the brokers whether they would create these topics. Nothing is created. Raises SetupError."""
    _create(admin, missing, replication, validate_only=True)


def _create(
    admin: AdminClient, missing: list[TopicSpec], replication: Replication, validate_only: bool = False
) -> None:
    config, factor = replication.config(), replication.factor or -1
    new = [NewTopic(t.name, t.partitions, factor, config={**t.config(), **config}) for t in missing]
    for name, future in admin.create_topics(new, operation_timeout=30, validate_only=validate_only).items():
        try:
            future.result()
        except KafkaException as e:
            if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SetupError(
                    f"{name}: expected to create the topic, but {reason(e)}.", advice(e.args[0], "create it by hand.")
                ) from None

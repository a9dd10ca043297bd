"""Kafka clients' settings, and their errors as ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from moneystate.engine.deadletter import PREFIX
from moneystate.engine.items import Header
from moneystate.errors import BrokerError
from moneystate.kafka.settings import refusal, resolved

Client = TypeVar("Client")

METADATA_TIMEOUT_S = 10.0  # a broker on the way up answers within a few seconds; longer only delays the message


def base_config(bootstrap_servers: str, extra: dict[str, str]) -> dict[str, Any]:
    """`extra`: librdkafka settings of the user (TLS, SASL), the same for all clients. Raises ConfigError."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 3,
        "topic.metadata.refresh.interval.ms": 60_000,
        **resolved(extra),
    }


def new_client(make: Callable[[dict[str, Any]], Client], config: dict[str, Any]) -> Client:
    """Every client is made here. Raises ConfigError for settings that librdkafka refuses."""
    try:
        return make(config)
    except (KafkaException, TypeError, ValueError) as e:
        raise refusal(reason(e), config) from None


def admin_client(bootstrap_servers: str, extra: dict[str, str]) -> AdminClient:
    return new_client(AdminClient, base_config(bootstrap_servers, extra))


def consumer_config(bootstrap_servers: str, extra: dict[str, str]) -> dict[str, Any]:
    """What all consumers have in common: a record that was damaged on the way or on a broker's disk is an error."""
    return {"check.crcs": True, **base_config(bootstrap_servers, extra)}


def range_consumer(bootstrap_servers: str, extra: dict[str, str], group: str, **more: Any) -> Consumer:
    """A consumer for given offsets: no group protocol, no commits of its own, no silent reset of a lost position."""
    return new_client(
        Consumer,
        {
            **consumer_config(bootstrap_servers, extra),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **more,
        },
    )


def check_reachable(bootstrap_servers: str, extra: dict[str, str]) -> None:
    """Raises BrokerError where no broker answers, ConfigError for settings that librdkafka refuses."""
    # the error says it all: librdkafka's own lines of each attempt would only stand beside it
    admin = admin_client(bootstrap_servers, {**extra, "log_level": "0"})
    try:
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    except KafkaException as e:
        raise BrokerError(
            f"{bootstrap_servers}: expected a Kafka broker, none answered within {METADATA_TIMEOUT_S:.0f} s "
            f"({reason(e)}).",
            "check --bootstrap-servers, and that the broker runs (moneystate kafka status).",
        ) from None


def reason(e: Exception) -> str:
    error = e.args[0]
    return str(error.str()) if hasattr(error, "str") else str(error)


def place(message: Message[bytes, bytes]) -> tuple[str, int, int]:
    """Topic, partition and offset, which a message that a consumer gives always has."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def headers_of(message: Any) -> list[Header]:
    """A record's headers; one that says why, where the client cannot give them: in Kafka a name is bytes, in Python's
    client it is a text."""
    try:
        return list(message.headers() or [])
    except (SystemError, UnicodeDecodeError):  # the former as long as the client forgets to return its error
        return [(PREFIX + "headers", b"left out: a name that is not UTF-8")]


MOVING = (  # a leader that is new, or of which not all know yet
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
# What a consumer is told while a broker starts, stops or hands over: the client goes on by itself. Errors that come
# with messages do not carry the flag `retriable`.
PASSING = (
    *MOVING,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)


def is_passing(error: KafkaError) -> bool:
    return not error.fatal() and (error.retriable() or error.code() in PASSING)


def is_end_of_partition(message: Message[bytes, bytes]) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF

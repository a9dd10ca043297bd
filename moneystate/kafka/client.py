"""Creates Kafka clients with the user's settings, and translates their errors."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from moneystate.engine.deadletter import PREFIX, Letter
from moneystate.engine.items import Header
from moneystate.errors import BrokerError
from moneystate.kafka.settings import refusal, resolved
from moneystate.log import LIBRDKAFKA, is_json, library_log

Client = TypeVar("Client")

NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)
NOT_ALLOWED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
CREATED_WITHIN_S = 180  # librdkafka itself gives its threads 60 s
METADATA_TIMEOUT_S = 10.0  # a broker on the way up answers within a few seconds; longer only delays the message


def base_config(bootstrap_servers: str, extra: dict[str, str]) -> dict[str, Any]:
    """The settings that all clients share. `extra`: the user's librdkafka settings (TLS, SASL). Raises ConfigError."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 3,
        "topic.metadata.refresh.interval.ms": 60_000,
        **resolved(extra),
    }


_stand_ins: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}


def stand_in(address: str, make: Callable[[Any, dict[str, Any]], Any] | None) -> None:
    """From now on, `make` creates the clients of the brokers at `address`. It gets the class of librdkafka's client and
    the settings. None: no longer."""
    if make is None:
        _stand_ins.pop(address, None)
    else:
        _stand_ins[address] = make


def new_client(make: Callable[[dict[str, Any]], Client], config: dict[str, Any]) -> Client:
    """Creates a client; every client is created here. Raises ConfigError for settings that librdkafka refuses."""
    other = _stand_ins.get(config.get("bootstrap.servers", ""))
    if other is not None:
        client: Client = other(make, config)
        return client
    if is_json():
        config = {**config, **_logging(make)}
    try:
        with _limited():
            return make(config)
    except (KafkaException, TypeError, ValueError) as e:
        raise refusal(reason(e), config) from None


class _Limit:
    """Limits the time that the creation of a client may take in this process. 0: no limit."""

    seconds = 0
    lock = threading.Lock()  # a process has one alarm


def limit_creation(seconds: int = CREATED_WITHIN_S) -> None:
    """From now on this process, and each that it forks, ends by SIGALRM if the creation of a client takes longer.

    Where a thread cannot get memory, librdkafka may wait for ever for it to end, and no other thread of Python runs
    meanwhile. Only the kernel can end that. It is for processes whose end another one notices and reports.
    """
    _Limit.seconds = seconds


@contextmanager
def _limited() -> Iterator[None]:
    if not _Limit.seconds:
        yield
        return
    with _Limit.lock:
        signal.alarm(_Limit.seconds)
        try:
            yield
        finally:
            signal.alarm(0)


def _logging(make: Any) -> dict[str, Any]:
    """librdkafka writes lines of its own form to stderr. Where JSON lines are expected, it gives them to a logger, in
    polls. Nobody polls an admin client; all that it does wrong is the error of a call."""
    return {"log_level": 0} if make is AdminClient else {"logger": library_log(LIBRDKAFKA)}


def admin_client(bootstrap_servers: str, extra: dict[str, str]) -> AdminClient:
    return new_client(AdminClient, base_config(bootstrap_servers, extra))


def consumer_config(bootstrap_servers: str, extra: dict[str, str]) -> dict[str, Any]:
    """The settings that all consumers share. A record that was damaged in transit or on a broker's disk is an error."""
    return {"check.crcs": True, **base_config(bootstrap_servers, extra)}


def range_consumer(bootstrap_servers: str, extra: dict[str, str], group: str, **more: Any) -> Consumer:
    """A consumer for given offsets. It joins no group, commits nothing, and never resets a lost position silently."""
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
    """Raises BrokerError if no broker answers or accepts this user, and ConfigError for settings that librdkafka
    refuses."""
    errors: list[KafkaError] = []
    # the error says it all; librdkafka would also log a line per attempt
    config = {**base_config(bootstrap_servers, {**extra, "log_level": "0"}), "error_cb": errors.append}
    admin = new_client(AdminClient, config)
    try:
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    except KafkaException as e:
        admin.poll(0)
        refused = next((error for error in errors if error.code() in NOT_LET_IN), None)
        if refused is not None:
            raise BrokerError(
                f"{bootstrap_servers}: expected to be let in, but {refused.str()}.",
                "check the settings of TLS and SASL (docs/security.md).",
            ) from None
        raise BrokerError(
            f"{bootstrap_servers}: expected a Kafka broker, none answered within {METADATA_TIMEOUT_S:.0f} s "
            f"({reason(e)}).",
            "check --bootstrap-servers, and that the broker runs (moneystate kafka status).",
        ) from None


def reason(e: Exception) -> str:
    error = e.args[0]
    return str(error.str()) if hasattr(error, "str") else str(error)


def advice(error: KafkaError, otherwise: str) -> str:
    """Returns what to do about an error: `otherwise`, unless a permission is missing."""
    if error.code() in NOT_ALLOWED:
        return "grant this user the permission: docs/security.md lists those of each command."
    return otherwise


def place(message: Message[bytes, bytes]) -> tuple[str, int, int]:
    """The topic, partition and offset of a message. Messages from a consumer always have them."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


# For such a name the client sets an error and still returns a result. CPython specializes the hot call `m.headers()`
# and then does not check for this, so the error appeared at a later place. `methodcaller` always checks.
_headers = methodcaller("headers")


def headers_of(message: Any) -> list[Header]:
    """The headers of a record. If the client cannot decode them, one header says why: in Kafka a name is bytes, in
    Python's client it is text."""
    try:
        return list(_headers(message) or [])
    except (SystemError, UnicodeDecodeError):  # the former as long as the client forgets to return its error
        return [(PREFIX + "headers", b"left out: a name that is not UTF-8")]


def letter_of(message: Any) -> Letter:
    """A record in the form that the engine reads with all its parts. `Any`: as in `moneystate.kafka.ranges`."""
    kind, timestamp = message.timestamp()
    place = (message.topic(), message.partition(), message.offset())
    return Letter(*place, timestamp if kind else -1, message.key(), message.value(), headers_of(message))


MOVING = (  # the leader is new, or not all brokers know it yet
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
# Errors that a consumer gets while a broker starts, stops or hands over. The client continues by itself. Errors that
# are delivered as messages do not have the flag `retriable`.
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


def is_passing_to_range(error: KafkaError) -> bool:
    """Whether a `range_consumer` may ignore the error. It joins no group, but librdkafka looks for a coordinator all
    the same. If this user may not ask for it, librdkafka reports that once and reads on."""
    return error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED or is_passing(error)


def is_end_of_partition(message: Message[bytes, bytes]) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF

"""The clock of a job with inputs in arrival order: the broker's time, taken from the acknowledgement of a record.

The clock topic has `message.timestamp.type=LogAppendTime`, so the broker that leads its partition writes the time. Each
record that a broker appends to another topic after this record was acknowledged has this time or a later one, as far as
the clocks of the brokers agree. A record that was appended before may still be on its way to the followers, and readers
see it only then. `skew_ms` covers both.
"""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from moneystate.errors import BrokerError, SetupError
from moneystate.kafka.client import METADATA_TIMEOUT_S, base_config, new_client, reason

ACKNOWLEDGED_S: Final = 10.0
SKEW_MS: Final = 50  # between the clocks of several brokers, unless the user says otherwise
BROKERS_EVERY_S: Final = 5.0  # a cluster may grow, and a broker may be away at the start
RETENTION_MS: Final = 3_600_000


class BrokerClock:
    """`topic`: with prefix. `skew_ms`: None: none with one broker, `SKEW_MS` with several."""

    def __init__(
        self, admin: AdminClient, bootstrap_servers: str, extra: dict[str, str], topic: str, skew_ms: int | None
    ) -> None:
        self.admin = admin
        self.topic = topic
        self.skew_ms = skew_ms
        self.brokers_at_s = float("-inf")  # when they were counted
        self.most_brokers = 0
        config = {
            **base_config(bootstrap_servers, extra),
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": int(ACKNOWLEDGED_S * 1000),
        }
        self.producer = new_client(Producer, config)
        self.latest_ms = 0
        self.taken_at_s = float("-inf")  # by this process's monotonic clock

    def time_ms(self) -> int:
        """A time (ms since 1970, less the skew) that everything written from now on has reached. It never goes back.
        Raises BrokerError, and SetupError for a topic whose timestamps are not the broker's."""
        self.taken_at_s = time.monotonic()
        acknowledged: list[tuple[KafkaError | None, tuple[int, int]]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            acknowledged.append((error, message.timestamp()))

        try:
            self.producer.produce(self.topic, b"", on_delivery=delivered)
            self.producer.flush(ACKNOWLEDGED_S)
        except KafkaException as e:
            raise self._unanswered(reason(e)) from None
        if not acknowledged:
            raise self._unanswered("no broker acknowledged it")
        error, (kind, timestamp_ms) = acknowledged[0]
        if error is not None:
            raise self._unanswered(error.str())
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            raise SetupError(
                f"{self.topic}: expected the broker's timestamps, found the producer's.",
                "set its message.timestamp.type to LogAppendTime.",
            )
        self.latest_ms = max(self.latest_ms, timestamp_ms - self._skew_ms())
        return self.latest_ms

    def _skew_ms(self) -> int:
        if self.skew_ms is not None:
            return self.skew_ms
        if self.taken_at_s - self.brokers_at_s >= BROKERS_EVERY_S:
            self.brokers_at_s = self.taken_at_s
            brokers = self.admin.list_topics(self.topic, METADATA_TIMEOUT_S).brokers
            self.most_brokers = max(self.most_brokers, len(brokers))
        return SKEW_MS if self.most_brokers > 1 else 0

    def _unanswered(self, why: str) -> BrokerError:
        return BrokerError(
            f"{self.topic}: expected to take the broker's time from a record, but {why}.",
            "check the brokers, and that the job may write to the topic.",
        )

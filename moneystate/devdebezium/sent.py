"""Waiting for transactions to be in Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from moneystate.errors import BrokerError

WITHIN_S: Final = 60.0
POLL_S: Final = 0.1


def await_sent(bootstrap_servers: str, prefix: str, ids: Iterable[str], within_s: float = WITHIN_S) -> None:
    """Returns once the connector with this prefix has sent the ends of these transactions of PostgreSQL.

    Raises BrokerError past the deadline.
    """
    left, deadline = set(ids), time.monotonic() + within_s
    settings = {"group.id": "moneystate-sent", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings})
    try:
        consumer.assign([TopicPartition(f"{prefix}.transaction", 0, OFFSET_BEGINNING)])
        while left:
            for message in consumer.consume(1_000, POLL_S):
                if message.error() is None:
                    left.discard(_ended(message.value()))
            if left and time.monotonic() > deadline:
                raise BrokerError(
                    f"{prefix}.transaction: expected the ends of all transactions within {within_s:.0f} s, "
                    f"{len(left)} are missing.",
                    "read the log of Kafka Connect.",
                )
    finally:
        consumer.close()


def _ended(value: bytes | None) -> str:
    """The id of the transaction whose end this is; empty: it is none."""
    event = json.loads(value or b"{}")
    id, _, _ = event.get("id", "").partition(":")
    return id if event.get("status") == "END" else ""

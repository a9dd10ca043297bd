"""Writes heartbeats into quiet partitions, so that they do not hold the watermark back. Time then advances by
records in the logs, which a replay sees, too.

A partition is quiet when its log has not grown for a while, and no transaction is open in it. Only observed time
counts: while no broker answered, records may have been on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from moneystate.engine.plan import ACTIVE, IDLE, Idleness
from moneystate.engine.processor import InputTopic
from moneystate.errors import BrokerError
from moneystate.kafka.client import reason
from moneystate.kafka.input_topics import input_topics
from moneystate.kafka.offsets import FullPartition, high_watermarks, log_ends

SENT_S = 10.0


class Heartbeats:
    """Watches topics (with prefix), and those of topic patterns."""

    def __init__(
        self, admin: AdminClient, producer: Producer, topics: Sequence[str], after_s: float,
        encode: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        self.admin = admin
        self.producer = producer
        self.topics = [InputTopic(code, name, True, 0) for code, name in enumerate(topics)]
        self.encode = encode  # turns a time in ms into a heartbeat in the topics' format
        self.idleness = Idleness(after_s)
        self.ends: dict[FullPartition, int] = {}

    def turn(self, now_s: float, time_ms: int) -> list[FullPartition]:
        """Checks all partitions, and writes a heartbeat with `time_ms` into each quiet one. `now_s`: a monotonic
        clock's time. Raises BrokerError."""
        try:
            quiet = self._quiet(now_s)
            if quiet:
                self._send(quiet, self.encode(time_ms))
        except BrokerError:
            self.idleness.failed()
            raise
        return quiet

    def _quiet(self, now_s: float) -> list[FullPartition]:
        states = input_topics(self.admin, self.topics, "")
        partitions = [(topic, p) for topic, state in states.items() for p in state.partitions]
        stable, ends = log_ends(self.admin, partitions), high_watermarks(self.admin, partitions)
        self.idleness.look(now_s)
        idle = []
        for tp in partitions:
            news = ends[tp] != self.ends.get(tp, ends[tp]) or stable[tp] < ends[tp]
            if self.idleness.state(tp, ACTIVE, news) == IDLE:
                idle.append(tp)
        self.ends = ends
        return idle

    def _send(self, quiet: Sequence[FullPartition], value: bytes) -> None:
        failures: list[str] = []

        def delivered(error: KafkaError | None, message: Message[Any, Any]) -> None:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if error is not None or topic is None or partition is None or offset is None:
                failures.append(str(error))
            elif offset == self.ends[topic, partition]:  # otherwise others have written meanwhile, and it is not quiet
                self.ends[topic, partition] = offset + 1

        try:
            for topic, partition in quiet:
                self.producer.produce(topic, value, partition=partition, on_delivery=delivered)
                self.idleness.quiet_s[topic, partition] = 0.0
            left = self.producer.flush(SENT_S)
        except KafkaException as e:
            raise BrokerError(f"expected to write a heartbeat, but {reason(e)}.", "check the broker.") from None
        if left or failures:
            why = failures[0] if failures else "the broker does not answer"
            raise BrokerError(f"expected to write a heartbeat, but {why}.", "check the broker and the rights.")

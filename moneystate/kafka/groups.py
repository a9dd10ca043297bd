"""A job's progress as a consumer group's offsets, so that ordinary lag tools see it. Nothing reads them back."""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, KafkaException, TopicPartition

from moneystate.engine.plan import Plan
from moneystate.kafka.client import range_consumer


class GroupProgress:
    def __init__(self, bootstrap_servers: str, extra: dict[str, str], group: str, topic_prefix: str) -> None:
        self.consumer: Consumer = range_consumer(bootstrap_servers, extra, group)
        self.topic_prefix = topic_prefix

    def commit(self, plan: Plan) -> None:
        """In the background: a lag tool that is a batch behind harms nobody, a batch that waits for it does."""
        offsets = [TopicPartition(self.topic_prefix + t, p, planned.end) for (t, p), planned in plan.partitions.items()]
        with contextlib.suppress(KafkaException):
            self.consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        self.consumer.close()

"""Publishes a job's progress as consumer group offsets, for ordinary lag tools.

Jobs do not resume from them. They show with which topic prefixes an application id was used recently.
"""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from moneystate.engine.plan import Plan
from moneystate.kafka.client import METADATA_TIMEOUT_S, admin_client, range_consumer


class GroupProgress:
    def __init__(self, bootstrap_servers: str, extra: dict[str, str], group: str, topic_prefix: str) -> None:
        self.consumer: Consumer = range_consumer(bootstrap_servers, extra, group)
        self.topic_prefix = topic_prefix

    def commit(self, plan: Plan) -> None:
        """Commits in the background: a lag tool may be a batch behind, but no batch should wait for it."""
        offsets = [TopicPartition(self.topic_prefix + t, p, planned.end) for (t, p), planned in plan.partitions.items()]
        with contextlib.suppress(KafkaException):
            self.consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        self.consumer.close()


def other_prefixes(
    bootstrap_servers: str, extra: dict[str, str], group: str, inputs: list[str], topic_prefix: str
) -> list[str]:
    """The topic prefixes besides `topic_prefix` whose `inputs` have offsets in the group; empty if the broker does
    not say."""
    admin = admin_client(bootstrap_servers, extra)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=METADATA_TIMEOUT_S)
    try:
        offsets = asked[group].result().topic_partitions
    except KafkaException:
        return []
    prefixes = {tp.topic.removesuffix(name) for tp in offsets for name in inputs if tp.topic.endswith(name)}
    return sorted(prefixes - {topic_prefix})

"""Asks the broker for the topics that a job's inputs read."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from moneystate.engine.inputs import Inputs
from moneystate.engine.processor import InputTopic
from moneystate.kafka.offsets import TopicState, existing_states, topic_states
from moneystate.kafka.topics import partition_counts


def input_topics(admin: AdminClient, inputs: Iterable[InputTopic], prefix: str) -> dict[str, TopicState]:
    """Returns, by names without prefix, the topic of each named input, and those of patterns that exist now. Raises
    SetupError for a named topic that does not exist, and BrokerError."""
    known = Inputs(inputs)
    states = topic_states(admin, [prefix + name for name in known.named])
    states |= existing_states(admin, [prefix + name for name in matching(admin, known, prefix)])
    return {topic.removeprefix(prefix): state for topic, state in states.items()}


def with_replies_that_exist(admin: AdminClient, inputs: Iterable[InputTopic], prefix: str) -> list[InputTopic]:
    """Returns the inputs without those of replies whose topic does not exist: no run has created it, so nobody has
    replied. Raises BrokerError."""
    known = list(inputs)
    there = existing_states(admin, [prefix + t.name for t in known if not t.ordered])
    return [t for t in known if t.ordered or prefix + t.name in there]


def matching(admin: AdminClient, inputs: Inputs, prefix: str) -> list[str]:
    """The topics of the patterns that exist now, without prefix. Raises BrokerError."""
    if not inputs.patterns:
        return []
    there = partition_counts(admin)
    return inputs.matching(topic.removeprefix(prefix) for topic in there if topic.startswith(prefix))

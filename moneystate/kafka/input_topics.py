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
    return _states(admin, known, known.named, prefix)


def topics_at_start(admin: AdminClient, inputs: Iterable[InputTopic], prefix: str) -> dict[str, TopicState]:
    """Works like `input_topics`, but a topic of replies may be missing: no run has created it yet."""
    known = Inputs(inputs)
    replies = [prefix + name for name, t in known.named.items() if not t.ordered]
    there = [topic.removeprefix(prefix) for topic in existing_states(admin, replies)]
    return _states(admin, known, known.named_among(there), prefix)


def _states(admin: AdminClient, known: Inputs, named: Iterable[str], prefix: str) -> dict[str, TopicState]:
    states = topic_states(admin, [prefix + name for name in named])
    states |= existing_states(admin, [prefix + name for name in matching(admin, known, prefix)])
    return {topic.removeprefix(prefix): state for topic, state in states.items()}


def matching(admin: AdminClient, inputs: Inputs, prefix: str) -> list[str]:
    """The topics of the patterns that exist now, without prefix. Raises BrokerError."""
    if not inputs.patterns:
        return []
    there = partition_counts(admin)
    return inputs.matching(topic.removeprefix(prefix) for topic in there if topic.startswith(prefix))

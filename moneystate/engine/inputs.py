"""The inputs of a job by the names of their topics.

An input whose name has a `*` is a topic pattern: it reads every topic of a matching name, also those that are created
while the job runs. `*` stands for any characters of a topic's name. A topic belongs to the input of its own name if
there is one, else to the first pattern that matches it.

In the total order a partition is a number. It must not depend on when a topic was found. So for a topic of a pattern
it is made from the topic's name:

    number = hash << 20 | partition        hash: the first 40 bits of the SHA-256 of the name without prefix

In the order, topics of one pattern are therefore like partitions of one topic.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from moneystate.engine.order import Partition
from moneystate.engine.plan import TopicPartition
from moneystate.engine.processor import InputTopic

WILDCARD: Final = "*"
PARTITION_BITS: Final = 20  # Kafka's limit is lower
HASH_BYTES: Final = 5
NOT_LOADED: Final = 1 << 62  # the first load goes on
INTERNAL: Final = "__"  # Kafka's own topics begin with it


def is_pattern(name: str) -> bool:
    return WILDCARD in name


def matches(pattern: str, topic: str) -> bool:
    """Whether an input of the name `pattern`, which need not be a pattern, reads the topic."""
    parts = [re.escape(part) for part in pattern.split(WILDCARD)]
    return re.fullmatch(".*".join(parts), topic) is not None


def hash_of(topic: str) -> int:
    """The number of the first partition of a topic of a pattern."""
    return int.from_bytes(hashlib.sha256(topic.encode()).digest()[:HASH_BYTES], "big") << PARTITION_BITS


def partition_in(number: int) -> int:
    """The partition of a topic of a pattern, from its number in the order."""
    return number & ((1 << PARTITION_BITS) - 1)


def place_text(tp: TopicPartition) -> str:
    return f"{tp[0]}/{tp[1]}"


def parse_place(text: str) -> TopicPartition:
    """The inverse of `place_text`."""
    topic, _, partition = text.rpartition("/")
    return topic, int(partition)


class Inputs:
    """Topics are without prefix."""

    def __init__(self, inputs: Iterable[InputTopic]) -> None:
        every = list(inputs)
        self.named = {t.name: t for t in every if not is_pattern(t.name)}
        self.patterns = [t for t in every if is_pattern(t.name)]
        self.known: dict[str, InputTopic | None] = {}

    def named_among(self, existing: Iterable[str]) -> list[str]:
        """The topics of the named inputs. One of replies may be missing in `existing`: then nobody has replied."""
        there = set(existing)
        return [name for name, t in self.named.items() if t.ordered or name in there]

    def of(self, topic: str) -> InputTopic | None:
        """The input that reads a topic; None: no input does."""
        named = self.named.get(topic)
        if named is not None:
            return named
        if topic not in self.known:
            self.known[topic] = next((t for t in self.patterns if matches(t.name, topic)), None)
        return self.known[topic]

    def first(self, topic: str) -> Partition:
        """The place of a topic's partition 0 in the order. Raises KeyError if no input reads the topic."""
        known = self.of(topic)
        if known is None:
            raise KeyError(topic)
        return known.code, hash_of(topic) if self.is_of_pattern(topic) else 0

    def is_of_pattern(self, topic: str) -> bool:
        return topic not in self.named and self.of(topic) is not None

    def name(self, topic: str) -> bytes:
        """Returns what items carry as the name of the topic: nothing, unless it is of a pattern."""
        return topic.encode() if self.is_of_pattern(topic) else b""

    def place(self, tp: TopicPartition) -> Partition:
        """The place of a partition in the order. Raises KeyError if no input reads the topic."""
        code, first = self.first(tp[0])
        return code, first + tp[1]

    def is_table(self, topic: str) -> bool:
        known = self.of(topic)
        return known is not None and known.table

    def loaded(self, topic: str, planned: int | None) -> int:
        """The offset before which a topic's records are a table's first load, from what the plan has of a partition; 0:
        it has no first load."""
        known = self.of(topic)
        if known is None or not known.waits:
            return 0
        return NOT_LOADED if planned is None else planned

    def names(self, partitions: Iterable[TopicPartition]) -> dict[Partition, TopicPartition]:
        """Returns the partitions that an input reads, by their places in the order."""
        return {self.place(tp): tp for tp in partitions if self.of(tp[0])}

    def matching(self, existing: Iterable[str]) -> list[str]:
        """The topics of the patterns, of those that exist."""
        return sorted(t for t in existing if not t.startswith(INTERNAL) and t not in self.named and self.of(t))

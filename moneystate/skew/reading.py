"""Reads the sample from Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moneystate.engine.processor import Rejected
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import FullPartition, log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.skew.key_fields import Keys
from moneystate.skew.loads import Load, Sample
from moneystate.skew.slices import slices


class Topic(NamedTuple):
    """A topic's logs at one moment: the first offset and the end of each partition."""

    name: str  # with its prefix
    logs: Mapping[FullPartition, tuple[int, int]]

    def load(self) -> Load:
        """Returns the load of each partition in offsets. Offsets without a record count, too."""
        return Load(tuple(end - start for _, (start, end) in sorted(self.logs.items())))


def look_at(bootstrap_servers: str, extra: dict[str, str], topic: str) -> Topic:
    """Raises SetupError if there is no such topic, and BrokerError."""
    admin = admin_client(bootstrap_servers, extra)
    partitions = [(topic, p) for p in topic_states(admin, [topic])[topic].partitions]
    starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
    return Topic(topic, {tp: (starts[tp], max(starts[tp], ends[tp])) for tp in partitions})


def read_sample(
    bootstrap_servers: str,
    extra: dict[str, str],
    topic: Topic,
    keys: Keys,
    wanted: int,
    on_progress: Callable[[int, int], None],
) -> Sample:
    """About `wanted` records of all partitions. `on_progress` gets done and total records. Raises BrokerError."""
    rounds = slices(topic.logs, wanted)
    total = sum(_size(ranges) for ranges in rounds)
    sample, before = Sample(), 0
    reader = RangeReader(bootstrap_servers, extra, f"{topic.name}-skew", len(topic.logs))
    try:
        for ranges in rounds:
            for message in reader.read(ranges):
                try:
                    sample.add(keys(message.key(), message.value()))
                except Rejected:
                    sample.add_undecodable()
                on_progress(sample.records, total)
            before += _size(ranges)
            on_progress(before, total)
    finally:
        reader.consumer.close()
    return sample


def _size(ranges: list[Range]) -> int:
    return sum(r.end - r.start for r in ranges)

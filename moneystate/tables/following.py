"""Reads a table's topic into the digests, up to its present end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from moneystate.errors import RetentionError
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import high_watermarks, log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.tables.digests import Digests, Position, Seen

CHUNK: Final = 10_000  # records that are taken together

Progress = Callable[[int, int], object]  # done, total


class Follower:
    """Keeps the digests of one topic (with prefix) up to date."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str, digests: Digests) -> None:
        self.topic = topic
        self.digests = digests
        self._admin: AdminClient = admin_client(bootstrap_servers, extra)
        self._reader = RangeReader(bootstrap_servers, extra, f"{topic}-loader")

    def catch_up(self, progress: Progress, waits: bool) -> None:
        """`waits`: for transactions whose end readers do not see yet. A commit returns before that. Raises
        RetentionError if the log has lost records, and BrokerError."""
        topic = topic_states(self._admin, [self.topic])[self.topic]
        topic_id, ends = topic.topic_id, self._ends(topic.partitions, waits)
        positions = self._positions(topic_id, ends)
        ranges = [Range(self.topic, p, positions[p].offset, end) for p, end in ends.items()]
        total, done = sum(r.end - r.start for r in ranges), 0
        messages = self._reader.read(ranges)
        while chunk := list(islice(messages, CHUNK)):
            self.digests.take(topic_id, list(_seen(chunk, positions)), positions)
            done += len(chunk)
            progress(done, total)
        # what is not a record, such as the end of a transaction, has offsets, too
        self.digests.take(topic_id, [], {p: Position(end, positions[p].high_ms) for p, end in ends.items()})

    def close(self) -> None:
        self._reader.consumer.close()

    def _ends(self, numbers: Iterable[int], waits: bool) -> dict[int, int]:
        partitions = [(self.topic, p) for p in numbers]
        starts = log_starts(self._admin, partitions)
        lost = [tp for tp, start in starts.items() if start > 0]
        if lost:
            topic, partition = lost[0]
            raise RetentionError(
                f"{topic}, partition {partition}: expected all records since the beginning, the log begins at offset "
                f"{starts[lost[0]]}.",
                "load the table into a new topic without retention.",
            )
        ends = high_watermarks(self._admin, partitions) if waits else log_ends(self._admin, partitions)
        return {p: end for (_, p), end in ends.items()}

    def _positions(self, topic_id: str, ends: dict[int, int]) -> dict[int, Position]:
        """Returns where to read on: from the beginning if the topic was made again, or has lost its end."""
        known = self.digests.positions(topic_id)
        if not known or any(position.offset > ends.get(p, 0) for p, position in known.items()):
            self.digests.clear()
            known = {}
        return {p: known.get(p, Position(0, 0)) for p in ends}


def _seen(messages: list[Any], positions: dict[int, Position]) -> Iterator[Seen]:
    """The rows among the records. Records without a key are those of the platform. Moves the positions on."""
    for message in messages:
        partition = message.partition()
        high_ms = max(positions[partition].high_ms, message.timestamp()[1])
        positions[partition] = Position(message.offset() + 1, high_ms)
        key = message.key()
        if key is not None:
            yield Seen(key, message.value(), high_ms, partition)

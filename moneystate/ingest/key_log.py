"""Reads the key partitions: what their keys were answered, as far as that is still kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from moneystate.errors import SetupError
from moneystate.ingest.keys import DIGEST_BYTES, Kept, decode, partition_of
from moneystate.kafka.offsets import log_ends, log_starts, offsets_at
from moneystate.kafka.ranges import Range, RangeReader

SKEW_MS: Final = 300_000  # between the clocks of the processes
GROUP: Final = "moneystate-ingest"


class Tail(NamedTuple):
    """The records of a key partition from a position on."""

    entries: list[tuple[bytes, Kept]]
    end: int  # the position after them


class KeyLog:
    """The topic of the keys. Its calls wait for Kafka, and belong to threads."""

    def __init__(self, admin: AdminClient, servers: str, extra: dict[str, str], topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._admin = admin
        self._reader = RangeReader(servers, extra, GROUP)
        self._lock = threading.Lock()  # it is one consumer

    def tail(self, partition: int, position: int | None, kept_since_ms: int) -> Tail:
        """The committed records from `position` on; None: those that are kept. Raises BrokerError, and SetupError for a
        topic that has been given more partitions."""
        with self._lock:
            place = (self.topic, partition)
            if position is None:
                start = offsets_at(self._admin, [place], kept_since_ms - SKEW_MS)[place]
            else:
                start = position
            start = max(start, log_starts(self._admin, [place])[place])
            end = max(start, log_ends(self._admin, [place])[place])
            return Tail(list(self._entries(partition, start, end)), end)

    def _entries(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes, Kept]]:
        for message in self._reader.read([Range(self.topic, partition, start, end)]):
            digest = message.key() or b""
            entry = decode(self.topic, message.value() or b"", message.timestamp()[1])
            if len(digest) != DIGEST_BYTES or partition_of(digest, self.partitions) != partition:
                raise SetupError(
                    f"{self.topic}: expected {self.partitions} partitions for as long as keys are kept, but its keys "
                    "were written for another number.",
                    "do not add partitions to it; start with another --topic-prefix, or wait until its keys are over.",
                )
            yield digest, entry

    def close(self) -> None:
        self._reader.consumer.close()

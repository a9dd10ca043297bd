"""Reads the markers in the compacted commits topic (`moneystate.engine.marker` explains them)."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from moneystate.engine.marker import CLAIM, FENCED, Claim, Marker, decode, decode_claim
from moneystate.errors import BrokerError, MarkerError
from moneystate.kafka.client import (
    admin_client,
    advice,
    is_end_of_partition,
    is_passing_to_range,
    place,
    range_consumer,
    reason,
)
from moneystate.kafka.offsets import high_watermark, log_ends, log_starts, topic_states

POLL_S = 0.05
END_AFTER_MS = 2  # so long the broker keeps a reader waiting at the end of the log before it tells of it
STALL_S = 90.0  # how long to wait for another application's open transaction before ending with an error


class MarkerLog:
    """The commits topic, up to where it has been read. `read` continues from there, so reading in every batch is
    cheap. Between two reads nothing is fetched: a consumer that waits for new records asks the broker all the time."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str) -> None:
        self.topic = topic
        self.admin = admin_client(bootstrap_servers, extra)
        self.consumer: Consumer = range_consumer(
            bootstrap_servers, extra, "moneystate-markers", **{"fetch.wait.max.ms": END_AFTER_MS}
        )
        self.positions: dict[int, int] = {}
        self.markers: dict[bytes, Marker] = {}
        self.claims: dict[bytes, Claim] = {}  # by `claim_key` and `fenced_key`

    def read(self) -> dict[bytes, Marker]:
        """All markers that are committed now, by key, except those behind an open transaction."""
        self._find_starts()
        self._read_to(
            {p: end for (_, p), end in log_ends(self.admin, [(self.topic, p) for p in self.positions]).items()}
        )
        return self.markers

    def read_whole(self, partition: int) -> dict[bytes, Marker]:
        """Works like `read`, but for `partition` up to the end of the log, waiting for open transactions there.

        Only other applications that share the topic can have one open: after `init_transactions` this application has
        none. Raises MarkerError if the topic lacks the partition.
        """
        self._find_starts()
        if partition not in self.positions:
            raise MarkerError(
                f"{self.topic}: expected a partition for each output partition, found {len(self.positions)}.",
                "add partitions to it.",
            )
        self._read_to({partition: high_watermark(self.admin, self.topic, partition)})
        return self.markers

    def _find_starts(self) -> None:
        if not self.positions:
            partitions = topic_states(self.admin, [self.topic])[self.topic].partitions
            starts = log_starts(self.admin, [(self.topic, p) for p in partitions])
            self.positions = {p: offset for (_, p), offset in starts.items()}

    def _read_to(self, ends: dict[int, int]) -> None:
        behind = [p for p, end in ends.items() if self.positions[p] < end]
        if not behind:
            return
        self.consumer.assign([TopicPartition(self.topic, p, self.positions[p]) for p in behind])
        try:
            self._poll_to(ends)
        finally:
            self.consumer.unassign()

    def _poll_to(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + STALL_S
        while any(self.positions[p] < end for p, end in ends.items()):
            message = self.consumer.poll(POLL_S)
            if message is not None:
                self._take(message)
            elif time.monotonic() > deadline:
                raise BrokerError(
                    f"{self.topic}: expected to read the markers, waited for {STALL_S:.0f} s.",
                    "check the broker, and for transactions that hang there.",
                )

    def _take(self, message: Message[bytes, bytes]) -> None:
        error = message.error()
        if error is None:
            _, partition, offset = place(message)
            self._keep(message.key() or b"", message.value())
            self.positions[partition] = offset + 1
        elif is_end_of_partition(message):
            _, partition, offset = place(message)
            self.positions[partition] = offset
        elif not is_passing_to_range(error):
            raise BrokerError(
                f"{self.topic}: expected to read the markers, but {reason(KafkaException(error))}.",
                advice(error, "check the broker."),
            )

    def _keep(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.markers.pop(key, None)
            self.claims.pop(key, None)
            return
        try:
            if key.endswith((CLAIM, FENCED)):
                self.claims[key] = decode_claim(value)
            else:
                self.markers[key] = decode(value)
        except (ValueError, KeyError, TypeError):
            raise MarkerError(
                f"{self.topic}: expected a marker under the key {key!r}, found {value[:80]!r}.",
                "see who else writes to this topic.",
            ) from None

    def close(self) -> None:
        self.consumer.close()


def read_markers(bootstrap_servers: str, extra: dict[str, str], topic: str) -> dict[bytes, Marker]:
    """All committed markers, read once."""
    log = MarkerLog(bootstrap_servers, extra, topic)
    try:
        return dict(log.read())
    finally:
        log.close()


def final_markers(
    bootstrap_servers: str, extra: dict[str, str], topic: str, partitions: Iterable[int]
) -> dict[bytes, Marker]:
    """The markers of output partitions that the caller has claimed. An open transaction of another application does
    not hide them."""
    log = MarkerLog(bootstrap_servers, extra, topic)
    try:
        for partition in partitions:
            log.read_whole(partition)
        return dict(log.markers)
    finally:
        log.close()

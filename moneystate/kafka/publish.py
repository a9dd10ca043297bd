"""Publishes the initial state of a new checkpoint to the changelog, before its first batch.

Replicas and other readers of the changelog know only what it contains. So a checkpoint that starts with state (a
savepoint), or takes over from another checkpoint, first rewrites the changelog with its own state:

1. Each output partition's producer starts as for a batch (`moneystate.kafka.sink`, steps 1 to 3). Every job that wrote
   before is fenced (`moneystate.kafka.claims`), also in output partitions that this job does not have.
2. Tombstones for every key in the changelog that is not in the state, or that belongs to another partition.
3. Outputs that belong to the state, in transactions of bounded size. Each transaction records in the commits topic,
   under the key `<marker's key>/before`, how many outputs are written. After a crash the next run continues behind
   them, exactly once.
4. All entries of the state, in transactions of bounded size. After a crash they are written again, which changes
   nothing.
5. The last transaction also has the end-of-batch record of batch -1, and the marker of batch 0 with the digest of the
   offset at which the checkpoint starts. A run that finds this marker writes nothing
   (`moneystate.engine.marker.decide`).

Steps 2 to 5 process one output partition after the other, each with the keys of its own key groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException

from moneystate.engine import keys
from moneystate.engine.items import NO_TIME, Output
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.marker import BEFORE_FIRST_BATCH, Decision, Marker, marker_key
from moneystate.engine.processor import Convert
from moneystate.kafka.client import admin_client
from moneystate.kafka.convert import converted
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.offsets import high_watermark, log_starts
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.sink import CALL_S, BatchId, PartitionSink, SinkConfig, marker_log

PART_RECORDS = 50_000  # in one transaction: about 100 ms of work
PART_BYTES = 32 * 1024 * 1024

Entry = tuple[bytes, bytes]


class InitialState(Protocol):
    """The state that a checkpoint starts with. `watermark`: in ms, NO_TIME before the first event."""

    @property
    def watermark(self) -> int: ...

    def entries(self, group: int) -> Iterable[Entry]:
        """A key group's entries for the changelog."""
        ...

    def outputs(self, group: int) -> Iterable[Output]:
        """A key group's records for the output topics. Every call returns the same records in the same order."""
        ...


class EmptyInitialState:
    """The initial state of a checkpoint that takes over from another one without its state."""

    watermark = NO_TIME

    def entries(self, group: int) -> Iterable[Entry]:
        return ()

    def outputs(self, group: int) -> Iterable[Output]:
        return ()


class SplitTransactionSink(PartitionSink):
    """The transactions of one output partition, split before they become too large. `done`: number of outputs
    written by this and earlier attempts."""

    def __init__(self, config: SinkConfig, partition: int, batch: BatchId, part_records: int) -> None:
        super().__init__(config, partition)
        self.batch = batch
        self.part_records = part_records
        self.done = 0
        self.records = 0
        self.bytes = 0
        self.parts = 0
        self.note_key = marker_key(config.application_id, partition) + b"/before"

    def begin(self) -> Decision:
        decision = self.open(self.batch)
        note = marker_log(self.config).markers.get(self.note_key)
        if note is not None and (note.epoch, note.digest) == (self.batch.epoch, self.batch.end):
            self.done = note.next_batch
        return decision

    def remove(self, key: bytes, changelog_partition: int) -> None:
        assert self.config.changelog is not None
        self._produce(self.config.changelog, key, None, partition=changelog_partition)
        self.count(len(key))

    def count(self, size: int) -> None:
        """Counts a written record of `size` bytes, and begins a new transaction if this one is large enough."""
        self.records += 1
        self.bytes += size
        if self.records >= self.part_records or self.bytes >= PART_BYTES:
            self._next_part()

    def _next_part(self) -> None:
        assert self.producer is not None
        note = Marker(self.batch.epoch, self.done, self.batch.end)
        self._produce(self.config.commits, self.note_key, note.encode(), partition=self.partition)
        try:
            self.producer.commit_transaction(CALL_S)
            self.begun_s = time.monotonic()
            self.producer.begin_transaction()
        except KafkaException as e:
            raise self._failed("to commit a transaction", e) from None
        self.records = self.bytes = 0
        self.parts += 1
        failpoint(f"part {self.parts}", self.batch.number)


class Stale(NamedTuple):
    """A key that has a value in a partition of the changelog where it no longer belongs, with its current key group."""

    partition: int
    group: int
    key: bytes


class Publisher:
    """Writes the initial state into the changelog."""

    def __init__(
        self,
        config: SinkConfig,
        partitions: int,
        epoch: str,
        start: str,  # digest of the offset that the checkpoint begins at
        content: InitialState,
        owner: Callable[[bytes], bytes | None],
        convert: dict[int, Convert],
        on_progress: Callable[[int], None],
        part_records: int = PART_RECORDS,
    ) -> None:
        self.config = config
        self.partitions = partitions
        self.batch = BatchId(epoch, BEFORE_FIRST_BATCH, "", start)
        self.content = content
        self.owner = owner  # returns the key, as key groups see it, that an entry belongs to
        self.convert = convert  # of streams that are not written as Avro
        self.on_progress = on_progress  # called with the number of entries written
        self.part_records = part_records
        self.written = 0

    def run(self) -> None:
        """Publishes the whole state, continuing where an earlier attempt stopped. Raises MarkerError, BrokerError."""
        sinks = [SplitTransactionSink(self.config, p, self.batch, self.part_records) for p in range(self.partitions)]
        todo = [sink for sink in sinks if sink.begin() is Decision.WRITE]
        if not todo:
            return
        stale = self._stale()
        for sink in todo:
            self._remove(sink, stale)
            self._outputs(sink)
            self._entries(sink)
            if self._groups(sink):
                sink.mark(self.content.watermark, self.convert)
            sink.end_changelog(self.batch, self.content.watermark, self._groups(sink))
            sink.commit(self.batch)
            sink.abort()

    def _groups(self, sink: SplitTransactionSink) -> list[int]:
        return list(range(sink.partition, self.config.key_groups, self.partitions))

    # Step 2

    def _stale(self) -> list[Stale]:
        """Keys in the changelog that do not belong where they are."""
        c = self.config
        assert c.changelog is not None
        admin = admin_client(c.bootstrap_servers, c.extra)
        stale: list[Stale] = []
        for to in range(c.changelog_partitions):
            first = log_starts(admin, [(c.changelog, to)])[c.changelog, to]
            end = high_watermark(admin, c.changelog, to)
            if end > first:
                keys = self._others(Range(c.changelog, to, first, end))
                stale.extend([Stale(to, self._group_of(key), key) for key in keys])
        return stale

    def _group_of(self, key: bytes) -> int:
        owner = self.owner(key)
        return 0 if owner is None else key_group_of(owner, self.config.key_groups)

    def _others(self, whole: Range) -> list[bytes]:
        """The keys that have a value in a partition of the changelog and do not belong there."""
        c = self.config
        known = {
            hash(key)
            for group in range(whole.partition, c.key_groups, c.changelog_partitions)
            for key, _ in self.content.entries(group)
        }
        known.update(hash(c.end_key(p)) for p in range(self.partitions))
        others: dict[bytes, None] = {}
        reader = RangeReader(c.bootstrap_servers, c.extra, c.application_id)
        try:
            for message in reader.read([whole]):
                key = message.key() or b""
                if hash(key) in known or (key.startswith(keys.END) and not key.startswith(c.end_key(0)[:-1])):
                    continue
                if message.value() is None:
                    others.pop(key, None)
                else:
                    others[key] = None
        finally:
            reader.consumer.close()
        return list(others)

    def _remove(self, sink: SplitTransactionSink, stale: list[Stale]) -> None:
        for one in stale:
            if one.group % self.partitions == sink.partition:
                sink.remove(one.key, one.partition)

    # Steps 3 and 4

    def _outputs(self, sink: SplitTransactionSink) -> None:
        for n, output in enumerate(self._all_outputs(sink)):
            if n >= sink.done:
                sink.write([converted(output, self.convert)])
                sink.done = n + 1
                sink.count(len(output[1] or b"") + len(output[2] or b""))

    def _all_outputs(self, sink: SplitTransactionSink) -> Iterator[Output]:
        for group in self._groups(sink):
            yield from self.content.outputs(group)

    def _entries(self, sink: SplitTransactionSink) -> None:
        for group in self._groups(sink):
            for key, value in self.content.entries(group):
                sink.write_changes(group, [(key, value)])
                sink.count(len(key) + len(value))
                self.written += 1
            self.on_progress(self.written)

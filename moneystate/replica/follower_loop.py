"""The follower's loop over open files, step by step (`moneystate.replica.follower` gives the overview)."""

from __future__ import annotations

import time
from typing import Final

from rocksdict import WriteBatch

from moneystate.engine import keys
from moneystate.replica.applying import Applier
from moneystate.replica.files import Rebuild
from moneystate.replica.loading import FirstLoad
from moneystate.replica.log import Changelog, ChangelogConsumer, LogEndMonitor, Message, Options, Topics
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.shared_status import SharedStatus, SharedStatusFile
from moneystate.replica.store import Store
from moneystate.replica.throttle import WriteThrottle
from moneystate.replica.transaction_assembler import (
    UNUSABLE,
    BatchSlice,
    TransactionAssembler,
    UnusableRecord,
    key_of,
    read_end,
)

ALIVE_MS: Final = 30_000  # how often the files record that the follower was up to date
SWEEP_S: Final = 0.25
QUIESCENCE_CHECK_S: Final = 0.5
MAX_PENDING_CHANGES: Final = 500_000  # changes, some 300 MB


class FollowerLoop:
    def __init__(
        self, options: Options, topics: Topics, changelog: Changelog, store: Store, shared: SharedStatusFile
    ) -> None:
        self.topics = topics
        self.begin = changelog
        self.store = store
        self.shared = shared
        self.assembler = TransactionAssembler(store.record.groups, store.record.partitions, store.model)
        self.sweep = RetentionSweep(store, RetentionPolicy(options.history_ms, options.history_versions))
        self.sweep_at = self.quiescence_check_at = 0.0
        self.load = None if not store.record.loading else FirstLoad(store, changelog)
        self.current_as_of_ms = store.record.alive_ms
        self.caught_up = False
        self.lag_records = 0
        store.wrote = self._tell
        self.applier = Applier(store)
        self.throttle = WriteThrottle()
        self.applier.more_to_come = self.throttle.pause
        self.stream = ChangelogConsumer(
            options, topics, {int(p): offset for p, offset in store.record.positions.items()}
        )
        self.ends = LogEndMonitor(topics, changelog)

    def step(self) -> None:
        """Reads available records, after a short wait. Raises Rebuild, BrokerError, SetupError."""
        changes = self.stream.read()
        if self.load is not None:
            self._load(self.load, changes)
        else:
            for message in changes:
                self._take(message)
        self._poll_log_end()
        if self.load is None and time.monotonic() >= self.sweep_at:
            more = self.sweep.step(int(time.time() * 1000))
            self.sweep_at = time.monotonic() + (0.0 if more else SWEEP_S)

    def _load(self, load: FirstLoad, messages: list[Message]) -> None:
        load.add(messages, self.stream.read_to)
        if load.is_done(self.stream.read_to):
            load.finish(self.stream.read_to, self.topics.ends(self.stream.read_to))
            self.current_as_of_ms = self.store.record.alive_ms
            self.load = None
            self.assembler = TransactionAssembler(
                self.store.record.groups, self.store.record.partitions, self.store.model
            )

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        try:
            self._follow(message, partition, offset)
        except UnusableRecord as e:
            self.assembler.skip(partition)
            self.store.note_unusable(UNUSABLE, f"partition {partition}, offset {offset}: {e}")
        self.stream.read_to[partition] = max(self.stream.read_to[partition], offset + 1)

    def _follow(self, message: Message, partition: int, offset: int) -> None:
        """Raises UnusableRecord, Rebuild."""
        key, value = key_of(message), message.value()
        if not key.startswith(keys.END):
            self.assembler.add(partition, offset, key, value)
            if self.assembler.size > MAX_PENDING_CHANGES:
                # a new checkpoint published more state than fits in memory: a load needs no memory for it
                raise Rebuild(f"a version has more than {MAX_PENDING_CHANGES:,} changes")
        elif value is not None:
            end = read_end(value, message.timestamp()[1], self.store.record.groups)
            if end.total == 0:
                raise UnusableRecord(
                    "the changelog: expected end-of-batch records with the number of key groups.", "upgrade the job."
                )
            if end.total != self.store.record.groups:
                # entries are in other partitions now: only a load can tell which are current
                raise Rebuild(f"the job has {end.total} key groups, not {self.store.record.groups}")
            partitions = end.partitions or len(self.begin.starts)
            if partitions != self.store.record.partitions:
                raise Rebuild(f"the job writes to {partitions} partitions, not {self.store.record.partitions}")
            batch_slice = self.assembler.end(partition, offset, end)
            self.applier.apply(batch_slice, self._is_exact(batch_slice))

    def _is_exact(self, batch_slice: BatchSlice) -> bool:
        """Whether no record of this batch or an earlier one is missing. If compaction removed a record, a later record
        of the entry is before the log's current end."""
        if batch_slice.is_complete is False:
            self.store.record.holes.update((str(p), end) for p, end in self.topics.ends(self.stream.read_to).items())
        whole_from = self.store.record.holes.get(str(batch_slice.partition), 0)
        if batch_slice.is_complete is None:
            whole_from = max(whole_from, self.begin.ends[batch_slice.partition])
        return batch_slice.is_complete is not False and batch_slice.offset >= whole_from

    def _poll_log_end(self) -> None:
        """Finds how far behind this is, and does what a quiet log allows."""
        topic = self.ends.topic
        if topic.topic_id != self.begin.topic_id:
            raise Rebuild("the changelog is another topic of the same name")
        if len(topic.partitions) != len(self.begin.starts):
            raise Rebuild("the changelog has another number of partitions")
        lag, as_of_ms = self.ends.lag(self.stream.read_to)
        if lag == 0 and as_of_ms and self.load is None:
            if as_of_ms - self.current_as_of_ms > self.begin.delete_retention_ms // 2:
                raise Rebuild("it was behind for more than half of delete.retention.ms")
            self.current_as_of_ms = max(self.current_as_of_ms, as_of_ms)
            self.caught_up = True
            self.throttle.at_the_end()
            self._publish_quiescent()
        self.lag_records = lag
        record = self.store.record
        if self.current_as_of_ms - record.alive_ms > ALIVE_MS:
            record.alive_ms = self.current_as_of_ms
            self.store.commit(WriteBatch(raw_mode=True), {})
        self._tell()

    def _tell(self) -> None:
        newest = self.store.record.newest
        ready = int(self.caught_up and newest > 0)
        self.shared.write(SharedStatus(self.store.written, newest, self.current_as_of_ms, self.lag_records, ready))

    def _publish_quiescent(self) -> None:
        if not self.assembler.is_empty() or time.monotonic() < self.quiescence_check_at:
            return
        revision = self.store.publisher.quiescent()
        if revision is None:
            return
        self.quiescence_check_at = time.monotonic() + QUIESCENCE_CHECK_S
        ends = self.topics.ends(self.stream.read_to)
        if self.topics.is_quiet(ends) and all(self.stream.read_to[p] >= end for p, end in ends.items()):
            batch = WriteBatch(raw_mode=True)
            self.store.publisher.publish_quiescent(batch, revision)
            self.store.commit(batch, {})

    def close(self) -> None:
        self.ends.close()
        self.stream.close()

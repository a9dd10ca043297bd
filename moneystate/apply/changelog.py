"""The changelog of a service, read into whole versions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.apply.versions import Rank, Versions, Whole
from moneystate.engine import keys
from moneystate.errors import BrokerError, RetentionError, SetupError
from moneystate.replica.files import Rebuild
from moneystate.replica.log import Changelog, ChangelogConsumer, Topics
from moneystate.replica.transaction_assembler import End, TransactionAssembler, UnusableRecord, key_of, read_end
from moneystate.runtime.replica_model import ReplicaModel

MOST_HELD: Final = 2_000_000  # changes in memory
QUIET_S: Final = 0.5  # between two questions whether anything is being written
STALLED: Final = 600  # reads of nothing, some 30 s


@dataclass(frozen=True)
class Options:
    """Holds what `moneystate.replica.log` asks for."""

    bootstrap_servers: str
    topic_prefix: str
    kafka_config: dict[str, str]
    data: str = ""
    history_ms: int | None = None
    history_versions: int | None = None


@dataclass(frozen=True)
class From:
    """Describes where to go on: a version that the tables have, and the positions behind it."""

    positions: dict[int, int]
    epochs: list[str] = field(default_factory=list)
    batch: int = 0
    groups: int = 0


class VersionReader:
    """Reads whole versions of a service's state for a target. `begin`: None: from the first record of the log."""

    def __init__(self, target: str, options: Options, model: ReplicaModel, begin: From | None) -> None:
        """Raises SetupError for a missing changelog, BrokerError."""
        self._target = target
        self._model = model
        self.topics = Topics(options, model.changelog)
        self.log: Changelog = self.topics.describe()
        self._options = options
        partitions = len(self.log.starts)
        if begin is None:
            last = self._last_end()
            self.groups = last.total if last is not None else 0
            positions, whole_from = dict(self.log.starts), dict(self.log.ends)
            self._versions = Versions(target, self.groups, positions, whole_from)
            partitions = (last and last.partitions) or partitions
        else:
            self.groups, positions = begin.groups, begin.positions
            self._versions = Versions(
                target, self.groups, positions, {}, list(begin.epochs), Rank(len(begin.epochs) - 1, begin.batch)
            )
        self._assembler = TransactionAssembler(self.groups, partitions, model)
        self._consumer = ChangelogConsumer(options, self.topics, positions)
        self._quiet_at = 0.0

    @property
    def epochs(self) -> list[str]:
        return self._versions.epochs

    def read(self, goes_on: Callable[[], bool]) -> Whole | None:
        """Reads what is there. Returns the newest version that can be applied; None: there is none yet. Raises
        RetentionError, BrokerError."""
        try:
            messages = self._consumer.read()
        except Rebuild as e:
            raise RetentionError(f"the changelog: {e}.", f"run moneystate apply rebuild {self._target}.") from None
        for message in messages:
            self._add(message)
            self._note(self._consumer, message)
        if self._versions.held_changes + self._assembler.size > MOST_HELD:
            raise SetupError(
                f"the changelog: expected a whole version within {MOST_HELD:,} changes, found none.",
                "check that all processes of the job run.",
            )
        if messages and len(messages) >= 1_000 and goes_on():
            return None  # versions behind are merged
        return self._versions.newest(quiet=not messages and self._is_quiet())

    def applied(self, whole: Whole) -> None:
        self._versions.applied_up_to(whole)

    def is_at_end(self) -> bool:
        ends = self.topics.ends(self.log.starts)
        return all(self._consumer.read_to[p] >= end for p, end in ends.items())

    def close(self) -> None:
        self._consumer.close()

    @staticmethod
    def _note(consumer: ChangelogConsumer, message: Any) -> None:
        """The end of a partition may already have been noted, with what is behind its last record."""
        partition = message.partition()
        consumer.read_to[partition] = max(consumer.read_to[partition], message.offset() + 1)

    def _add(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        try:
            key, value = key_of(message), message.value()
            if not key.startswith(keys.END):
                if self.groups:
                    self._assembler.add(partition, offset, key, value)
            elif value is not None:
                self._end(partition, offset, read_end(value, message.timestamp()[1], self.groups))
        except UnusableRecord:
            self._assembler.skip(partition)

    def _end(self, partition: int, offset: int, end: End) -> None:
        if end.total != self.groups or (end.partitions or self._assembler.partitions) != self._assembler.partitions:
            if self._versions.applied is None and self.groups:
                return  # from before the state was rescaled
            raise RetentionError(
                f"the changelog: expected {self.groups} key groups in {self._assembler.partitions} partitions, found "
                f"{end.total} in {end.partitions}: the state was rescaled.",
                f"run moneystate apply rebuild {self._target}.",
            )
        pending = self._assembler.pending.get(partition, {})
        begin = min([pending[g].first for g in end.groups if g in pending], default=offset)
        self._versions.add(begin, self._assembler.end(partition, offset, end), self._ends)

    def _ends(self) -> dict[int, int]:
        return self.topics.ends(self.log.starts)

    def _is_quiet(self) -> bool:
        """Whether everything has been read, and nothing is being written."""
        waits = self._versions.held_changes or self._versions.applied is None
        if not waits or not self._assembler.is_empty() or time.monotonic() < self._quiet_at:
            return False
        self._quiet_at = time.monotonic() + QUIET_S
        ends = self._ends()
        return self.topics.is_quiet(ends) and all(self._consumer.read_to[p] >= end for p, end in ends.items())

    def _last_end(self) -> End | None:
        """The last end-of-batch record, which has the numbers of key groups and partitions. Those of earlier numbers
        may still be in the log."""
        last: End | None = None
        consumer = ChangelogConsumer(self._options, self.topics, dict(self.log.starts))
        try:
            idle = 0
            while any(consumer.read_to[p] < end for p, end in self.log.ends.items()):
                messages = consumer.read()
                idle = 0 if messages else idle + 1
                if idle > STALLED:
                    raise BrokerError("the changelog: expected records, found none.", "check the broker.")
                for message in messages:
                    key, value = message.key(), message.value()
                    if key is not None and key.startswith(keys.END) and value is not None:
                        end = read_end(value, message.timestamp()[1], 0)
                        if last is None or end.written_at_ms >= last.written_at_ms:
                            last = end
                    self._note(consumer, message)
        except Rebuild as e:
            raise RetentionError(f"the changelog: {e}.", "start again.") from None
        finally:
            consumer.close()
        return last

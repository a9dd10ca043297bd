"""The thread of a state target: follows the changelog where partition 0 is assigned, and applies whole versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import psycopg
from confluent_kafka import KafkaException

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.changelog import From, Options, VersionReader
from moneystate.apply.chunks import Partition
from moneystate.apply.config import Settings
from moneystate.apply.consuming import GroupConsumer
from moneystate.apply.database import Connected, Database, Unavailable, judge, said
from moneystate.apply.sqlstates import Verdict
from moneystate.apply.state_target import MovedOn, State
from moneystate.apply.target_thread import TargetThread
from moneystate.apply.topic_checks import check_id
from moneystate.apply.versions import Whole
from moneystate.errors import BrokerError, RetentionError
from moneystate.kafka.client import reason
from moneystate.log import get_log

_log = get_log(__name__)

ATTEND_S: Final = 1.0  # between two looks at the group
CHECK_S: Final = 10.0


class StateWorker(TargetThread):
    """A state target at work."""

    def __init__(
        self, target: State, settings: Settings, database: Database, books: Bookkeeping,
        lead: Callable[[bool], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(target.name, database)
        self.target = target
        self._settings = settings
        self._books = books
        self._lead = lead
        self._leads = False
        self._reader: VersionReader | None = None
        self._begin: From | None = None
        self._whole: Whole | None = None  # a version that is being applied
        self._attended_at = 0.0
        self._checked_at = 0.0

    @property
    def begins(self) -> dict[Partition, int]:
        """The positions that are applied; empty: another process leads."""
        begin = self._begin
        return {} if begin is None else {Partition(self.target.topics[0], p): o for p, o in begin.positions.items()}

    def _work(self) -> None:
        s = self._settings
        group = GroupConsumer(
            s.bootstrap_servers, dict(s.kafka), s.group(self.target.name), self.target.topics, self._revoked
        )
        try:
            while not self._stopped.is_set():
                self.pulse.beat()
                self._turn(group)
        finally:
            group.close()
            self._end()

    def _turn(self, group: GroupConsumer) -> None:
        if not self._leads or time.monotonic() - self._attended_at > ATTEND_S:
            self._attended_at = time.monotonic()
            group.attend(0.0 if self._leads else 0.2)
            self._tell(Partition(self.target.topics[0], 0) in group.new)
        if not self._leads:
            return
        try:
            self._step()
        except MovedOn:
            _log.info("another process went on", target=self.target.name)
            self._end()
        except Unavailable as e:
            self._fail(str(e), group.attend)
        except psycopg.Error as e:
            if judge(e) is not Verdict.again:
                raise self._refused(e) from None
            self._fail(said(e), group.attend)
        except (BrokerError, KafkaException) as e:
            self._fail(reason(e) if isinstance(e, KafkaException) else str(e), group.attend)
        else:
            self._succeed()

    def _step(self) -> None:
        if self._reader is None:
            self._open()
        assert self._reader is not None
        if self._whole is None:
            self._whole = self._reader.read(lambda: not self._stopped.is_set())
        if self._whole is not None:
            self._apply(self._reader, self._whole)
            self._whole = None
        if time.monotonic() - self._checked_at > CHECK_S:
            self._checked_at = time.monotonic()
            self._check(self._reader)

    def _open(self) -> None:
        """Begins where the tables are."""
        s = self._settings
        connection = self._connected()
        self.target.prepare(connection)
        options = Options(s.bootstrap_servers, s.topic_prefix, dict(s.kafka))
        begin = self.target.begin(connection, self._books)
        reader = VersionReader(self.target.name, options, self.target.model, begin)
        try:
            self._check_positions(connection, reader, begin)
        except BaseException:
            reader.close()
            raise
        self._reader, self._begin, self._whole = reader, begin, None

    def _check_positions(self, connection: Connected, reader: VersionReader, begin: From | None) -> None:
        topic, name = self.target.topics[0], self.target.name
        stored = self._books.stored(connection, name)
        for partition, (_, topic_id) in stored.items():
            check_id(name, partition.topic, topic_id, reader.log.topic_id)
        absent = {Partition(topic, p): (start, reader.log.topic_id) for p, start in reader.log.starts.items()
                  if Partition(topic, p) not in stored}  # fmt: skip
        if begin is not None and absent:
            raise RetentionError(
                f"target {name}: expected as many partitions of {topic} as before, found more.",
                f"run moneystate apply rebuild {name}.",
            )
        self._books.insert(connection, name, absent)
        most_s = reader.log.delete_retention_ms / 2000
        left_s = max(self._books.left_s(connection, name).values(), default=0.0)
        if begin is not None and left_s > most_s:
            raise RetentionError(
                f"target {name}: expected to have read the changelog to its end within {most_s:.0f} s, half of "
                f"delete.retention.ms, found {left_s:.0f} s: deletions may be missing from the log.",
                f"run moneystate apply rebuild {name}.",
            )

    def _apply(self, reader: VersionReader, whole: Whole) -> None:
        connection = self._connected()
        if not self._is_applied(connection, whole):
            self.target.apply(connection, self._books, whole, self._begin, reader.epochs, reader.groups)
        reader.applied(whole)
        self._begin = From(dict(whole.positions), list(reader.epochs), whole.version.batch, reader.groups)
        self.counts.transactions += 1
        self.counts.records += len(whole.changes)

    def _is_applied(self, connection: Connected, whole: Whole) -> bool:
        """Whether an attempt whose answer was lost has applied it."""
        version = self._books.version(connection, self.target.name)
        return version is not None and (version.epoch, version.batch) == (whole.version.epoch, whole.version.batch)

    def _check(self, reader: VersionReader) -> None:
        check_id(self.target.name, self.target.topics[0], reader.log.topic_id, reader.topics.state().topic_id)
        if self._begin is not None and reader.is_at_end():
            self._books.note_end(self._connected(), self.target.name, self.begins)

    def _tell(self, leads: bool) -> None:
        if leads != self._leads:
            self._leads = leads
            if not leads:
                self._end()
            if self._lead is not None:
                self._lead(leads)

    def _revoked(self, partitions: Iterable[Partition]) -> None:
        if Partition(self.target.topics[0], 0) in set(partitions):
            self._tell(False)

    def _end(self) -> None:
        """Lets go of what was read. What is not applied is read again, by whoever leads then."""
        if self._reader is not None:
            self._reader.close()
        self._reader, self._begin, self._whole = None, None, None
        self._disconnect()

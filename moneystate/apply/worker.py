"""The thread of one target: reads records, applies them in transactions, and tries again what fails for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.chunks import Part, Partition, cut, parts_of
from moneystate.apply.config import OnError, Settings, Start
from moneystate.apply.consuming import POLL_S, GroupConsumer
from moneystate.apply.database import Connected, Database, Unavailable, judge, said
from moneystate.apply.outbox import Stream
from moneystate.apply.records import Read, Record, read
from moneystate.apply.sqlstates import Verdict
from moneystate.apply.target_thread import TargetThread
from moneystate.apply.targets import Applied, Committed
from moneystate.apply.topic_checks import begin_of, check_id, check_left, logs_of, position_in
from moneystate.apply.transactions import Outcome, Transactions
from moneystate.errors import BrokerError, JobError
from moneystate.kafka.client import admin_client, reason
from moneystate.kafka.offsets import topic_states
from moneystate.log import get_log

_log = get_log(__name__)

LOCKED_S: Final = 0.2  # until a position that another instance holds is tried again
CHECK_S: Final = 10.0  # between two looks at the topics' ids
FLIGHT_POLL_S: Final = 0.005  # how long the end of a transaction may go unnoticed
OUTBOX_S: Final = 1.0  # between two looks at the size of the outbox


@dataclass(frozen=True)
class Choices:
    """Holds what the command line chooses for a run."""

    on_error: OnError = OnError.fail
    skip_lost: bool = False


class Taken(NamedTuple):
    """Records that were taken from the consumer."""

    reads: list[Read]
    placed: Mapping[Partition, int]  # how often each partition had been placed then


class Worker(TargetThread):
    """One target at work. `wake`: called when there are new rows in the outbox. `lead`: called with whether this
    process has partition 0 of the first topic; None: the target is not the first."""

    def __init__(
        self, target: Applied, start: Start, settings: Settings, database: Database, books: Bookkeeping,
        choices: Choices, wake: Callable[[], None], lead: Callable[[bool], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(target.name, database)
        self.target = target
        self._start = start
        self._settings = settings
        self._books = books
        self._choices = choices
        self._wake = wake
        self._lead = lead
        self._ids: dict[str, str] = {}  # of the topics, by name
        self._prepared = False
        self._checked_at = time.monotonic()
        self._outbox_at = 0.0
        self._outbox_full = False
        self._consumer: GroupConsumer
        self._applying = ThreadPoolExecutor(1, thread_name_prefix=f"{target.name} transactions")
        self._flight: tuple[Taken, Future[Outcome]] | None = None
        self._transactions = Transactions(target, books, settings.dead_letters_topic, self._stream, choices.on_error)

    @property
    def begins(self) -> dict[Partition, int]:
        return dict(self._consumer.begins) if hasattr(self, "_consumer") else {}

    def _work(self) -> None:
        s = self._settings
        self._consumer = GroupConsumer(
            s.bootstrap_servers, dict(s.kafka), s.group(self.target.name), self.target.topics, self._revoked
        )
        admin = admin_client(s.bootstrap_servers, dict(s.kafka))
        try:
            while not self._stopped.is_set():
                self.pulse.beat()
                self._turn(admin)
            self._finish()
        except Committed as e:
            raise JobError(str(e), "do not commit or roll back in a handler.") from None
        finally:
            self._applying.shutdown()
            self._consumer.close()
            self._disconnect()

    def _turn(self, admin: AdminClient) -> None:
        if self._consumer.new:
            self._finish()
            if not self._in_order(lambda: self._begin(admin)):
                return
        if self._outbox_is_full():
            self._consumer.attend(OUTBOX_S)
            return
        records = self._consumer.read(POLL_S if self._flight is None else FLIGHT_POLL_S)
        placed = dict(self._consumer.placed)
        for some in cut(records):
            reads = self._read(some)
            self._finish()
            self._begin_applying(Taken(reads, placed))
        if not records:
            self._finish()
        if time.monotonic() - self._checked_at > CHECK_S:
            self._checked_at = time.monotonic()
            self._finish()
            self._in_order(lambda: self._check(admin))

    def _read(self, records: list[Record]) -> list[Read]:
        """Reads records while others are being applied."""
        while not self._stopped.is_set():
            try:
                return read(records, self.target.read)
            except BrokerError as e:  # of a registry
                self._finish()
                self._fail(str(e), self._consumer.attend)
        return []

    def _begin_applying(self, taken: Taken) -> None:
        """Applies records in another thread. Only one transaction is in flight, and they are in order."""
        if not self._in_order(self._prepare):
            self._apply(taken)
            return
        parts = self._parts(taken)
        if parts:
            connection = self._connected()
            self._flight = taken, self._applying.submit(self._transactions.apply, connection, parts)

    def _finish(self) -> None:
        """Waits for the transaction that is in flight."""
        if self._flight is None:
            return
        taken, future = self._flight
        self._flight = None
        if not self._in_order(lambda: self._note(future.result())):
            self._apply(taken)

    def _apply(self, taken: Taken) -> None:
        """Applies records until they are applied, or no longer this instance's."""
        while not self._stopped.is_set():

            def once() -> None:
                parts = self._parts(taken)
                if parts:
                    self._note(self._transactions.apply(self._connected(), parts))

            if self._in_order(once):
                return

    def _parts(self, taken: Taken) -> list[Part]:
        return parts_of([r for r in taken.reads if self._is_mine(r.record, taken.placed)], self._consumer.begins)

    def _is_mine(self, record: Record, placed: Mapping[Partition, int]) -> bool:
        """Whether the record follows in order on what was applied of its partition."""
        consumer, partition = self._consumer, Partition(record.topic, record.partition)
        return (
            partition in consumer.begins
            and partition not in consumer.stopped
            and consumer.placed[partition] == placed.get(partition)
        )

    def _note(self, outcome: Outcome) -> None:
        self._consumer.commit(outcome.ends)
        for partition, offset in outcome.moved.items():
            if partition in self._consumer.begins:
                _log.info("another instance went on", topic=partition.topic, partition=partition.number, offset=offset)
                self._consumer.begin(partition, offset)
        for partition in outcome.locked:
            if partition in self._consumer.begins:
                self._consumer.rest(partition, LOCKED_S)
        for partition, why in outcome.stopped.items():
            self.counts.stopped[partition] = why
            self._consumer.stop(partition)
            _log.error("a partition stops", target=self.target.name, topic=partition.topic, partition=partition.number,
                       why=why)  # fmt: skip
        counts = self.counts
        counts.records += outcome.records
        counts.transactions += 1
        counts.letters += outcome.letters
        counts.outgoing += outcome.outgoing
        if outcome.outgoing:
            self._wake()

    def _in_order(self, step: Callable[[], None]) -> bool:
        """Runs a step. False: it failed for now. Some time was waited, during which partitions may have gone."""
        try:
            step()
        except Unavailable as e:
            self._fail(str(e), self._consumer.attend)
        except psycopg.Error as e:
            if judge(e) is Verdict.stop:
                raise self._refused(e) from None
            self._fail(said(e), self._consumer.attend)
        except (BrokerError, KafkaException) as e:
            self._fail(reason(e) if isinstance(e, KafkaException) else str(e), self._consumer.attend)
        else:
            if self.counts.trouble:
                _log.info("it goes on", target=self.target.name)
            self._succeed()
            return True
        return False

    # partitions

    def _begin(self, admin: AdminClient) -> None:
        """Looks up the positions of new partitions, and reads on from there."""
        new = sorted(self._consumer.new)
        connection = self._connected()
        logs = logs_of(admin, sorted({p.topic for p in new}))
        stored = self._books.stored(connection, self.target.name)
        known = {p.topic for p in stored}
        # All partitions at once, so that which process comes first decides nothing. A partition that is added later is
        # read from its beginning.
        absent = {
            p: (begin_of(p, logs, Start.earliest if p.topic in known else self._start), logs.ids[p.topic])
            for p in logs.starts
            if p not in stored
        }
        if absent:
            self._books.insert(connection, self.target.name, absent)
            stored = self._books.stored(connection, self.target.name)
        left = self._books.left_s(connection, self.target.name)
        for p in new:
            offset, topic_id = stored[p]
            check_id(self.target.name, p.topic, topic_id, logs.ids[p.topic])
            if p not in absent:
                check_left(self.target.name, p, logs, left[p])
            begin, skipped = position_in(self.target.name, p, offset, logs, self._choices.skip_lost)
            if skipped:
                self.counts.skipped += skipped
                self._books.set(connection, self.target.name, p, begin)
                _log.warning("lost offsets were skipped", topic=p.topic, partition=p.number, offsets=skipped)
            self._ids[p.topic] = topic_id
            self._consumer.begin(p, begin)
        self._tell_lead()

    def _revoked(self, partitions: Iterable[Partition]) -> None:
        gone = set(partitions)
        if not self._stopped.is_set():  # at the end of the process they are its error
            for p in gone:
                self.counts.stopped.pop(p, None)
        if self._lead is not None and self._leading() in gone:
            self._lead(False)

    def _leading(self) -> Partition:
        return Partition(self.target.topics[0], 0)

    def _tell_lead(self) -> None:
        if self._lead is not None and self._leading() in self._consumer.begins:
            self._lead(True)

    def _check(self, admin: AdminClient) -> None:
        """Checks, from time to time, the topics' ids, and which partitions have been read to their ends."""
        for topic, state in topic_states(admin, sorted(self._ids)).items():
            check_id(self.target.name, topic, self._ids[topic], state.topic_id)
        at_end = {p: self._consumer.begins[p] for p in self._consumer.at_end if p in self._consumer.begins}
        if at_end:
            self._books.note_end(self._connected(), self.target.name, at_end)

    def _stream(self, partition: Partition) -> Stream:
        return Stream(self.target.name, partition.topic, self._ids[partition.topic], partition.number)

    # database

    def _prepare(self) -> None:
        self._connected()

    def _connected(self) -> Connected:
        connection = super()._connected()
        if not self._prepared:
            self.target.prepare(connection)
            self._prepared = True
        return connection

    def _disconnect(self) -> None:
        super()._disconnect()
        self._prepared = False

    def _outbox_is_full(self) -> bool:
        """Whether the relay has to catch up first."""
        if time.monotonic() - self._outbox_at > OUTBOX_S:
            self._outbox_at = time.monotonic()
            self._finish()
            limit = self._settings.outbox_limit

            def count() -> None:
                self._outbox_full = self._books.count(self._connected(), limit) >= limit

            self._in_order(count)
        return self._outbox_full

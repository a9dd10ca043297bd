"""The relay: publishes the rows of the outbox, each once (rule 3 in docs/apply.md).

The steps, and what a crash after each leaves:

1. *fenced*: `init_transactions` has ended what a predecessor left open, and the predecessor can write no more.
2. *cursors read*: up to the end of the topic. It is only now that they cannot change any more.
3. *read*: rows after the cursors. As 2.
4. *produced*: notifications and the new cursors, in one Kafka transaction that is open. The next relay ends it.
5. *published*: they are visible together. The next relay finds the cursors behind the rows, and only deletes them.
6. *deleted*: the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from confluent_kafka import KafkaException, Producer

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.config import Settings
from moneystate.apply.database import Connected, Database, Unavailable, said
from moneystate.apply.outbox import Number, OutboxRow, Stream, cursor_of, cursor_value, moved_by, unpublished
from moneystate.errors import BrokerError, MoneystateError
from moneystate.kafka.client import admin_client, base_config, new_client, reason
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.offsets import log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.log import get_log

_log = get_log(__name__)

POLL_S: Final = 0.025  # between two looks into an outbox that was empty; other processes insert rows, too
BACKOFF_S: Final = (0.1, 10.0)
INIT_S: Final = 30.0
COMMIT_S: Final = 30.0
STOP_S: Final = 60.0


class Relay:
    """A thread that publishes, from `start` to `stop`."""

    def __init__(self, settings: Settings, database: Database, books: Bookkeeping) -> None:
        self._settings = settings
        self._database = database
        self._books = books
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self.published = 0
        self.error: MoneystateError | None = None

    @property
    def runs(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._stopped.set()
            self._woken.set()
            self._thread.join(STOP_S)
            self._thread = None

    def wake(self) -> None:
        """There are new rows."""
        self._woken.set()

    def _run(self) -> None:
        wait = BACKOFF_S[0]
        while not self._stopped.is_set():
            try:
                self._relay()
                return
            except (psycopg.Error, Unavailable, KafkaException, BrokerError) as e:
                _log.warning("the outbox is not published at the moment", why=_why(e), again_in_s=wait)
            except MoneystateError as e:
                self.error = e
                return
            self._stopped.wait(wait)
            wait = min(wait * 2, BACKOFF_S[1])

    def _relay(self) -> None:
        """Publishes until it is stopped. After an error all of it begins again."""
        s = self._settings
        config = {
            **base_config(s.bootstrap_servers, dict(s.kafka)),
            "transactional.id": s.transactional_id,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
        }
        producer: Producer = new_client(Producer, config)
        producer.init_transactions(INIT_S)
        failpoint("fenced", 0)
        cursors = self._cursors()
        failpoint("cursors read", 0)
        with self._database.connect() as connection:
            while not self._stopped.is_set():
                rows = self._books.waiting(connection)
                if not rows:
                    self._woken.wait(POLL_S)
                    self._woken.clear()
                    continue
                failpoint("read", 0)
                fresh = unpublished(rows, cursors)
                if fresh:
                    self._publish(producer, fresh)
                    cursors |= moved_by(fresh)
                    self.published += len(fresh)
                failpoint("published", 0)
                self._delete(connection, rows)
                failpoint("deleted", 0)

    def _cursors(self) -> dict[Stream, Number]:
        s = self._settings
        topic, kafka = s.cursors_topic, dict(s.kafka)
        admin = admin_client(s.bootstrap_servers, kafka)
        partitions = [(topic, p) for p in topic_states(admin, [topic])[topic].partitions]
        starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
        reader = RangeReader(s.bootstrap_servers, kafka, f"{topic}-reader")
        cursors: dict[Stream, Number] = {}
        try:
            for message in reader.read([Range(*tp, starts[tp], ends[tp]) for tp in partitions]):
                cursor = cursor_of(message.key(), message.value())
                if cursor is not None:
                    cursors[cursor[0]] = cursor[1]
        finally:
            reader.consumer.close()
        return cursors

    def _publish(self, producer: Producer, rows: Sequence[OutboxRow]) -> None:
        failed: list[str] = []

        def delivered(error: Any, _: object) -> None:
            if error is not None:
                failed.append(error.str())

        producer.begin_transaction()
        for row in rows:
            _produce(producer, delivered, row.destination, row.key, row.value, list(row.headers))
        for stream, number in moved_by(rows).items():
            _produce(producer, delivered, self._settings.cursors_topic, stream.cursor_key, cursor_value(number), [])
        producer.flush(COMMIT_S)
        failpoint("produced", 0)
        if failed:
            raise BrokerError(f"expected to publish the outbox, but {failed[0]}.", "check the topics and the rights.")
        producer.commit_transaction(COMMIT_S)

    def _delete(self, connection: Connected, rows: Sequence[OutboxRow]) -> None:
        self._books.delete(connection, rows)


def _produce(
    producer: Producer, delivered: Callable[[Any, object], None], topic: str, key: bytes | None, value: bytes | None,
    headers: list[Any],
) -> None:  # fmt: skip
    while True:
        try:
            producer.produce(topic, value, key, headers=headers, on_delivery=delivered)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def _why(error: Exception) -> str:
    if isinstance(error, psycopg.Error):
        return said(error)
    return reason(error) if isinstance(error, KafkaException) else str(error)

"""The one writer of a table's topic: rows, deletions and `TableLoaded`, in transactions.

Its transactional id is the topic's name and `-table`. Who opens a writer ends what another one has left open, and that
other one can write no more.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.errors import BrokerError, InstanceError, MoneystateError
from moneystate.kafka import sizes
from moneystate.kafka.client import admin_client, advice, base_config, new_client
from moneystate.kafka.offsets import topic_states
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded

# Readers wait for an open transaction. The broker aborts it after this time, if no other writer does it before.
TRANSACTION_MS: Final = 300_000
INIT_S: Final = 30.0
CALL_S: Final = 60.0  # longest call of the coordinator
POLL_S: Final = 0.05
FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_LOADED: Final = Codec(TABLE_LOADED_RECORD)


def transactional_id(topic: str) -> str:
    return f"{topic}-table"


class TableWriter:
    """Used by one thread: `open` once, then for each transaction `begin`, `put` and `delete`, perhaps `loaded`, and
    `commit`. `topic`: with prefix. All calls raise InstanceError if another writer has taken over, and BrokerError."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str) -> None:
        self.topic = topic
        self._servers = bootstrap_servers
        self._extra = extra
        self._admin = admin_client(bootstrap_servers, extra)
        self._producer: Producer | None = None
        self._transaction_ms = TRANSACTION_MS
        self._begun_s = 0.0
        self._refused = ""  # why the broker did not take a record

    def open(self) -> None:
        """Fences other writers. After an error of the producer, a new one is opened."""
        if self._producer is not None:
            return
        config = {"transaction.timeout.ms": TRANSACTION_MS, **base_config(self._servers, self._extra)}
        self._transaction_ms = int(config["transaction.timeout.ms"])
        producer: Producer = new_client(
            Producer,
            {
                **config,
                "transactional.id": transactional_id(self.topic),
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "batch.size": sizes.BATCH_BYTES,
                "compression.type": "lz4",
                sizes.PRODUCER_SETTING: sizes.producer_bytes(self._extra, 0),
            },
        )
        try:
            producer.init_transactions(INIT_S)
        except KafkaException as e:
            raise self._failed("to begin as the writer of the table", e) from None
        self._producer = producer

    def begin(self) -> None:
        self._refused = ""
        self._begun_s = time.monotonic()
        try:
            self._open.begin_transaction()
        except KafkaException as e:
            raise self._failed("to begin a transaction", e) from None

    def put(self, key: bytes, value: bytes) -> None:
        self._produce(key, value)

    def delete(self, key: bytes) -> None:
        self._produce(key, None)

    def loaded(self, record: TableLoaded) -> None:
        """Says in each partition that the table is whole."""
        value = _LOADED.to_json(record)
        for partition in topic_states(self._admin, [self.topic])[self.topic].partitions:
            self._produce(None, value, partition=partition)

    def commit(self) -> None:
        try:
            self._open.commit_transaction(CALL_S)
        except KafkaException as e:
            raise self._failed("to commit a transaction", e) from None

    def abort(self) -> None:
        """If that fails, the next writer ends the transaction, or the broker after a while."""
        self._abort()

    def _abort(self) -> KafkaError | None:
        """Returns why it failed."""
        if self._producer is None:
            return None
        try:
            self._producer.abort_transaction(CALL_S)
        except KafkaException as e:
            self._producer = None
            error: KafkaError = e.args[0]
            return error
        return None

    @property
    def _open(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _produce(self, key: bytes | None, value: bytes | None, **more: Any) -> None:
        while True:
            try:
                self._open.produce(self.topic, value, key, on_delivery=self._delivered, **more)
                self._open.poll(0)
                return
            except BufferError:
                self._open.poll(POLL_S)
            except KafkaException as e:
                raise self._failed("to write a row", e) from None

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and not self._refused:
            self._refused = error.str()

    def _failed(self, expected: str, e: KafkaException) -> MoneystateError:
        """The error to raise. The producer that has failed is of no use any more."""
        error, begun = e.args[0], self._producer is not None
        abort = self._abort()  # readers would wait for the open transaction
        if error.code() == KafkaError._FATAL and abort is not None:
            error = abort  # says what was fatal
        self._producer = None
        setting = f"transaction.timeout.ms={self._transaction_ms}"
        if begun and (time.monotonic() - self._begun_s) * 1000 > self._transaction_ms:
            return BrokerError(
                f"{self.topic}: expected {expected} within {setting}, it took longer.",
                "raise it by --kafka-config; the broker's transaction.max.timeout.ms is its limit.",
            )
        if error.code() in FENCED:
            return InstanceError(
                f"{self.topic}: expected to be the table's only writer, another one was started after this one and has "
                "taken over.",
                "let one of them run.",
            )
        do = "see the broker's log; load again."
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            do = "lower transaction.timeout.ms by --kafka-config, or raise the broker's transaction.max.timeout.ms."
        return BrokerError(f"{self.topic}: expected {expected}, but {self._refused or error.str()}.", advice(error, do))

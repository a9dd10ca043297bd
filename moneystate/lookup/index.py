"""The answer index: the requests that already have a reply in the results topic, on disk.

It is built from the topic. Entries: `a` + the request's key -> nothing; `p` + topic id, the fields of the key, `/` and
partition -> the offset up to which the topic was read, written together with what was read. Without `--index`, each
start builds it again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from rocksdict import Options, Rdict, WriteBatch

from moneystate.engine.processor import Convert, Rejected
from moneystate.errors import BrokerError, SetupError
from moneystate.kafka.client import (
    admin_client,
    advice,
    is_end_of_partition,
    is_passing_to_range,
    place,
    range_consumer,
    reason,
)
from moneystate.kafka.offsets import high_watermark, log_starts, topic_states
from moneystate.lookup.wire import Wire

MAX_MESSAGES = 10_000  # of one poll
POLL_S = 0.05
STALL_S = 90.0  # longer than the transaction of a killed worker stays open
ANSWER, POSITION = b"a", b"p"


class AnswerIndex:
    """The index of one worker. Only one thread uses it."""

    def __init__(
        self, folder: Path, bootstrap_servers: str, extra: dict[str, str], topic: str, wire: Wire,
        convert: Convert | None = None,
    ) -> None:  # fmt: skip
        """Raises SetupError if the folder cannot be used or the topic does not exist."""
        self.topic = topic  # with its prefix
        self._folder = folder
        self._convert = convert
        self._wire = wire
        self._admin = admin_client(bootstrap_servers, extra)
        self._consumer: Consumer = range_consumer(
            bootstrap_servers, extra, "moneystate-lookup-index", **{"fetch.wait.max.ms": 20}
        )
        self._positions: dict[int, int] = {}
        self._topic_id = topic_states(self._admin, [topic])[topic].topic_id
        self._db = _open(folder)
        if any(not name.startswith(self._prefix()) for name in cast(Iterable[bytes], self._db.keys(from_key=POSITION))):
            self._clear()  # the topic was deleted and created again, or its requests have another identity

    def __contains__(self, key: bytes) -> bool:
        return ANSWER + key in self._db

    def add(self, keys: Iterable[bytes]) -> None:
        """Adds requests whose replies this worker has committed, before it reads these replies itself."""
        batch = WriteBatch(raw_mode=True)
        for key in keys:
            batch.put(ANSWER + key, b"")
        self._db.write(batch)

    def catch_up(self) -> int:
        """Reads the topic up to its present end, and waits for open transactions. Returns how many replies were read.
        Raises BrokerError."""
        self._assign()
        ends = {p: high_watermark(self._admin, self.topic, p) for p in self._positions}
        if any(self._positions[p] > end for p, end in ends.items()):
            self._clear()  # the log has lost records that were read
            self._assign()
        deadline = time.monotonic() + STALL_S
        read = 0
        while any(self._positions[p] < end for p, end in ends.items()):
            n = self._read(POLL_S)
            read += n
            if n:
                deadline = time.monotonic() + STALL_S
            elif time.monotonic() > deadline:
                raise BrokerError(
                    f"{self.topic}: expected to read it to its end, found no record for {STALL_S:.0f} s.",
                    "check the broker, and whether transactions hang there.",
                )
        return read

    def follow(self) -> None:
        """Reads new records without waiting."""
        self._read(0.0)

    def close(self) -> None:
        self._consumer.close()
        self._db.close()

    def _read(self, wait_s: float) -> int:
        messages = self._consumer.consume(MAX_MESSAGES, wait_s)
        if not messages:
            return 0
        batch = WriteBatch(raw_mode=True)
        read = 0
        for message in messages:
            read += self._take(message, batch)
        for partition, offset in self._positions.items():
            batch.put(self._prefix() + b"%d" % partition, b"%d" % offset)
        self._db.write(batch)
        return read

    def _take(self, message: Message, batch: WriteBatch) -> int:
        error = message.error()
        if error is None:
            _, partition, offset = place(message)
            self._positions[partition] = offset + 1
            key = self._key(message.value())
            if key is not None:
                batch.put(ANSWER + key, b"")
                return 1
        elif is_end_of_partition(message):
            _, partition, offset = place(message)
            self._positions[partition] = offset
        elif not is_passing_to_range(error):
            raise BrokerError(
                f"{self.topic}: expected to read the replies, but {reason(KafkaException(error))}.",
                advice(error, "check the broker."),
            )
        return 0

    def _key(self, value: bytes | None) -> bytes | None:
        """The key of the answered request. None: the record is not a reply. The job makes a dead letter of it."""
        try:
            canonical = value if value is None or self._convert is None else self._convert(value)
            return self._wire.answered(canonical)
        except Rejected:
            return None

    def _assign(self) -> None:
        """Assigns all partitions, from the positions so far, or from the beginning of the log if retention has deleted
        these records. Requests that old are not read again."""
        partitions = topic_states(self._admin, [self.topic])[self.topic].partitions
        if set(partitions) == set(self._positions):
            return
        starts = log_starts(self._admin, [(self.topic, p) for p in partitions])
        for p in partitions:
            stored = int(self._db.get(self._prefix() + b"%d" % p) or 0)
            self._positions[p] = max(self._positions.get(p, 0), stored, starts[self.topic, p])
        self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in self._positions.items()])

    def _prefix(self) -> bytes:
        return POSITION + f"{self._topic_id} {self._wire.identity}/".encode()

    def _clear(self) -> None:
        self._positions = {}
        self._db.close()
        shutil.rmtree(self._folder)
        self._db = _open(self._folder)


def _open(folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(8 * 1024 * 1024)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Rdict(str(folder), options)
    except Exception as e:  # rocksdict has no exception class
        raise SetupError(
            f"--index {folder}: expected a folder for the index, but {e}.", "use a separate folder for each worker."
        ) from None

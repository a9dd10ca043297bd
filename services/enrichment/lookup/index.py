"""An index on disk of the requests that the results topic answers, built from the topic.

Entries: `a` + the request's key -> nothing; `p` + topic id + `/` + partition -> the offset up to which the topic was
read, in the same write as what was read. Without `--index` it is rebuilt at each start.
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
from moneystate.kafka.formats import Undecodable
from moneystate.kafka.offsets import high_watermark, log_starts, topic_states
from services.enrichment.lookup.wire import Wire

AT_ONCE = 10_000
POLL_S = 0.05
STALL_S = 90.0  # longer than a transaction of a worker that was killed stays open
ANSWER, POSITION = b"a", b"p"


class AnswerIndex:
    """The index of one worker, for one thread."""

    def __init__(
        self, folder: Path, bootstrap_servers: str, extra: dict[str, str], topic: str, convert: Convert | None = None
    ) -> None:
        """Raises SetupError where the folder cannot be used or the topic is not there."""
        self.topic = topic  # with its prefix
        self._folder = folder
        self._convert = convert
        self._wire = Wire()
        self._admin = admin_client(bootstrap_servers, extra)
        self._consumer: Consumer = range_consumer(
            bootstrap_servers, extra, "moneystate-lookup-index", **{"fetch.wait.max.ms": 20}
        )
        self._positions: dict[int, int] = {}
        self._topic_id = topic_states(self._admin, [topic])[topic].topic_id
        self._db = _open(folder)
        if any(not name.startswith(self._prefix()) for name in cast(Iterable[bytes], self._db.keys(from_key=POSITION))):
            self._clear()  # of a topic that was deleted and made anew

    def __contains__(self, key: bytes) -> bool:
        return ANSWER + key in self._db

    def add(self, keys: Iterable[bytes]) -> None:
        """Requests whose replies this worker has committed: known before they are read back."""
        batch = WriteBatch(raw_mode=True)
        for key in keys:
            batch.put(ANSWER + key, b"")
        self._db.write(batch)

    def catch_up(self) -> int:
        """Read all that is in the topic at this moment, waiting for transactions that are open there; how many replies
        were read. Raises BrokerError."""
        self._assign()
        ends = {p: high_watermark(self._admin, self.topic, p) for p in self._positions}
        if any(self._positions[p] > end for p, end in ends.items()):
            self._clear()  # the log lost records that were read
            self._assign()
        deadline = time.monotonic() + STALL_S
        read = 0
        while any(self._positions[p] < end for p, end in ends.items()):
            got = self._read(POLL_S)
            read += got
            if got:
                deadline = time.monotonic() + STALL_S
            elif time.monotonic() > deadline:
                raise BrokerError(
                    f"{self.topic}: expected to read it to its end, nothing came for {STALL_S:.0f} s.",
                    "check the broker, and for transactions that hang there.",
                )
        return read

    def follow(self) -> None:
        """Take what has come since, without waiting."""
        self._read(0.0)

    def close(self) -> None:
        self._consumer.close()
        self._db.close()

    def _read(self, wait_s: float) -> int:
        messages = self._consumer.consume(AT_ONCE, wait_s)
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
        """None for what is no reply: the job makes a dead letter of it."""
        try:
            canonical = value if value is None or self._convert is None else self._convert(value)
            return self._wire.answered(canonical).key
        except (Undecodable, Rejected):
            return None

    def _assign(self) -> None:
        """All partitions there are, from where each was read; what retention has taken cannot be asked for again."""
        partitions = topic_states(self._admin, [self.topic])[self.topic].partitions
        if set(partitions) == set(self._positions):
            return
        starts = log_starts(self._admin, [(self.topic, p) for p in partitions])
        for p in partitions:
            stored = int(self._db.get(self._prefix() + b"%d" % p) or 0)
            self._positions[p] = max(self._positions.get(p, 0), stored, starts[self.topic, p])
        self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in self._positions.items()])

    def _prefix(self) -> bytes:
        return POSITION + self._topic_id.encode() + b"/"

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
    except Exception as e:  # rocksdict has no class of its own
        raise SetupError(
            f"--index {folder}: expected a folder for the index, but {e}.", "give each worker a folder of its own."
        ) from None

"""A table of which the interface is the one writer: its rows in memory, and the transactions that change them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from moneystate.errors import InstanceError, MoneystateError, RetentionError
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import high_watermarks, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.records.platform_records import TableLoaded
from moneystate.tables.writer import TableWriter

SOURCE: Final = "interface"  # of its loads
MIB: Final = 1024 * 1024


class Row(NamedTuple):
    value: bytes | None  # None: it was deleted
    time_ms: int
    partition: int


class Table:
    """The rows of a topic (with prefix), also which ids were ever used. Used by one thread at a time."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic: str) -> None:
        self.topic = topic
        self._rows: dict[str, Row] = {}
        self._positions: dict[int, int] = {}
        self._high_ms: dict[int, int] = {}
        self._loaded: set[int] = set()  # partitions that say that the table is whole
        self._admin = admin_client(bootstrap_servers, extra)
        self._reader = RangeReader(bootstrap_servers, extra, f"{topic}-interface", queue_bytes=8 * MIB)
        self._writer = TableWriter(bootstrap_servers, extra, topic)
        self.is_ours = False  # no other writer has taken over

    def open(self) -> None:
        """Takes the table over from other writers, and says of a new one that it is whole, so that its readers begin.
        Raises BrokerError, SetupError and RetentionError."""
        self._writer.open()
        self.is_ours = True
        self.follow()
        if self._loaded != set(self._positions):
            self.write({})

    def get(self, id: str) -> bytes | None:
        row = self._rows.get(id)
        return None if row is None else row.value

    def was_used(self, id: str) -> bool:
        return id in self._rows

    def items(self) -> Iterator[tuple[str, bytes]]:
        """Yields the rows by id."""
        for id, row in sorted(self._rows.items()):
            if row.value is not None:
                yield id, row.value

    def follow(self) -> None:
        """Reads the topic up to its end, and waits for the end of open transactions. Raises RetentionError if the log
        has lost records, and BrokerError."""
        partitions = [(self.topic, p) for p in topic_states(self._admin, [self.topic])[self.topic].partitions]
        for (topic, partition), start in log_starts(self._admin, partitions).items():
            if start > self._positions.get(partition, 0):
                raise RetentionError(
                    f"{topic}, partition {partition}: expected all rows, the log begins at offset {start}.",
                    "keep tables in topics without retention; start again to read what is left.",
                )
        ends = high_watermarks(self._admin, partitions)
        ranges = [Range(topic, p, self._positions.get(p, 0), end) for (topic, p), end in ends.items()]
        for message in self._reader.read(ranges):
            self._take(message)
        self._positions.update({r.partition: r.end for r in ranges})

    def _take(self, message: Any) -> None:
        partition, key = message.partition(), message.key()
        time_ms = self._high_ms[partition] = max(self._high_ms.get(partition, 0), message.timestamp()[1])
        if key is None:
            self._loaded.add(partition)
            return
        id = key.decode("utf-8", "backslashreplace")
        last = self._rows.get(id)
        if last is None or (time_ms, partition) >= (last.time_ms, last.partition):
            self._rows[id] = Row(message.value(), time_ms, partition)

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """In one transaction. Raises InstanceError if another writer has taken over, and BrokerError."""
        if not self.is_ours:
            raise InstanceError(f"{self.topic}: another writer has taken over.", "start this interface again.")
        try:
            self._writer.open()  # after an error of the broker, once more
            self._writer.begin()
            for id, value in changes.items():
                if value is None:
                    self._writer.delete(id.encode())
                else:
                    self._writer.put(id.encode(), value)
            self._writer.loaded(self._load(changes))
            self._writer.commit()
        except InstanceError:
            self.is_ours = False
            raise
        except MoneystateError:
            self._writer.abort()
            raise
        self.follow()

    def _load(self, changes: Mapping[str, bytes | None]) -> TableLoaded:
        left = sum(row.value is not None for id, row in self._rows.items() if id not in changes)
        changed = _count(changes.values(), deleted=False)
        return TableLoaded(
            left + changed, changed, _count(changes.values(), deleted=True), SOURCE, round(time.time() * 1_000)
        )

    def close(self) -> None:
        self._reader.consumer.close()


def _count(values: Iterable[bytes | None], deleted: bool) -> int:
    return sum((value is None) is deleted for value in values)

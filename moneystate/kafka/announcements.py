"""Announcements of query servers and of metrics, so that others find them. docs/console.md has the format.

A command writes a record at its start and every `EVERY_S`, with the address under which others reach it as the key. At
its end it writes one without a value. The topic is compacted and has the broker's timestamps. An announcement counts
for `LASTS_MS`, so a command that was killed is soon forgotten.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.errors import BrokerError
from moneystate.kafka.client import admin_client, advice, base_config, new_client, reason
from moneystate.kafka.offsets import log_ends, log_starts
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.log import get_log

TOPIC: Final = "moneystate-servers"
STATE: Final = "state"  # a query server
METRICS: Final = "metrics"
EVERY_S: Final = 30.0
LASTS_MS: Final = 180_000
WRITTEN_S: Final = 10.0
AT_END_S: Final = 2.0
RETENTION_MS: Final = 86_400_000
MIB: Final = 1024 * 1024
_log = get_log(__name__)


@dataclass(frozen=True)
class Announcement:
    """`address`: HOST:PORT; `kind`: what answers there; `host`: the name of the machine that it runs on."""

    address: str
    kind: str
    service: str
    host: str
    has_tls: bool

    def value(self) -> bytes:
        its = {"kind": self.kind, "service": self.service, "host": self.host, "tls": self.has_tls}
        return json.dumps(its).encode()


def announcement_of(key: bytes, value: bytes) -> Announcement:
    """Raises ValueError for a record that is none."""
    given = json.loads(value)
    if not isinstance(given, dict):
        raise ValueError("expected an object")
    kind, service, host, has_tls = (given.get(name) for name in ("kind", "service", "host", "tls"))
    if not (isinstance(kind, str) and isinstance(service, str) and isinstance(host, str) and isinstance(has_tls, bool)):
        raise ValueError("expected kind, service, host and tls")
    return Announcement(key.decode(), kind, service, host, has_tls)


class Announcer:
    """Announces what a command answers from the beginning of the block to its end."""

    def __init__(
        self, bootstrap_servers: str, extra: dict[str, str], prefix: str, announced: Sequence[Announcement]
    ) -> None:
        self.topic = prefix + TOPIC
        self.values = {its.address: its.value() for its in announced}
        self.admin = admin_client(bootstrap_servers, extra)
        config = {**base_config(bootstrap_servers, extra), "acks": "all", "linger.ms": 0}
        self.producer = new_client(Producer, {**config, "message.timeout.ms": int(WRITTEN_S * 1_000)})
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._repeat, name="announcer", daemon=True)

    def __enter__(self) -> Self:
        """Creates the topic where it is missing. Raises SetupError and BrokerError."""
        spec = TopicSpec(self.topic, 1, compacted=True, retention_ms=RETENTION_MS, broker_time=True)
        ensure_topics(self.admin, [spec], create=True)
        self._write(self.values, WRITTEN_S)
        self.thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.ended.set()
        self.thread.join()
        try:
            self._write(dict.fromkeys(self.values), AT_END_S)
        except BrokerError as e:
            _log.debug(str(e))  # the announcement soon counts no more

    def _repeat(self) -> None:
        is_heard = True
        while not self.ended.wait(EVERY_S):
            try:
                self._write(self.values, WRITTEN_S)
                is_heard = True
            except BrokerError as e:
                if is_heard:
                    _log.warning(str(e))
                is_heard = False

    def _write(self, values: Mapping[str, bytes | None], within_s: float) -> None:
        """Raises BrokerError."""
        ends: list[KafkaError | None] = []
        try:
            for address, value in values.items():
                self.producer.produce(self.topic, value, address, on_delivery=lambda error, _: ends.append(error))
            self.producer.flush(within_s)
        except KafkaException as e:
            raise self._unwritten(reason(e), e.args[0]) from None
        if len(ends) < len(values):
            raise self._unwritten("no broker acknowledged it")
        for error in ends:
            if error is not None:
                raise self._unwritten(error.str(), error)

    def _unwritten(self, why: str, error: KafkaError | None = None) -> BrokerError:
        otherwise = "check the brokers."
        return BrokerError(
            f"{self.topic}: expected to announce {', '.join(self.values)}, but {why}.",
            otherwise if error is None else advice(error, otherwise),
        )


class Announcements:
    """The topic, which must exist, up to where it has been read."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], prefix: str) -> None:
        self.topic = prefix + TOPIC
        self.admin = admin_client(bootstrap_servers, extra)
        self.reader = RangeReader(bootstrap_servers, extra, TOPIC, queue_bytes=MIB)
        self.position = 0
        self.last: dict[bytes, tuple[int, Announcement]] = {}  # with the time of its record

    def read(self, now_ms: int) -> list[Announcement]:
        """Reads those that count now, by address. Raises BrokerError."""
        partition = self.topic, 0
        start, end = log_starts(self.admin, [partition])[partition], log_ends(self.admin, [partition])[partition]
        if end < self.position:  # the topic was created again
            self.position, self.last = 0, {}
        unread = Range(self.topic, 0, max(self.position, start), end)
        for message in self.reader.read([unread]):
            self._take(message)
        self.position = end
        return sorted(
            (its for time_ms, its in self.last.values() if now_ms - time_ms <= LASTS_MS), key=lambda its: its.address
        )

    def _take(self, message: Any) -> None:
        key, value = message.key() or b"", message.value()
        self.last.pop(key, None)
        if value is None:
            return
        try:
            self.last[key] = message.timestamp()[1], announcement_of(key, value)
        except ValueError:
            _log.debug("a record that announces no server", topic=self.topic, offset=message.offset())

    def close(self) -> None:
        self.reader.consumer.close()

"""Writes the records of requests: single ones at once, all others in transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from moneystate.ingest.answers import Answer, Place
from moneystate.ingest.deliveries import (
    RETRY_S,
    Deliveries,
    Poller,
    Undelivered,
    producer_config,
    refused,
    unavailable,
    unknown_outcome,
)
from moneystate.ingest.key_log import KeyLog
from moneystate.ingest.keys import RequestKey, partition_of
from moneystate.ingest.lanes import TRANSACTION_MS, Lane, Write
from moneystate.ingest.reach import Reach
from moneystate.ingest.refusals import Refused
from moneystate.ingest.topics import Outgoing

Result = TypeVar("Result")

BATCH_LINGER_MS: Final = 1  # a transaction waits for its records


@dataclass(frozen=True)
class KafkaSettings:
    servers: str
    keys_topic: str  # with prefix
    key_partitions: int
    instance: str  # of this process
    timeout_s: float = 5.0  # until a record must be confirmed
    keep_ms: int = 3_600_000
    key_memory_bytes: int = 256 << 20
    extra: dict[str, str] = field(default_factory=dict)


class Writing:
    """The producers of this process."""

    def __init__(self, settings: KafkaSettings, admin: AdminClient, reach: Reach) -> None:
        """Must run in the event loop. Raises ConfigError."""
        s = settings
        self.settings = settings
        self.reach = reach
        self._poller = Poller()
        self._executor = ThreadPoolExecutor(s.key_partitions + 1, "kafka")
        self._config = producer_config(s.servers, s.extra, s.timeout_s)
        self._single = Deliveries(self._config, self._poller, self._failed)
        self._log = KeyLog(admin, s.servers, s.extra, s.keys_topic, s.key_partitions)
        self._batches = Lane("batches", self._connector(f"{s.keys_topic}-{s.instance}"), self._executor)
        self.lanes = [
            Lane(f"keys {n}", self._connector(f"{s.keys_topic}-{n}"), self._executor, self._log, n, s.keep_ms)
            for n in range(s.key_partitions)
        ]

    def _connector(self, transactional_id: str) -> Callable[[], Deliveries]:
        s = self.settings
        more: dict[str, Any] = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": BATCH_LINGER_MS,
        }
        config = producer_config(s.servers, s.extra, min(s.timeout_s, TRANSACTION_MS / 1000), **more)
        return lambda: Deliveries(config, self._poller, self._failed)

    def _failed(self, error: KafkaError) -> None:
        self.reach.failed(error)

    async def read_keys(self) -> None:
        """Reads, at the start, the keys that are kept. Raises BrokerError and SetupError."""
        await asyncio.gather(*[lane.read() for lane in self.lanes])

    def send(self, outgoing: Outgoing) -> asyncio.Future[Place]:
        """A single record. Raises Refused; its future raises Undelivered."""
        if not self.reach.is_reached:
            raise unavailable()
        if self._single.fatal is not None:
            self._single = Deliveries(self._config, self._poller, self._failed)
        return self._single.send(outgoing)

    async def one(self, outgoing: Outgoing) -> Place:
        """Raises Refused."""
        try:
            return await self.send(outgoing)
        except Undelivered as e:
            raise refused(e) from None

    async def each(self, records: Sequence[Outgoing | Refused]) -> list[Place | Refused]:
        """Each by itself: its place, or why it has none."""

        async def place(record: Outgoing | Refused) -> Place | Refused:
            try:
                return record if isinstance(record, Refused) else await self.one(record)
            except Refused as e:
                return e

        return await asyncio.gather(*[place(record) for record in records])

    async def together(
        self, records: Sequence[Outgoing], key: RequestKey | None, answer: Callable[[Sequence[Place]], Answer]
    ) -> tuple[Answer, bool]:
        """All of them or none, with the key. Returns the answer, and whether an earlier request got it. Raises
        Refused."""
        if not self.reach.is_reached:
            raise unavailable()
        loop = asyncio.get_running_loop()
        write = Write(records, key, answer, loop.create_future(), loop.time() + self.settings.timeout_s)
        self._lane(key).write(write)
        await asyncio.wait({write.done}, timeout=self.settings.timeout_s)
        if not write.done.done():
            write.done.cancel()
            raise unknown_outcome()
        return write.done.result()

    def _lane(self, key: RequestKey | None) -> Lane:
        """Raises Refused if no more keys can be kept."""
        if key is None:
            return self._batches
        if self.key_bytes() > self.settings.key_memory_bytes:
            raise Refused("QUEUE_FULL", "too many Idempotency-Keys are kept; send it again.", retry_s=RETRY_S)
        return self.lanes[partition_of(key.digest, len(self.lanes))]

    def expire(self) -> None:
        """Now and then. Otherwise keys that fill their memory would stay, because no request looks at them."""
        for lane in self.lanes:
            lane.expire()

    def key_bytes(self) -> int:
        return sum([lane.keys.bytes for lane in self.lanes])

    def kept_keys(self) -> int:
        return sum([len(lane.keys) for lane in self.lanes])

    def takeovers(self) -> int:
        return sum([lane.takeovers for lane in self.lanes])

    async def close(self) -> None:
        """Once no request is open."""
        for lane in [*self.lanes, self._batches]:
            await lane.close()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._single.producer.flush, RETRY_S)
        self._poller.stop()
        self._log.close()
        self._executor.shutdown(wait=False)

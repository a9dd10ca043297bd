"""A producer in the event loop: a record goes out, and a future has its place once all in-sync replicas have it.

The loop itself polls the producers, in short turns while deliveries are open. A thread that polls would have to get the
GIL for each delivery, and could wait for it as long as a switch takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.ingest.answers import Place
from moneystate.ingest.refusals import Refused
from moneystate.ingest.topics import Outgoing
from moneystate.kafka.client import base_config, new_client
from moneystate.kafka.sizes import PRODUCER_BYTES, PRODUCER_SETTING

BUSY_S: Final = 0.002  # between two polls while deliveries are open
IDLE_S: Final = 0.2
RETRY_S: Final = 1.0
QUEUE_RECORDS: Final = 100_000
LINGER_MS: Final = 5
NOT_STARTED: Final = (  # the record cannot be in the log
    KafkaError._PURGE_QUEUE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


FATAL: Final = KafkaError(KafkaError._FATAL, "a fatal error", True)
TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)


class Undelivered(Exception):
    """A record was not confirmed."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error)
        self.error = error

    @property
    def is_too_large(self) -> bool:
        return self.error.code() in TOO_LARGE


def producer_config(servers: str, extra: dict[str, str], timeout_s: float, **more: Any) -> dict[str, Any]:
    """The settings of all producers of this command."""
    return {
        "linger.ms": LINGER_MS,
        "compression.type": "lz4",
        "queue.buffering.max.messages": QUEUE_RECORDS,
        PRODUCER_SETTING: PRODUCER_BYTES,
        **base_config(servers, extra),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "message.timeout.ms": round(timeout_s * 1000),
        **more,
    }


class Poller:
    """Polls producers as long as it runs."""

    def __init__(self) -> None:
        self._open: dict[Deliveries, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_busy = False

    def add(self, deliveries: Deliveries) -> None:
        self._open[deliveries] = None
        if self._timer is None:
            self._plan()

    def remove(self, deliveries: Deliveries) -> None:
        self._open.pop(deliveries, None)

    def wake(self) -> None:
        """There are deliveries to wait for."""
        if not self._is_busy:
            self._plan()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        self.stop()
        self._is_busy = any(one.open for one in self._open)
        self._timer = asyncio.get_running_loop().call_later(BUSY_S if self._is_busy else IDLE_S, self._turn)

    def _turn(self) -> None:
        for one in list(self._open):
            one.poll()
        self._plan()


class Deliveries:
    """A producer with its open deliveries. Its calls belong to the event loop."""

    def __init__(self, config: dict[str, Any], poller: Poller, failed: Callable[[KafkaError], None]) -> None:
        """`failed`: is told about errors of the client and of deliveries. Raises ConfigError."""
        self.producer = new_client(Producer, {**config, "error_cb": failed})
        self.fatal: KafkaError | None = None  # the error after which the producer is of no use any more
        self._open: set[asyncio.Future[Place]] = set()
        self._failed = failed
        self._poller = poller
        poller.add(self)

    @property
    def open(self) -> int:
        return len(self._open)

    def send(self, outgoing: Outgoing, partition: int | None = None) -> asyncio.Future[Place]:
        """The future raises Undelivered. Raises Refused for a record that cannot be taken at all."""
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()

        def delivered(error: KafkaError | None, message: Any) -> None:
            self._open.discard(future)
            if future.done():  # its request was given up
                return
            if error is None:
                future.set_result((message.partition(), message.offset()))
            else:
                self._failed(error)
                future.set_exception(Undelivered(error))

        topic, key, value, headers = outgoing
        more: dict[str, Any] = {} if partition is None else {"partition": partition}
        if headers is not None:
            more["headers"] = headers
        try:
            self.producer.produce(topic, value, key, on_delivery=delivered, **more)
        except BufferError:
            raise Refused("QUEUE_FULL", "the queue to Kafka is full; send it again.", retry_s=RETRY_S) from None
        except KafkaException as e:
            raise refused(Undelivered(e.args[0])) from None
        self._open.add(future)
        if len(self._open) == 1:
            self._poller.wake()
        return future

    def poll(self) -> None:
        """Serves what has been delivered."""
        try:
            self.producer.poll(0)
        except KafkaException as e:
            self._end(e.args[0])
        except SystemError as e:  # a callback ran after the client had set the error
            cause = e.__cause__
            self._end(cause.args[0] if isinstance(cause, KafkaException) else FATAL)

    def _end(self, error: KafkaError) -> None:
        """The client raises errors that are fatal, such as that of a producer that was fenced, out of `poll`. It
        delivers nothing after that."""
        self.fatal = error
        self._failed(error)
        self.let_go()
        for future in self._open:
            if not future.done():
                future.set_exception(Undelivered(error))
        self._open.clear()

    def let_go(self) -> None:
        """Polls no longer. The open deliveries stay open."""
        self._poller.remove(self)


def refused(undelivered: Undelivered) -> Refused:
    """Returns what a caller is told about a record that was not confirmed, outside of transactions."""
    if undelivered.is_too_large:
        return too_large_for_topic()
    return unavailable() if undelivered.error.code() in NOT_STARTED else unknown_outcome()


def too_large_for_topic() -> Refused:
    return Refused("RECORD_TOO_LARGE", "expected a record that the topic takes, but it is too large for it.")


def unavailable() -> Refused:
    return Refused("UNAVAILABLE", "Kafka cannot be reached at the moment; nothing was written.", retry_s=RETRY_S)


def unknown_outcome() -> Refused:
    return Refused("UNKNOWN_OUTCOME", "Kafka has not confirmed it in time; it may be in the log.", retry_s=RETRY_S)

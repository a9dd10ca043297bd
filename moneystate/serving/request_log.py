"""Writes requests of callers to a topic that a job reads."""

from __future__ import annotations

import asyncio
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moneystate.kafka.client import base_config, new_client, place, reason
from moneystate.serving.failures import Failure

DELIVERY_S: Final = 20.0  # longer than the restart of a broker
RETRY_S: Final = 1.0


class RequestLog:
    """The producer is created for the first request, because most servers never get one."""

    def __init__(self, bootstrap_servers: str, topic: str, extra: dict[str, str]) -> None:
        self.topic = topic  # with its prefix
        self.config = {
            **base_config(bootstrap_servers, extra),
            "enable.idempotence": True,  # acks=all with it
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "delivery.timeout.ms": int(DELIVERY_S * 1000),
        }
        self.producer: Producer | None = None

    async def write(self, key: bytes, event: bytes) -> tuple[int, int]:
        """Writes the event, and waits for the brokers. Returns partition and offset. Raises Failure LOG_UNAVAILABLE."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[tuple[int, int]] = loop.create_future()

        def delivered(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
            loop.call_soon_threadsafe(_complete, written, error, message)

        if self.producer is None:
            self.producer = new_client(Producer, self.config)
        try:
            self.producer.produce(self.topic, event, key=key, on_delivery=delivered)
        except (BufferError, KafkaException) as e:
            raise _unavailable(str(e)) from None
        while not written.done():
            await asyncio.to_thread(self.producer.poll, 0.1)
        return written.result()

    def close(self) -> None:
        if self.producer is not None:
            self.producer.flush(DELIVERY_S)


def _complete(
    written: asyncio.Future[tuple[int, int]], error: KafkaError | None, message: Message[bytes, bytes]
) -> None:
    if written.cancelled():
        return
    if error is not None:
        written.set_exception(_unavailable(reason(KafkaException(error))))
    else:
        written.set_result(place(message)[1:])


def _unavailable(why: str) -> Failure:
    return Failure("LOG_UNAVAILABLE", f"expected to write the request to the log, but {why}", retry_s=RETRY_S)

"""The service Admin (proto/moneystate/query/v1/admin.proto). A request to forget a user is an event in the log, so that
replays and bootstraps apply it, too."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moneystate.engine.avro import string_bytes, write_long
from moneystate.kafka.client import base_config, new_client, place, reason
from moneystate.query.v1 import admin_pb2 as a
from moneystate.replica.model import Source
from moneystate.serving import messages, requests
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure
from services.enrichment import fingerprints as fp
from services.enrichment.replica.reads import Reads
from services.enrichment.topics import INPUTS, USER_EVENTS

TOPIC: Final = next(t.name for t in INPUTS if t.code == USER_EVENTS)
DELIVERY_S: Final = 20.0  # longer than the restart of a broker
RETRY_S: Final = 1.0


def forget_user_requested(request_id: str, user_id: str, processed_at_ms: int, requested_by: str) -> bytes:
    """The event (avro/events/ForgetUserRequested.avsc), single-object encoded."""
    out = bytearray(fp.FORGET_USER_REQUESTED)
    out += string_bytes(request_id.encode()) + string_bytes(user_id.encode())
    write_long(out, processed_at_ms)
    out += string_bytes(requested_by.encode())
    return bytes(out)


class RequestLog:
    """Writes requests to the topic of user events. The producer is created for the first request, because most servers
    never get one."""

    def __init__(self, bootstrap_servers: str, topic_prefix: str, extra: dict[str, str]) -> None:
        self.topic = topic_prefix + TOPIC
        self.config = {
            **base_config(bootstrap_servers, extra),
            "enable.idempotence": True,  # acks=all with it
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "delivery.timeout.ms": int(DELIVERY_S * 1000),
        }
        self.producer: Producer | None = None

    async def write(self, user_id: str, event: bytes) -> tuple[int, int]:
        """Writes the event, and waits for the brokers. Returns partition and offset. Raises Failure LOG_UNAVAILABLE."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[tuple[int, int]] = loop.create_future()

        def delivered(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
            loop.call_soon_threadsafe(_complete, written, error, message)

        if self.producer is None:
            self.producer = new_client(Producer, self.config)
        try:
            self.producer.produce(self.topic, event, key=user_id.encode(), on_delivery=delivered)
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


class AdminService:
    def __init__(self, reads: Reads, log: RequestLog) -> None:
        self.reads = reads
        self.log = log

    async def forget_user(self, request: a.ForgetUserRequest, call: Call) -> a.ForgetUserResponse:
        """Writes the request as an event. Its event time is the known watermark, so that it does not advance time. The
        job processes it at the watermark at which it reads it (DESIGN.md section 2)."""
        user_id = requests.name(request.user_id, "user_id")
        request_id = requests.optional_name(request.request_id, "request_id") or str(uuid.uuid4())
        header = self.reads.latest().header
        known = 0 if header.watermark_ms is None else header.watermark_ms
        processed_at_ms = min(known, int(time.time() * 1000))  # a drained job's watermark is the end of time
        by = call.caller.subject or call.caller.peer
        call.touched, call.changed, call.version = [user_id], True, header.version
        event = forget_user_requested(request_id, user_id, processed_at_ms, by)
        partition, offset = await self.log.write(user_id, event)
        return a.ForgetUserResponse(
            header=messages.header(header),
            request_id=request_id,
            request=messages.source(Source(TOPIC, partition, offset, processed_at_ms)),
        )

    def get_forgotten(self, request: a.GetForgottenRequest, call: Call) -> a.GetForgottenResponse:
        user_id = requests.name(request.user_id, "user_id")
        snapshot = self.reads.latest()
        proof = snapshot.forgotten(user_id)
        return a.GetForgottenResponse(
            header=messages.header(snapshot.header),
            request_id=proof.request_id,
            forgotten_at_ms=proof.forgotten_at_ms,
            request=messages.source(proof.source),
            requested_by=proof.requested_by,
        )

"""The service Admin (proto/moneystate/query/v1/admin.proto). A request to forget a user is an event in the log, so that
replays and bootstraps apply it, too."""

from __future__ import annotations

import time
import uuid
from typing import Final

from moneystate.engine.avro import string_bytes, write_long
from moneystate.query.v1 import admin_pb2 as a
from moneystate.replica.model import Source
from moneystate.serving import messages, requests
from moneystate.serving.calls import Call
from moneystate.serving.request_log import RequestLog
from services.enrichment import fingerprints as fp
from services.enrichment.replica.reads import Reads
from services.enrichment.topics import INPUTS, USER_EVENTS

TOPIC: Final = next(t.name for t in INPUTS if t.code == USER_EVENTS)


def forget_user_requested(request_id: str, user_id: str, processed_at_ms: int, requested_by: str) -> bytes:
    """The event (avro/events/ForgetUserRequested.avsc), single-object encoded."""
    out = bytearray(fp.FORGET_USER_REQUESTED)
    out += string_bytes(request_id.encode()) + string_bytes(user_id.encode())
    write_long(out, processed_at_ms)
    out += string_bytes(requested_by.encode())
    return bytes(out)


class AdminService:
    def __init__(self, reads: Reads, log: RequestLog) -> None:
        self.reads = reads
        self.log = log

    async def forget_user(self, request: a.ForgetUserRequest, call: Call) -> a.ForgetUserResponse:
        """Writes the request as an event. Its event time is the known watermark, so that it does not advance time. The
        job processes it at the watermark at which it reads it (docs/model.md section 2)."""
        user_id = requests.name(request.user_id, "user_id")
        request_id = requests.optional_name(request.request_id, "request_id") or str(uuid.uuid4())
        header = self.reads.latest().header
        known = 0 if header.watermark_ms is None else header.watermark_ms
        processed_at_ms = min(known, int(time.time() * 1000))  # a drained job's watermark is the end of time
        by = call.caller.subject or call.caller.peer
        call.touched, call.changed, call.version = [user_id], True, header.version
        event = forget_user_requested(request_id, user_id, processed_at_ms, by)
        partition, offset = await self.log.write(user_id.encode(), event)
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

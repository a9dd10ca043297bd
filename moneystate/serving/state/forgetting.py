"""The call State.Forget."""

from __future__ import annotations

import time
import uuid

from moneystate.replica.model import EventPlace
from moneystate.replica.reader import ReplicaReader
from moneystate.runtime.plan import Plan
from moneystate.serving import header_messages, requests
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure, malformed
from moneystate.serving.request_log import RequestLog
from moneystate.serving.state.contract import key_of
from moneystate.state.v1 import state_pb2 as s


class StateForgetting:
    """Writes requests as events, so that replays and bootstraps apply them, too."""

    def __init__(self, reader: ReplicaReader, plan: Plan, log: RequestLog | None) -> None:
        """`log`: of the input that the service declares for requests; None: it declares none."""
        self.reader = reader
        self.forgetting = plan.forgetting
        self.log = log

    async def forget(self, request: s.ForgetRequest, call: Call) -> s.ForgetResponse:
        """The event time is the known watermark, so that the event does not advance time. The job processes it at the
        watermark at which it reads it."""
        key = key_of(request.key, "key").decode()
        id = requests.optional_name(request.request_id, "request_id") or str(uuid.uuid4())
        if self.forgetting is None or self.log is None:
            raise Failure("MALFORMED", "expected a service that declares forgetting, found one that does not")
        header = self.reader.latest().header
        known = 0 if header.watermark_ms is None else header.watermark_ms
        time_ms = max(0, min(known, int(time.time() * 1000)))  # a drained job's watermark is the end of time
        by = call.caller.subject or call.caller.peer
        call.touched, call.changed, call.version = [key], True, header.version
        try:
            record_key, event = self.forgetting.event(key, time_ms, id, by)
        except Exception as e:  # of the service's code
            raise malformed("key", f"the service's record refused the request: {type(e).__name__}") from None
        partition, offset = await self.log.write(record_key, event)
        topic = self.forgetting.input.topic
        return s.ForgetResponse(
            header=header_messages.header(header),
            request_id=id,
            request=header_messages.source(EventPlace(topic, partition, offset, time_ms)),
        )

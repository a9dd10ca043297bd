"""The service Watch (proto/moneystate/query/v1/watch.proto)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Final

from google.protobuf.message import Message

from moneystate.query.v1 import header_pb2
from moneystate.query.v1 import watch_pb2 as w
from moneystate.serving import messages, requests
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call
from moneystate.serving.failures import Failure
from moneystate.serving.paging import PIECE, ROOM_BYTES, note
from moneystate.serving.pulse import Pulse
from services.enrichment.replica.model import UserView
from services.enrichment.replica.reads import Reads
from services.enrichment.serving.messages import Messages

PROGRESS_S: Final = 5.0  # a stream without changes says at least so often how far it has come


class Watching:
    def __init__(self, reads: Reads, pulse: Pulse) -> None:
        self.reads = reads
        self.pulse = pulse

    async def watch_user(self, request: w.WatchUserRequest, call: Call) -> AsyncIterator[Message]:
        user_id = requests.name(request.user_id, "user_id")
        to = Messages(call.caller.personal)
        async for header, found, _ in self._follow(user_id, request.HasField("after"), request.after, call):
            change = _change(to, *found[0]) if found else None
            if change is not None:
                note(call, user_id)
            yield w.WatchUserResponse(header=header, change=change)

    async def watch(self, request: w.WatchRequest, call: Call) -> AsyncIterator[Message]:
        to = Messages(call.caller.personal)
        async for header, found, more in self._follow(None, request.HasField("after"), request.after, call):
            answer = w.WatchResponse(header=header, more=more)
            room = MAX_ANSWER_BYTES - ROOM_BYTES
            for user_id, view in found:
                change = _change(to, user_id, view)
                if change.ByteSize() > room and len(answer.changes):
                    answer.more = True
                    yield answer
                    answer = w.WatchResponse(header=header, more=more)
                    room = MAX_ANSWER_BYTES - ROOM_BYTES
                room -= change.ByteSize() + 8
                note(call, user_id)
                answer.changes.append(change)
            yield answer

    async def _follow(
        self, user_id: str | None, resumed: bool, after: header_pb2.Version, call: Call
    ) -> AsyncIterator[tuple[header_pb2.Header, list[tuple[str, UserView | None]], bool]]:
        """Header, changes, and whether more of that version follow. The first comes at once."""
        at = requests.version(after, "after") if resumed else self.reads.latest().header.version
        told_at = float("-inf")
        mark: bytes | None = None
        while True:
            if time.time() >= call.caller.expires_s:
                raise Failure("BAD_TOKEN", "expected a valid token, but it has expired")
            changes = self.reads.changes(at, user_id=user_id, limit=PIECE, mark=mark)
            version = changes.header.version
            if changes.changed or changes.mark is not None or time.monotonic() - told_at > PROGRESS_S:
                call.version = version
                yield messages.header(changes.header), list(changes.changed), changes.mark is not None
                told_at = time.monotonic()
            mark = changes.mark
            if mark is not None or version != at:
                at = at if mark is not None else version
                await call.breathe()
                continue
            await self.pulse.wait(PROGRESS_S)


def _change(to: Messages, user_id: str, view: UserView | None) -> w.WatchedChange:
    return w.WatchedChange(user_id=user_id, user=None if view is None else to.user(view))

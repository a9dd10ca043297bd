"""The service Watch (proto/moneystate/query/v1/watch.proto)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from moneystate.query.v1 import watch_pb2 as w
from moneystate.serving import messages, requests
from moneystate.serving.calls import Call
from moneystate.serving.feed import Feed
from moneystate.serving.following import Following, Position, Told, divided
from moneystate.serving.paging import ITEMS_PER_YIELD
from moneystate.state.v1 import header_pb2
from services.enrichment.replica.model import UserView
from services.enrichment.replica.reads import Reads
from services.enrichment.serving.messages import Messages


class WatchService(Following):
    def __init__(self, reads: Reads, feed: Feed) -> None:
        super().__init__(reads, feed)
        self.reads = reads

    def watch_user(self, request: w.WatchUserRequest, call: Call) -> AsyncGenerator[bytes]:
        user_id = requests.name(request.user_id, "user_id")
        return self.follow(user_id, request.HasField("after"), request.after, call)

    def watch(self, request: w.WatchRequest, call: Call) -> AsyncGenerator[bytes]:
        return self.follow(None, request.HasField("after"), request.after, call)

    def progress(self, key: str | None, header: header_pb2.Header) -> bytes:
        answer = w.WatchResponse(header=header) if key is None else w.WatchUserResponse(header=header)
        return answer.SerializeToString()

    def make(self, position: Position) -> Told:
        changes = self.reads.changes(position.after, user_id=position.key, limit=ITEMS_PER_YIELD, mark=position.mark)
        told = Told(changes.header.version, changes.mark)
        if not changes.changed:
            return told
        header, to = messages.header(changes.header), Messages(position.personal)
        if position.key is not None:
            change = _change(to, *changes.changed[0])
            told.answers.append((w.WatchUserResponse(header=header, change=change).SerializeToString(), [position.key]))
        else:
            each = ((_change(to, user_id, view), user_id) for user_id, view in changes.changed)
            told.answers.extend(divided(each, partial(w.WatchResponse, header=header), changes.mark is not None))
        return told


def _change(to: Messages, user_id: str, view: UserView | None) -> w.WatchedChange:
    return w.WatchedChange(user_id=user_id, user=None if view is None else to.user(view))

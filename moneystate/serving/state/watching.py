"""The call State.Watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from moneystate.replica.service_reader import ServiceReads
from moneystate.replica.service_view import Item
from moneystate.serving import messages
from moneystate.serving.calls import Call
from moneystate.serving.failures import malformed
from moneystate.serving.feed import Feed
from moneystate.serving.following import Following, Position, Told, divided
from moneystate.serving.paging import ITEMS_PER_YIELD
from moneystate.serving.state.contract import key_of
from moneystate.serving.state.messages import Messages
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s


class StateWatch(Following):
    def __init__(self, reads: ServiceReads, feed: Feed) -> None:
        super().__init__(reads, feed)
        self.reads = reads

    def watch(self, request: s.WatchRequest, call: Call) -> AsyncGenerator[bytes]:
        key = key_of(request.key, "key").decode() if request.HasField("key") else None
        if request.encoding not in s.Encoding.values():
            raise malformed("encoding", f"expected an Encoding, found {request.encoding}")
        return self.follow(key, request.HasField("after"), request.after, call, request.encoding)

    def progress(self, key: str | None, header: header_pb2.Header) -> bytes:
        return s.WatchResponse(header=header).SerializeToString()

    def make(self, position: Position) -> Told:
        owner = None if position.key is None else position.key.encode()
        changes = self.reads.item_changes(position.after, owner, ITEMS_PER_YIELD, position.mark)
        told = Told(changes.header.version, changes.mark)
        if not changes.items:
            return told
        plan = self.reads.at_version(changes.header.version).plan
        to = Messages(plan, position.personal, position.form)
        empty = partial(s.WatchResponse, header=messages.header(changes.header))
        told.answers.extend(divided((_change(item, to) for item in changes.items), empty, changes.mark is not None))
        return told


def _change(item: Item, to: Messages) -> tuple[s.Record, str | None]:
    record = to.item(item)
    is_personal = item.record is not None and to.plan.kinds[item.state].codec.personal
    return record, record.name.key if is_personal else None

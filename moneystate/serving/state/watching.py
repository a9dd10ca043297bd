"""The call State.Watch: streams of changes.

Each watcher asks the replica for the changes after its own version. There is no queue in between, so a slow watcher
blocks nothing and costs no memory. Answers that several watchers get are made once.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from moneystate.replica.model import Header, Item, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.serving import header_messages, requests
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call
from moneystate.serving.failures import Failure, malformed
from moneystate.serving.feed import Feed, Watcher
from moneystate.serving.paging import ITEMS_PER_YIELD, ROOM_BYTES, check_fits, note
from moneystate.serving.state.contract import key_of
from moneystate.serving.state.record_messages import RecordMessages
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s

PROGRESS_S: Final = 5.0  # a stream without changes reports its position at least this often
# How long an answer is reused for other watchers: short, because forgotten keys must not stay in one.
CACHED_S: Final = 1.0
CACHED_BYTES: Final = 32 << 20


class Position(NamedTuple):
    """Describes how far a watcher has read."""

    key: str | None  # None: it watches all keys
    after: Version
    mark: bytes | None
    personal: bool
    form: int  # selects how answers are made, besides masking


@dataclass(slots=True)
class Told:
    """The next answers for watchers at a position."""

    version: Version
    mark: bytes | None  # where the rest of the version starts; None: this is the whole version
    # Encoded answers, each with the keys that it is about; empty: nothing changed.
    answers: list[tuple[bytes, list[str]]] = field(default_factory=list)
    size: int = 0
    made_at: float = 0.0


def divided(
    changes: Iterable[tuple[Message, str | None]], empty: Callable[[], Any], more: bool
) -> Iterator[tuple[bytes, list[str]]]:
    """Splits changes into encoded answers that are not too large, each with the keys whose personal fields it has.
    `changes`: with that key; None: no personal fields. `empty`: makes an answer; `more`: other changes follow. Raises
    Failure TOO_BIG."""
    answer, keys, room = empty(), list[str](), MAX_ANSWER_BYTES - ROOM_BYTES
    for change, key in changes:
        check_fits(change)
        size = change.ByteSize()
        if size > room and answer.changes:
            answer.more = True
            yield answer.SerializeToString(), keys
            answer, keys, room = empty(), [], MAX_ANSWER_BYTES - ROOM_BYTES
        room -= size + 8
        answer.changes.append(change)
        if key is not None:
            keys.append(key)
    answer.more = more
    yield answer.SerializeToString(), keys


class StateWatch:
    def __init__(self, reader: ReplicaReader, feed: Feed) -> None:
        self.reader = reader
        self.feed = feed
        self.cached: OrderedDict[Position, Told] = OrderedDict()
        self.cached_bytes = 0

    def watch(self, request: s.WatchRequest, call: Call) -> AsyncGenerator[bytes]:
        key = key_of(request.key, "key").decode() if request.HasField("key") else None
        if request.encoding not in s.Encoding.values():
            raise malformed("encoding", f"expected an Encoding, found {request.encoding}")
        return self._follow(key, request.HasField("after"), request.after, call, request.encoding)

    async def _follow(
        self, key: str | None, resumed: bool, after: header_pb2.Version, call: Call, form: int
    ) -> AsyncGenerator[bytes]:
        """Yields encoded answers, the first one immediately."""
        after_version = requests.version(after, "after") if resumed else self._newest().version
        told_at, mark = float("-inf"), None
        with self.feed.join(key) as watcher:
            await watcher.turn()
            while True:
                # before the read: versions that arrive while this watcher waits for its caller are news
                watcher.news = False
                told = self._told(Position(key, after_version, mark, call.caller.personal, form))
                call.version = told.version
                for answer, keys in told.answers:
                    note(call, *keys)
                    yield answer
                    told_at = time.monotonic()
                before, mark = after_version, told.mark
                after_version = before if mark is not None else told.version
                if mark is not None or after_version not in (before, self.feed.seen):
                    await watcher.turn()
                    call.check_deadline()
                    continue
                if time.monotonic() - told_at >= PROGRESS_S * watcher.share:
                    newest = self._newest()
                    call.version = newest.version
                    yield s.WatchResponse(header=header_messages.header(newest)).SerializeToString()
                    told_at = time.monotonic()
                await self._wait(watcher, told_at, call)
                if not watcher.news and self.feed.seen is not None:
                    after_version = self.feed.seen  # no later version concerned it

    def _newest(self) -> Header:
        return self.reader.latest().header

    async def _wait(self, watcher: Watcher, told_at: float, call: Call) -> None:
        """Waits for news, or until a progress report is due. Raises Failure BAD_TOKEN, DRAINING."""
        lasts_s = call.caller.expires_s - time.time()
        await watcher.wait(min(told_at + PROGRESS_S * watcher.share - time.monotonic(), lasts_s))
        if time.time() >= call.caller.expires_s:
            raise Failure("BAD_TOKEN", "expected a valid token, but it has expired")

    def _told(self, position: Position) -> Told:
        """The answers for a position: those made for another watcher, or new ones."""
        now = time.monotonic()
        while self.cached and (
            self.cached_bytes > CACHED_BYTES or next(iter(self.cached.values())).made_at + CACHED_S < now
        ):
            self.cached_bytes -= self.cached.popitem(last=False)[1].size
        told = self.cached.get(position)
        if told is None:
            told = self._make(position)
            if told.answers:  # an answer without changes is only valid now
                told.made_at = now
                told.size = sum(len(answer) for answer, _ in told.answers)
                self.cached[position] = told
                self.cached_bytes += told.size
        return told

    def _make(self, position: Position) -> Told:
        owner = None if position.key is None else position.key.encode()
        changes = self.reader.item_changes(position.after, owner, ITEMS_PER_YIELD, position.mark)
        told = Told(changes.header.version, changes.mark)
        if not changes.items:
            return told
        plan = self.reader.at_version(changes.header.version).plan
        to = RecordMessages(plan, position.personal, position.form)
        empty = partial(s.WatchResponse, header=header_messages.header(changes.header))
        told.answers.extend(divided((_change(item, to) for item in changes.items), empty, changes.mark is not None))
        return told


def _change(item: Item, to: RecordMessages) -> tuple[s.Record, str | None]:
    record = to.item(item)
    is_personal = item.record is not None and to.plan.kinds[item.state].codec.personal
    return record, record.name.key if is_personal else None

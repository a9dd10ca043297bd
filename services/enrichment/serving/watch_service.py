"""The service Watch (proto/moneystate/query/v1/watch.proto).

Watchers look at the replica, which tells each of them what changed after the version that it has: no queue stands
between them, so a slow one holds nothing up and costs no memory. What several of them are told is made once.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Final

from moneystate.query.v1 import header_pb2
from moneystate.query.v1 import watch_pb2 as w
from moneystate.replica.model import Changes, Version
from moneystate.serving import messages, requests
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call
from moneystate.serving.failures import Failure
from moneystate.serving.feed import Feed, Watcher
from moneystate.serving.paging import ITEMS_PER_YIELD, ROOM_BYTES, note
from services.enrichment.replica.model import UserView
from services.enrichment.replica.reads import Reads
from services.enrichment.serving.messages import Messages

PROGRESS_S: Final = 5.0  # a stream without changes says at least so often how far it has come
KEPT_S: Final = 1.0  # how long an answer serves other watchers: a user who is forgotten must not stay in any
KEPT_BYTES: Final = 32 << 20

PagePosition = tuple[str | None, Version, bytes | None, bool]  # user, after which version, mark, whether unmasked


@dataclass(slots=True)
class Told:
    """What a watcher at a place is told next. `answers`: encoded, with the users that each is about; none where nothing
    changed. `mark`: where the rest of the version begins."""

    version: Version
    mark: bytes | None
    answers: list[tuple[bytes, list[str]]] = field(default_factory=list)
    size: int = 0
    made_at: float = 0.0


class WatchService:
    def __init__(self, reads: Reads, feed: Feed) -> None:
        self.reads = reads
        self.feed = feed
        self.kept: OrderedDict[PagePosition, Told] = OrderedDict()
        self.kept_bytes = 0

    def watch_user(self, request: w.WatchUserRequest, call: Call) -> AsyncGenerator[bytes]:
        user_id = requests.name(request.user_id, "user_id")
        return self._follow(user_id, request.HasField("after"), request.after, call)

    def watch(self, request: w.WatchRequest, call: Call) -> AsyncGenerator[bytes]:
        return self._follow(None, request.HasField("after"), request.after, call)

    async def _follow(
        self, user_id: str | None, resumed: bool, after: header_pb2.Version, call: Call
    ) -> AsyncGenerator[bytes]:
        """Encoded answers. The first comes at once."""
        after_version = requests.version(after, "after") if resumed else self.reads.latest().header.version
        told_at, mark = float("-inf"), None
        with self.feed.join(user_id) as watcher:
            await watcher.turn()
            while True:
                watcher.news = False  # before the look: what comes while this one waits for its caller is news
                told = self._told((user_id, after_version, mark, call.caller.personal))
                call.version = told.version
                for answer, users in told.answers:
                    note(call, *users)
                    yield answer
                    told_at = time.monotonic()
                before, mark = after_version, told.mark
                after_version = before if mark is not None else told.version
                if mark is not None or after_version not in (before, self.feed.seen):
                    await watcher.turn()
                    call.check_deadline()
                    continue
                if time.monotonic() - told_at >= PROGRESS_S * watcher.share:
                    yield self._progress(user_id, call)
                    told_at = time.monotonic()
                await self._wait(watcher, told_at, call)
                if not watcher.news and self.feed.seen is not None:
                    after_version = self.feed.seen  # no version since concerned it

    async def _wait(self, watcher: Watcher, told_at: float, call: Call) -> None:
        """For news, or until there is something to say all the same. Raises Failure BAD_TOKEN, DRAINING."""
        lasts_s = call.caller.expires_s - time.time()
        await watcher.wait(min(told_at + PROGRESS_S * watcher.share - time.monotonic(), lasts_s))
        if time.time() >= call.caller.expires_s:
            raise Failure("BAD_TOKEN", "expected a valid token, but it has expired")

    def _progress(self, user_id: str | None, call: Call) -> bytes:
        """An answer without changes."""
        newest = self.reads.latest().header
        call.version = newest.version
        header = messages.header(newest)
        answer = w.WatchResponse(header=header) if user_id is None else w.WatchUserResponse(header=header)
        return answer.SerializeToString()

    def _told(self, place: PagePosition) -> Told:
        """As it was made for another watcher, or new."""
        now = time.monotonic()
        while self.kept and (self.kept_bytes > KEPT_BYTES or next(iter(self.kept.values())).made_at + KEPT_S < now):
            self.kept_bytes -= self.kept.popitem(last=False)[1].size
        told = self.kept.get(place)
        if told is None:
            told = self._make(*place)
            if told.answers:  # else it is true of this moment only
                told.made_at = now
                told.size = sum(len(answer) for answer, _ in told.answers)
                self.kept[place] = told
                self.kept_bytes += told.size
        return told

    def _make(self, user_id: str | None, after_version: Version, mark: bytes | None, personal: bool) -> Told:
        changes = self.reads.changes(after_version, user_id=user_id, limit=ITEMS_PER_YIELD, mark=mark)
        told = Told(changes.header.version, changes.mark)
        if not changes.changed:
            return told
        header, to = messages.header(changes.header), Messages(personal)
        if user_id is not None:
            change = _change(to, *changes.changed[0])
            told.answers.append((w.WatchUserResponse(header=header, change=change).SerializeToString(), [user_id]))
        else:
            told.answers.extend(_of_all(header, to, changes))
        return told


def _of_all(header: header_pb2.Header, to: Messages, changes: Changes[UserView]) -> Iterator[tuple[bytes, list[str]]]:
    more = changes.mark is not None
    answer, users = w.WatchResponse(header=header, more=more), list[str]()
    room = MAX_ANSWER_BYTES - ROOM_BYTES
    for user_id, view in changes.changed:
        change = _change(to, user_id, view)
        if change.ByteSize() > room and users:
            answer.more = True
            yield answer.SerializeToString(), users
            answer, users = w.WatchResponse(header=header, more=more), []
            room = MAX_ANSWER_BYTES - ROOM_BYTES
        room -= change.ByteSize() + 8
        answer.changes.append(change)
        users.append(user_id)
    yield answer.SerializeToString(), users


def _change(to: Messages, user_id: str, view: UserView | None) -> w.WatchedChange:
    return w.WatchedChange(user_id=user_id, user=None if view is None else to.user(view))

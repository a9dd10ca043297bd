"""Pins a version and answers in pages.

Calls that cost more than a point read run in bounded pieces, so that other callers' point reads run in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from moneystate.replica.model import Page
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.snapshot import Snapshot
from moneystate.serving import requests
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call, title_of, too_big
from moneystate.serving.failures import malformed
from moneystate.serving.page_tokens import PagePosition, PageTokens

ROOM_BYTES: Final = 64 << 10  # for the header, and the frames around items
PAGE_BYTES: Final = 3_000_000  # of several items: the page token repeats a key and an id, which may be long
ITEMS_PER_YIELD: Final = 50  # items that are read without a pause: a few ms at most

Item = TypeVar("Item")


class Pages:
    def __init__(self, reader: ReplicaReader, tokens: PageTokens) -> None:
        self.reader = reader
        self.tokens = tokens

    def pin(self, request: Any, call: Call) -> Snapshot:
        snapshot = requests.snapshot(self.reader, request.at)
        call.version = snapshot.header.version
        return snapshot

    def pin_both(self, request: Any, call: Call) -> tuple[Snapshot, Snapshot]:
        start = getattr(request, "from")
        if start.WhichOneof("at") is None:
            raise malformed("from", "expected a version or an event time, found neither")
        before = requests.snapshot(self.reader, start, "from")
        after = requests.snapshot(self.reader, request.to, "to")
        call.version = after.header.version
        return before, after

    def resume_both(self, request: Any, call: Call) -> tuple[Snapshot, Snapshot, bytes | None]:
        """The versions of a listing of differences, and where it continues."""
        place = self.place(request)
        if place is None:
            return *self.pin_both(request, call), None
        before, after = (self.reader.at_version(version) for version in place.versions)
        call.version = after.header.version
        return before, after, place.after

    def place(self, request: Any) -> PagePosition | None:
        return self.tokens.read(request, request.page_token) if request.page_token else None

    def resume(self, request: Any, call: Call) -> tuple[Snapshot, bytes | None]:
        """The version of a listing, and where it continues."""
        place = self.place(request)
        if place is None:
            return self.pin(request, call), None
        snapshot = self.reader.at_version(place.versions[0])
        call.version = snapshot.header.version
        return snapshot, place.after

    def next_page(self, request: Message, snapshots: tuple[Snapshot, ...], after: bytes | None) -> str:
        if after is None:
            return ""
        return self.tokens.issue(request, PagePosition(tuple(s.header.version for s in snapshots), after))


async def fill(
    into: Any,
    read: Callable[[int, bytes | None], Page[Item]],
    message: Callable[[Item], Any],
    asked: int,
    after: bytes | None,
    call: Call,
) -> bytes | None:
    """Collects items until the page or the answer is full or there are no more. Returns where to continue."""
    left = requests.page_size(asked)
    room = PAGE_BYTES
    while True:
        page = read(min(left, ITEMS_PER_YIELD), after)
        made = [message(item) for item in page.items]
        fitting, room = _fitting(made, room)
        if fitting < len(made):
            if not fitting and not len(into):
                check_fits(made[0])
                fitting = 1
            if fitting:
                # the mark after the last item that fits; reading again at a pinned version gives the same
                page = read(fitting, after)
                into.extend(made[: len(page.items)])
                after = page.after
            return after
        into.extend(made)
        left -= len(made)
        after = page.after
        if after is None or not left:
            return after
        await call.yield_control()


def check_fits(message: Any) -> None:
    """Raises Failure TOO_BIG for a message that no answer can hold."""
    size = message.ByteSize()
    if size > MAX_ANSWER_BYTES - ROOM_BYTES:
        raise too_big(title_of(message), size)


def note(call: Call, *user_ids: str) -> None:
    """Records for the audit log that personal fields of these keys are returned."""
    if call.caller.personal:
        call.touched.extend(user_ids)


def _fitting(made: list[Any], room: int) -> tuple[int, int]:
    """The number of items that fit, and the room that is left."""
    for index, message in enumerate(made):
        size = message.ByteSize() + 8
        if size > room:
            return index, room
        room -= size
    return len(made), room

"""A page of a user's state: items that are stored by an id (docs/model.md sections 3 and 6).

The value is `UserPage` (`avro/state/`). It is an entry, or part of a small user's record.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine import avro
from moneystate.engine.avro import read_block, read_bytes, read_long, string_bytes, write_block, write_long
from moneystate.engine.items import NO_TIME
from services.enrichment.events import Reply
from services.enrichment.money_ids import read_id, skip_id
from services.enrichment.source import optional, read_source

POSITION_BYTES: Final = 13

Lookup = tuple[bytes, int, bytes]  # money id, requestedAt in ms, position of the waiting money
POSITION: Final = 2

Session = tuple[int, bytes, bytes]  # when it expires in ms, country, source
EXPIRES: Final = 0
COUNTRY: Final = 1
SOURCE: Final = 2


class Page:
    """A decoded page. The large arrays (ids, types) stay encoded. The small ones are decoded."""

    def __init__(self) -> None:
        self.types_n = 0
        self.types = b""  # the items of an encoded array
        self.ids_n = 0
        self.ids = b""  # the items of an encoded array, in the order of the times at which the ids were seen
        self.sessions: dict[bytes, Session] = {}  # by session id
        self.waiting: dict[bytes, bytes] = {}  # by session id: the concatenated positions of its waiting money
        self.lookups: list[Lookup] = []
        self.replies: list[Reply] = []
        self.counted = 0  # how many of its items are included in `User.items`
        self.stored = False  # the state has an entry of this page
        self.changed = False

    def clear(self) -> None:
        """Removes everything except lookups and replies."""
        self.types_n = self.ids_n = 0
        self.types = self.ids = b""
        self.sessions = {}
        self.waiting = {}
        self.changed = True

    def items(self) -> int:
        return (
            self.types_n + self.ids_n + len(self.sessions) + len(self.waiting) + len(self.lookups) + len(self.replies)
        )

    def type_source(self, money_type: bytes) -> bytes | None:
        """The source of the first event of the type. None: there has been no such event."""
        if self.types.find(string_bytes(money_type)) < 0:
            return None
        pos = 0
        while pos < len(self.types):
            seen, pos = read_bytes(self.types, pos)
            source, pos = read_source(self.types, pos)
            if seen == money_type:
                return source
        return None

    def add_type(self, money_type: bytes, source: bytes) -> None:
        self.types += string_bytes(money_type) + optional(source)
        self.types_n += 1
        self.changed = True

    def each_type(self) -> list[tuple[bytes, bytes]]:
        """Types and the sources of their first events."""
        types: list[tuple[bytes, bytes]] = []
        pos = 0
        while pos < len(self.types):
            money_type, pos = read_bytes(self.types, pos)
            source, pos = read_source(self.types, pos)
            types.append((money_type, source))
        return types

    def seen_at(self, packed: bytes) -> int:
        """When the packed money id (`pack_id`) was last recorded. NO_TIME: it is not recorded."""
        if self.ids.find(packed) < 0:
            return NO_TIME
        # the match may begin inside an item, so compare item by item
        latest = NO_TIME
        pos = 0
        while pos < len(self.ids):
            end = skip_id(self.ids, pos)
            seen_ms, after = read_long(self.ids, end)
            if self.ids[pos:end] == packed:
                latest = seen_ms
            _, pos = read_source(self.ids, after)
        return latest

    def add_id(self, packed: bytes, seen_at: int, source: bytes) -> None:
        self.ids += packed + avro.long_bytes(seen_at) + optional(source)
        self.ids_n += 1
        self.changed = True

    def each_id(self) -> list[tuple[bytes, int, bytes]]:
        """Ids, with the time when they were seen and the source."""
        ids: list[tuple[bytes, int, bytes]] = []
        pos = 0
        while pos < len(self.ids):
            money_id, pos = read_id(self.ids, pos)
            seen_at, pos = read_long(self.ids, pos)
            source, pos = read_source(self.ids, pos)
            ids.append((money_id, seen_at, source))
        return ids

    def drop_ids(self, seen_until: int) -> None:
        """Removes the ids that were seen at `seen_until` or before. The ids are in the order of these times."""
        pos = 0
        dropped = 0
        while pos < len(self.ids):
            seen_ms, end = read_long(self.ids, skip_id(self.ids, pos))
            if seen_ms > seen_until:
                break
            _, pos = read_source(self.ids, end)
            dropped += 1
        if dropped:
            self.ids = self.ids[pos:]
            self.ids_n -= dropped
            self.changed = True

    def first_seen(self) -> int:
        """The time of the oldest id. Raises Malformed if there is none."""
        seen_ms, _ = read_long(self.ids, skip_id(self.ids, 0))
        return seen_ms

    def add_waiting(self, session: bytes, position: bytes) -> None:
        self.waiting[session] = self.waiting.get(session, b"") + position
        self.changed = True

    def is_waiting(self, session: bytes, position: bytes) -> bool:
        positions = self.waiting.get(session, b"")
        index = positions.find(position)
        while index >= 0 and index % POSITION_BYTES:  # the match spans two positions
            index = positions.find(position, index + 1)
        return index >= 0

    def drop_waiting(self, session: bytes, position: bytes) -> None:
        positions = self.waiting.get(session, b"")
        index = positions.find(position)
        while index % POSITION_BYTES:  # the match spans two positions
            index = positions.find(position, index + 1)
        remaining = positions[:index] + positions[index + POSITION_BYTES :]
        if remaining:
            self.waiting[session] = remaining
        else:
            del self.waiting[session]
        self.changed = True

    def open_lookups(self, money_id: bytes, requested_at: int) -> list[bytes]:
        """The positions of the money that waits for the reply to this request."""
        return [position for id, at_ms, position in self.lookups if id == money_id and at_ms == requested_at]

    def close_lookup(self, position: bytes) -> None:
        self.lookups = [lookup for lookup in self.lookups if lookup[POSITION] != position]
        self.changed = True


def split_positions(positions: bytes) -> list[bytes]:
    return [positions[i : i + POSITION_BYTES] for i in range(0, len(positions), POSITION_BYTES)]


def write_optional(out: bytearray, text: bytes | None) -> None:
    if text is None:
        out.append(0)
    else:
        out.append(2)
        avro.write_bytes(out, text)


def read_optional(buf: bytes, pos: int) -> tuple[bytes | None, int]:
    branch, pos = read_long(buf, pos)
    if branch == 0:
        return None, pos
    return read_bytes(buf, pos)


def encode_page(out: bytearray, page: Page) -> None:
    write_block(out, page.types_n, page.types)
    write_block(out, page.ids_n, page.ids)
    items = bytearray()
    for session, (expires, country, source) in page.sessions.items():
        avro.write_bytes(items, session)
        avro.write_bytes(items, country)
        write_long(items, expires)
        items += optional(source)
    write_block(out, len(page.sessions), bytes(items))
    items = bytearray()
    for session, positions in page.waiting.items():
        avro.write_bytes(items, session)
        avro.write_bytes(items, positions)
    write_block(out, len(page.waiting), bytes(items))
    items = bytearray()
    for money_id, requested_at, position in page.lookups:
        avro.write_bytes(items, money_id)
        write_long(items, requested_at)
        avro.write_bytes(items, position)
    write_block(out, len(page.lookups), bytes(items))
    items = bytearray()
    for reply in page.replies:
        avro.write_bytes(items, reply.money_id)
        write_long(items, reply.requested_at)
        write_long(items, reply.outcome)
        write_optional(items, reply.country)
        items += optional(reply.source)
    write_block(out, len(page.replies), bytes(items))


def decode_page(buf: bytes, pos: int) -> tuple[Page, int]:
    page = Page()
    page.types_n, page.types, pos = read_block(buf, pos)
    page.ids_n, page.ids, pos = read_block(buf, pos)
    count, block, pos = read_block(buf, pos)
    item_pos = 0
    for _ in range(count):
        session, item_pos = read_bytes(block, item_pos)
        country, item_pos = read_bytes(block, item_pos)
        expires, item_pos = read_long(block, item_pos)
        source, item_pos = read_source(block, item_pos)
        page.sessions[session] = (expires, country, source)
    count, block, pos = read_block(buf, pos)
    item_pos = 0
    for _ in range(count):
        session, item_pos = read_bytes(block, item_pos)
        page.waiting[session], item_pos = read_bytes(block, item_pos)
    count, block, pos = read_block(buf, pos)
    item_pos = 0
    for _ in range(count):
        money_id, item_pos = read_bytes(block, item_pos)
        requested_at, item_pos = read_long(block, item_pos)
        position, item_pos = read_bytes(block, item_pos)
        page.lookups.append((money_id, requested_at, position))
    count, block, pos = read_block(buf, pos)
    item_pos = 0
    for _ in range(count):
        reply, item_pos = _read_reply(block, item_pos)
        page.replies.append(reply)
    page.counted = page.items()
    return page, pos


def _read_reply(block: bytes, pos: int) -> tuple[Reply, int]:
    money_id, pos = read_bytes(block, pos)
    requested_at, pos = read_long(block, pos)
    outcome, pos = read_long(block, pos)
    country, pos = read_optional(block, pos)
    source, pos = read_source(block, pos)
    return Reply(money_id, requested_at, outcome, country, source), pos

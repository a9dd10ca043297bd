"""A user's state and its bytes (DESIGN.md sections 3 and 6).

State is in bounded pieces: the user record, its pages and its waiting money are entries of their own, so that one hot
user makes no record that a Kafka message cannot take and no batch rewrites more than it touches. Everything that is
known by an id (money types, seen money ids, sessions, waiting money, open lookups, kept replies) stands in the page
`crc32(id) mod 2^depth` of its user; a small user's one page is part of the user record.

Entry keys: `u` user; `p` user, page number (4 bytes, big-endian); `w` user, position of the money (13 bytes). Values:
UserState, UserPage, WaitingMoney (`avro/state/`), single-object encoded.
"""

from __future__ import annotations

import zlib
from typing import Final

from services.engine import avro
from services.engine.avro import Malformed, read_block, read_bytes, read_long, string_bytes, write_block, write_long
from services.engine.items import NO_TIME, Item
from services.enrichment import fingerprints as fp
from services.enrichment.events import Reply

POSITION_BYTES: Final = 13

Lookup = tuple[bytes, int, bytes]  # money id, requestedAt in ms, position of the waiting money


def user_key(user: bytes) -> bytes:
    return b"u" + user


def page_key(user: bytes, number: int) -> bytes:
    return b"p" + user + number.to_bytes(4, "big")


def waiting_key(user: bytes, position: bytes) -> bytes:
    return b"w" + user + position


def position_of(item: Item) -> bytes:
    """Where an event stands in the log, as bytes that sort like it."""
    return item[3].to_bytes(1, "big") + item[4].to_bytes(4, "big") + item[5].to_bytes(8, "big")


class Page:
    """One page. Ids and types stay as the bytes of their arrays; the rest is small and taken apart."""

    def __init__(self) -> None:
        self.types_n = 0
        self.types = b""
        self.ids_n = 0
        self.ids = b""
        self.sessions: dict[bytes, tuple[int, bytes]] = {}  # id -> expires, country
        self.waiting: dict[bytes, bytes] = {}  # session id -> positions
        self.lookups: list[Lookup] = []
        self.replies: list[Reply] = []
        self.counted = 0  # of its items, those that the user's count has
        self.stored = False  # there is an entry of this page
        self.changed = False

    def items(self) -> int:
        return (
            self.types_n + self.ids_n + len(self.sessions) + len(self.waiting) + len(self.lookups) + len(self.replies)
        )

    def has_type(self, money_type: bytes) -> bool:
        needle = string_bytes(money_type)
        if self.types.find(needle) < 0:
            return False
        pos = 0
        while pos < len(self.types):
            seen, pos = read_bytes(self.types, pos)
            if seen == money_type:
                return True
        return False

    def add_type(self, money_type: bytes) -> None:
        self.types += string_bytes(money_type)
        self.types_n += 1
        self.changed = True

    def seen_at(self, money_id: bytes) -> int:
        """When the money id was last seen as the first, NO_TIME if it was not."""
        if self.ids.find(string_bytes(money_id)) < 0:
            return NO_TIME
        # found, but perhaps not where an item begins: only a walk can tell
        found = NO_TIME
        pos = 0
        while pos < len(self.ids):
            seen, pos = read_bytes(self.ids, pos)
            at, pos = read_long(self.ids, pos)
            if seen == money_id:
                found = at
        return found

    def add_id(self, money_id: bytes, seen_at: int) -> None:
        self.ids += string_bytes(money_id) + avro.long_bytes(seen_at)
        self.ids_n += 1
        self.changed = True

    def drop_ids(self, seen_until: int) -> None:
        """Forget the ids seen at `seen_until` or before; they stand in the order of their times."""
        pos = 0
        dropped = 0
        while pos < len(self.ids):
            _, end = avro.skip_bytes(self.ids, pos)
            at, end = read_long(self.ids, end)
            if at > seen_until:
                break
            pos = end
            dropped += 1
        if dropped:
            self.ids = self.ids[pos:]
            self.ids_n -= dropped
            self.changed = True

    def first_seen(self) -> int:
        """The time of the oldest id. Raises Malformed where there is none."""
        _, pos = avro.skip_bytes(self.ids, 0)
        at, _ = read_long(self.ids, pos)
        return at

    def add_waiting(self, session: bytes, position: bytes) -> None:
        self.waiting[session] = self.waiting.get(session, b"") + position
        self.changed = True

    def is_waiting(self, session: bytes, position: bytes) -> bool:
        positions = self.waiting.get(session, b"")
        at = positions.find(position)
        while at >= 0 and at % POSITION_BYTES:  # found across two of them
            at = positions.find(position, at + 1)
        return at >= 0

    def drop_waiting(self, session: bytes, position: bytes) -> None:
        positions = self.waiting.get(session, b"")
        at = positions.find(position)
        while at % POSITION_BYTES:  # found across two of them
            at = positions.find(position, at + 1)
        left = positions[:at] + positions[at + POSITION_BYTES :]
        if left:
            self.waiting[session] = left
        else:
            del self.waiting[session]
        self.changed = True

    def open_lookups(self, money_id: bytes, requested_at: int) -> list[bytes]:
        """The positions of the money of this pair that is sent to lookup."""
        return [p for id, at, p in self.lookups if id == money_id and at == requested_at]

    def close_lookup(self, position: bytes) -> None:
        self.lookups = [lookup for lookup in self.lookups if lookup[2] != position]
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
    for session, (expires, country) in page.sessions.items():
        avro.write_bytes(items, session)
        avro.write_bytes(items, country)
        write_long(items, expires)
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
    write_block(out, len(page.replies), bytes(items))


def decode_page(buf: bytes, pos: int) -> tuple[Page, int]:
    page = Page()
    page.types_n, page.types, pos = read_block(buf, pos)
    page.ids_n, page.ids, pos = read_block(buf, pos)
    count, block, pos = read_block(buf, pos)
    at = 0
    for _ in range(count):
        session, at = read_bytes(block, at)
        country, at = read_bytes(block, at)
        expires, at = read_long(block, at)
        page.sessions[session] = (expires, country)
    count, block, pos = read_block(buf, pos)
    at = 0
    for _ in range(count):
        session, at = read_bytes(block, at)
        page.waiting[session], at = read_bytes(block, at)
    count, block, pos = read_block(buf, pos)
    at = 0
    for _ in range(count):
        money_id, at = read_bytes(block, at)
        requested_at, at = read_long(block, at)
        position, at = read_bytes(block, at)
        page.lookups.append((money_id, requested_at, position))
    count, block, pos = read_block(buf, pos)
    at = 0
    for _ in range(count):
        reply, at = _read_reply(block, at)
        page.replies.append(reply)
    page.counted = page.items()
    return page, pos


def _read_reply(block: bytes, at: int) -> tuple[Reply, int]:
    money_id, at = read_bytes(block, at)
    requested_at, at = read_long(block, at)
    outcome, at = read_long(block, at)
    country, at = read_optional(block, at)
    return Reply(money_id, requested_at, outcome, country), at


class WaitingMoney:
    """Money that waits. `head`: the fields money and userInfo of MoneyEnriched, encoded."""

    def __init__(self, order_time: int, first: bool, head: bytes, money_id: bytes, session: bytes) -> None:
        self.order_time = order_time
        self.requested_at = NO_TIME  # NO_TIME: not sent to lookup
        self.reason = 0
        self.first = first
        self.head = head
        self.money_id = money_id
        self.session = session
        self.stored = False
        self.changed = True
        self.gone = False


def encode_waiting(money: WaitingMoney) -> bytes:
    out = bytearray(fp.WAITING_MONEY)
    write_long(out, money.order_time)
    if money.requested_at == NO_TIME:
        out += b"\x00\x00"
    else:
        out.append(2)
        write_long(out, money.requested_at)
        out.append(2)
        write_long(out, money.reason)
    out.append(1 if money.first else 0)
    out += money.head
    return bytes(out)


def decode_waiting(entry: bytes) -> WaitingMoney:
    if not entry.startswith(fp.WAITING_MONEY):
        raise Malformed("waiting money has a schema that this program does not know")
    order_time, pos = read_long(entry, avro.HEADER_BYTES)
    requested_at = NO_TIME
    branch, pos = read_long(entry, pos)
    if branch == 1:
        requested_at, pos = read_long(entry, pos)
    branch, pos = read_long(entry, pos)
    reason = 0
    if branch == 1:
        reason, pos = read_long(entry, pos)
    first = entry[pos] == 1
    head = entry[pos + 1 :]
    money_id, at = read_bytes(head, 0)
    _, at = avro.skip_bytes(head, at)
    session, _ = read_optional(head, at)
    money = WaitingMoney(order_time, first, head, money_id, b"" if session is None else session)
    money.requested_at = requested_at
    money.reason = reason
    money.stored = True
    money.changed = False
    return money


class User:
    """A user with the pages and the waiting money that a batch has loaded."""

    def __init__(self, id: bytes) -> None:
        self.id = id
        self.birth_year: bytes | None = None
        self.country: bytes | None = None
        self.sweep_at = 0
        self.items = 0
        self.depth = 0
        self.pages: dict[int, Page] = {}
        self.waiting: dict[bytes, WaitingMoney] = {}
        self.stored = False
        self.changed = False

    def page_number(self, id: bytes) -> int:
        if self.depth == 0:
            return 0
        return zlib.crc32(id) & ((1 << self.depth) - 1)

    def page(self, id: bytes) -> Page:
        return self.pages[self.page_number(id)]

    def info(self) -> bytes:
        """The field userInfo of MoneyEnriched, encoded; absent until something is known."""
        if self.birth_year is None and self.country is None:
            return b"\x00"
        out = bytearray(b"\x02")
        write_optional(out, self.birth_year)
        write_optional(out, self.country)
        return bytes(out)


def encode_user(user: User) -> bytes:
    out = bytearray(fp.USER_STATE)
    write_optional(out, user.birth_year)
    write_optional(out, user.country)
    write_long(out, user.sweep_at)
    write_long(out, user.items)
    write_long(out, user.depth)
    if user.depth:
        out.append(0)
    else:
        out.append(2)
        encode_page(out, user.pages[0])
    return bytes(out)


def decode_user(id: bytes, entry: bytes | None) -> User:
    user = User(id)
    if entry is None:
        user.pages[0] = Page()
        return user
    if not entry.startswith(fp.USER_STATE):
        raise Malformed("a user has a state schema that this program does not know")
    user.stored = True
    user.birth_year, pos = read_optional(entry, avro.HEADER_BYTES)
    user.country, pos = read_optional(entry, pos)
    user.sweep_at, pos = read_long(entry, pos)
    user.items, pos = read_long(entry, pos)
    user.depth, pos = read_long(entry, pos)
    branch, pos = read_long(entry, pos)
    if branch == 1:
        user.pages[0], pos = decode_page(entry, pos)
    return user


def decode_page_entry(entry: bytes | None) -> Page:
    if entry is None:
        return Page()
    if not entry.startswith(fp.USER_PAGE):
        raise Malformed("a user's page has a state schema that this program does not know")
    page, _ = decode_page(entry, avro.HEADER_BYTES)
    page.stored = True
    return page


def encode_page_entry(page: Page) -> bytes:
    out = bytearray(fp.USER_PAGE)
    encode_page(out, page)
    return bytes(out)

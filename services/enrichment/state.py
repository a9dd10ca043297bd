"""A user's state and its bytes (docs/model.md sections 3 and 6).

A user's state consists of entries of bounded size: the user record, pages and waiting money. So an entry of a very
active user fits into a Kafka message, and a batch rewrites only the entries that it changes. An item with an id (money
type, seen money id, session, waiting money, open lookup, kept reply) is in the page `crc32(id) mod 2^depth` of its
user. The only page of a small user is part of the user record.

Entry keys: `u` user; `p` user, page number (4 bytes, big-endian); `w` user, position of the money (13 bytes); `f` user,
once forgotten on request. Values: UserState, UserPage, WaitingMoney, ForgottenUser (`avro/state/`), single-object
encoded. Earlier versions can be read (`services.enrichment.migrations`). The current version is written.

The source of a value (`services.enrichment.source`) is stored beside it as bytes. `b""`: the source is not known.
"""

from __future__ import annotations

import zlib
from typing import Final

from moneystate.engine import avro
from moneystate.engine.avro import read_bytes, read_long, write_long
from moneystate.engine.items import NO_TIME, OFFSET, PARTITION, TOPIC, Item
from services.enrichment import fingerprints as fp
from services.enrichment.migrations import to_current
from services.enrichment.page import POSITION_BYTES, Page, decode_page, encode_page, read_optional, write_optional
from services.enrichment.source import optional, read_source

USER: Final = b"u"
PAGE: Final = b"p"
WAITING: Final = b"w"
FORGOTTEN: Final = b"f"
PAGE_NUMBER_BYTES: Final = 4


def user_key(user: bytes) -> bytes:
    return USER + user


def page_key(user: bytes, number: int) -> bytes:
    return PAGE + user + number.to_bytes(4, "big")


def waiting_key(user: bytes, position: bytes) -> bytes:
    return WAITING + user + position


def forgotten_key(user: bytes) -> bytes:
    return FORGOTTEN + user


def owner_of(key: bytes) -> bytes | None:
    """The user of an entry, by its key. None: the entry does not belong to a user."""
    kind = key[:1]
    if kind in (USER, FORGOTTEN):
        return key[1:]
    if kind == PAGE:
        return key[1:-PAGE_NUMBER_BYTES]
    return key[1:-POSITION_BYTES] if kind == WAITING else None


def position_of(item: Item) -> bytes:
    """An event's position in the log, as bytes that sort like it."""
    return item[TOPIC].to_bytes(1, "big") + item[PARTITION].to_bytes(4, "big") + item[OFFSET].to_bytes(8, "big")


class WaitingMoney:
    """Money that waits for its session or for the reply to its lookup."""

    def __init__(
        self, order_time: int, first: bool, head: bytes, money_id: bytes, session: bytes, sources: bytes
    ) -> None:
        self.order_time = order_time
        self.requested_at = NO_TIME  # when its lookup was requested; NO_TIME: it waits for its session
        self.reason = 0  # of the lookup
        self.first = first  # of its type
        self.head = head  # fields money and userInfo of MoneyEnriched, encoded
        self.money_id = money_id
        self.session = session
        # three unions [null, Source]: the earlier event of the type (if not `first`), and the two fields of userInfo
        self.sources = sources
        self.stored = False  # the state has its entry
        self.changed = True
        self.removed = False  # it no longer waits


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
    out += money.sources
    out += money.head
    return bytes(out)


def decode_waiting(entry: bytes) -> WaitingMoney:
    if not entry.startswith(fp.WAITING_MONEY):
        entry = to_current(entry)
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
    start = pos + 1
    pos = start
    for _ in range(3):
        _, pos = read_source(entry, pos)
    sources = entry[start:pos]
    head = entry[pos:]
    money_id, head_pos = read_bytes(head, 0)
    _, head_pos = avro.skip_bytes(head, head_pos)
    session, _ = read_optional(head, head_pos)
    money = WaitingMoney(order_time, first, head, money_id, b"" if session is None else session, sources)
    money.requested_at = requested_at
    money.reason = reason
    money.stored = True
    money.changed = False
    return money


def split_head(head: bytes) -> tuple[bytes, int]:
    """The field money of a head, and the money's event time in ms."""
    pos = 0
    for _ in range(2):  # id, userId
        _, pos = avro.skip_bytes(head, pos)
    _, pos = read_optional(head, pos)
    processed_at, pos = read_long(head, pos)
    for _ in range(4):  # amount, currency, closingBalance, moneyType
        _, pos = avro.skip_bytes(head, pos)
    return head[: pos + 1], processed_at


class User:
    """A user, with the pages and waiting money that the batch has loaded."""

    def __init__(self, id: bytes) -> None:
        self.id = id
        self.birth_year: bytes | None = None
        self.birth_year_source = b""
        self.country: bytes | None = None  # of residence
        self.country_source = b""
        self.sweep_at = 0  # when the next sweep is due; 0: none is scheduled
        self.items = 0  # in all pages
        self.depth = 0  # there are 2^depth pages
        self.pages: dict[int, Page] = {}  # the loaded ones, by number
        self.waiting: dict[bytes, WaitingMoney] = {}  # the loaded money, by position
        self.forgotten = b""  # a ForgottenUser entry to write
        self.stored = False  # the state has the user record
        self.changed = False

    def page_number(self, id: bytes) -> int:
        if self.depth == 0:
            return 0
        return zlib.crc32(id) & ((1 << self.depth) - 1)

    def page(self, id: bytes) -> Page:
        return self.pages[self.page_number(id)]

    def forget(self, proof: bytes) -> None:
        """Removes everything except lookups and their replies, and stores the ForgottenUser entry `proof`. All pages
        must be loaded."""
        self.birth_year = self.country = None
        self.birth_year_source = self.country_source = b""
        for page in self.pages.values():
            page.clear()
        self.forgotten = proof
        self.changed = True

    def info(self) -> bytes:
        """The encoded field userInfo of MoneyEnriched. It is null until some user info is known."""
        if self.birth_year is None and self.country is None:
            return b"\x00"
        out = bytearray(b"\x02")
        write_optional(out, self.birth_year)
        write_optional(out, self.country)
        return bytes(out)

    def info_sources(self) -> bytes:
        """The sources of both fields of userInfo, as unions [null, Source]."""
        return optional(self.birth_year_source) + optional(self.country_source)


def encode_user(user: User) -> bytes:
    out = bytearray(fp.USER_STATE)
    write_optional(out, user.birth_year)
    out += optional(user.birth_year_source)
    write_optional(out, user.country)
    out += optional(user.country_source)
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
        entry = to_current(entry)
    user.stored = True
    user.birth_year, pos = read_optional(entry, avro.HEADER_BYTES)
    user.birth_year_source, pos = read_source(entry, pos)
    user.country, pos = read_optional(entry, pos)
    user.country_source, pos = read_source(entry, pos)
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
        entry = to_current(entry)
    page, _ = decode_page(entry, avro.HEADER_BYTES)
    page.stored = True
    return page


def encode_page_entry(page: Page) -> bytes:
    out = bytearray(fp.USER_PAGE)
    encode_page(out, page)
    return bytes(out)


class Forgotten:
    """The proof that a user was forgotten."""

    def __init__(self, request: bytes, requested_by: bytes, forgotten_at: int, source: bytes) -> None:
        self.request = request
        self.requested_by = requested_by
        self.forgotten_at = forgotten_at  # order time of the request, in ms
        self.source = source


def encode_forgotten(forgotten: Forgotten) -> bytes:
    out = bytearray(fp.FORGOTTEN_USER)
    avro.write_bytes(out, forgotten.request)
    avro.write_bytes(out, forgotten.requested_by)
    write_long(out, forgotten.forgotten_at)
    out += forgotten.source
    return bytes(out)


def decode_forgotten(entry: bytes) -> Forgotten:
    entry = to_current(entry)
    request, pos = read_bytes(entry, avro.HEADER_BYTES)
    requested_by, pos = read_bytes(entry, pos)
    forgotten_at, pos = read_long(entry, pos)
    return Forgotten(request, requested_by, forgotten_at, entry[pos:])

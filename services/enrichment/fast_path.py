"""Answers most money from its bytes: that of a type seen before, with a known session or with none. `service.money`
defines what is right, and answers all other money. Compiled, where a C compiler is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moneystate.api.fast_path import FastEvent
from moneystate.engine.avro import HEADER_BYTES, read_long, skip_bytes

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64

NULL: Final = b"\x00"
NOT_NULL: Final = b"\x02"
FALSE: Final = b"\x00"
JOINED: Final = b"\x00"  # the places of the symbols of SessionStatus
NO_SESSION: Final = b"\x02"
LONG: Final = 0x80  # a byte of a number that goes on


class Parts:
    """What the output takes over from an event. Money is the event without its opening balance and its thing."""

    def __init__(self, before: bytes, after: bytes, has_session: bool, money_type: bytes) -> None:
        self.before = before  # the fields before the opening balance
        self.after = after  # from the closing balance on, up to the type
        self.has_session = has_session
        self.money_type = money_type  # with its length


class MoneyFastPath:
    """`moneystate.api.fast_path.FastPath` for payments and transactions."""

    def __init__(self, enriched: bytes) -> None:
        self.enriched = enriched  # the header of MoneyEnriched

    def read(self, value: bytes) -> FastEvent | None:
        """Declines old money, and what is not encoded in the shortest way: a copy would differ from a new encoding."""
        pos: i64 = HEADER_BYTES
        end = text_end(value, pos)
        id = value[pos + 1 : end]
        pos = text_end(value, end)  # behind the user
        if end < 0 or pos < 0:
            return None
        ids: list[bytes] = []
        has_session = value[pos] == 2
        if has_session:
            end = text_end(value, pos + 1)
            ids.append(value[pos + 2 : end])
            pos = end
        elif value[pos] == 0:
            ids.append(b"")
            pos += 1
        else:
            return None
        if pos < 0:
            return None
        _, after = read_long(value, pos)
        pos = after
        if value[pos - 1] == 0:  # processedAt
            return None
        for _ in range(2):  # amount, currency
            pos = text_end(value, pos)
            if pos < 0:
                return None
        before = value[HEADER_BYTES:pos]
        _, after = skip_bytes(value, pos)  # openingBalance
        start: i64 = after
        pos = text_end(value, start)  # closingBalance
        type_end = text_end(value, pos)
        if pos < 0 or type_end < 0:
            return None
        _, after = skip_bytes(value, type_end)
        if value[after] != 0:  # isOldMoneyEvent
            return None
        return id, ids, Parts(before, value[start:type_end], has_session, value[pos:type_end])

    def answer(self, parts: Any, now: int, states: Sequence[bytes | None]) -> bytes | None:
        """`states`: the user and the session."""
        money: Parts = parts
        user = states[0]
        if user is None:
            return None
        info_end = user_info_end(user)
        if not has_type(user, info_end, money.money_type):
            return None
        head = self.enriched + money.before + money.after + FALSE + user[:info_end]
        if not money.has_session:
            return head + NULL + FALSE + NO_SESSION
        session = states[1]
        if session is None:
            return None
        _, country_end = skip_bytes(session, 0)
        expires_ms, _ = read_long(session, country_end)
        if now >= expires_ms:
            return None
        return head + NOT_NULL + session[:country_end] + FALSE + JOINED


def text_end(value: bytes, pos: i64) -> i64:
    """The position behind a text or bytes of less than 64 bytes; -1: it is longer, or `pos` is -1."""
    if pos < 0:
        return -1
    n: i64 = value[pos]
    if n >= LONG or n & 1:
        return -1
    return pos + 1 + (n >> 1)


def user_info_end(user: bytes) -> int:
    """The position behind the union [null, UserInfo] in the body of a `User`."""
    pos = 1
    if user[0]:
        for _ in range(2):  # birthYear, residentCountryCode
            if user[pos]:
                _, pos = skip_bytes(user, pos + 1)
            else:
                pos += 1
    return pos


def has_type(user: bytes, pos: int, money_type: bytes) -> bool:
    """Whether an array of texts at `pos` has this one. `money_type`: with its length."""
    count, pos = read_long(user, pos)
    for _ in range(count):
        _, end = skip_bytes(user, pos)
        if user[pos:end] == money_type:
            return True
        pos = end
    return False

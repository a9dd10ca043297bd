"""States of users as their changelog entries, made with the enrichment's own encoder."""

from __future__ import annotations

from dataclasses import dataclass

from moneystate.engine.avro import long_bytes, string_bytes
from moneystate.replica.transaction_assembler import change_of
from services.enrichment.money_ids import pack_id
from services.enrichment.page import Page
from services.enrichment.replica.replica_model import REPLICA
from services.enrichment.source import encode_source, optional
from services.enrichment.state import (
    Forgotten,
    User,
    WaitingMoney,
    encode_forgotten,
    encode_page_entry,
    encode_user,
    encode_waiting,
    forgotten_key,
    page_key,
    user_key,
    waiting_key,
)
from services.enrichment.topics import USER_EVENTS, WALLET_EVENTS

Entries = dict[bytes, bytes]


def entry_of(key: bytes) -> tuple[bytes, bytes]:
    """User and entry of a changelog key, as the replica's rows have them."""
    change = change_of(key, None, REPLICA)
    return change.user, change.entry


@dataclass(frozen=True)
class Money:
    """Money that waits."""

    id: str
    session: str  # the one that it waits for
    offset: int  # its position
    order_time_ms: int
    asked: bool = False  # it has been sent to lookup


@dataclass(frozen=True)
class State:
    """The state of a user."""

    country: str | None = None
    birth_year: str | None = None
    sessions: tuple[tuple[str, int], ...] = ()  # id, expires in ms
    seen: tuple[tuple[str, int], ...] = ()  # money id, time in ms
    money: tuple[Money, ...] = ()
    pages: int = 1  # number of pages, a power of two


def entries(user: bytes, state: State | None) -> Entries:
    if state is None:
        return {}
    made = User(user)
    made.depth = state.pages.bit_length() - 1
    made.pages = {n: Page() for n in range(state.pages)}
    made.country = None if state.country is None else state.country.encode()
    made.birth_year = None if state.birth_year is None else state.birth_year.encode()
    made.country_source = encode_source(USER_EVENTS, 1, 7, 1_000) if state.country else b""
    for id, expires in state.sessions:
        made.page(id.encode()).sessions[id.encode()] = (expires, b"PT", b"")
    for id, seen_at in state.seen:
        made.page(id.encode()).add_id(pack_id(id.encode()), seen_at, b"")
    by_key: Entries = {}
    for money in state.money:
        position = position_of(money)
        page = made.page(money.session.encode())
        if money.asked:
            page.lookups.append((money.id.encode(), money.order_time_ms + 5, position))
        else:
            page.add_waiting(money.session.encode(), position)
        by_key[waiting_key(user, position)] = encode_waiting(_waiting(user, money))
    by_key[user_key(user)] = encode_user(made)
    if made.depth:
        by_key.update({page_key(user, n): encode_page_entry(page) for n, page in made.pages.items() if page.items()})
    return by_key


def position_of(money: Money) -> bytes:
    return bytes([WALLET_EVENTS]) + (2).to_bytes(4, "big") + money.offset.to_bytes(8, "big")


def _waiting(user: bytes, money: Money) -> WaitingMoney:
    head = string_bytes(money.id.encode()) + string_bytes(user) + b"\x02" + string_bytes(money.session.encode())
    head += long_bytes(money.order_time_ms) + string_bytes((125_000).to_bytes(3, "big")) + string_bytes(b"EUR")
    head += string_bytes(b"\x00") + string_bytes(b"CARD") + b"\x00" + b"\x02\x00\x02" + string_bytes(b"FR")
    sources = b"\x00\x00" + optional(encode_source(USER_EVENTS, 0, 3, 900))
    waiting = WaitingMoney(money.order_time_ms, True, head, money.id.encode(), money.session.encode(), sources)
    if money.asked:
        waiting.requested_at, waiting.reason = money.order_time_ms + 5, 2
    return waiting


def forgotten(user: bytes, request: str, at_ms: int) -> Entries:
    proof = Forgotten(request.encode(), b"operator", at_ms, encode_source(USER_EVENTS, 0, 99, at_ms))
    return {forgotten_key(user): encode_forgotten(proof)}


def changes(before: Entries, after: Entries) -> list[tuple[bytes, bytes | None]]:
    """As the operator puts them out."""
    put: list[tuple[bytes, bytes | None]] = [(k, v) for k, v in after.items() if before.get(k) != v]
    return put + [(k, None) for k in before if k not in after]

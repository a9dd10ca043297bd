"""The facts in a user's entries (`moneystate.savepoint.facts`).

These are not facts: expired sessions and ids, replies behind the watermark, timers of removals, and the sources of
values, which state version 1 does not have.
"""

from __future__ import annotations

from collections.abc import Iterator

from moneystate.engine.items import NO_TIME
from moneystate.ports.state import USERS, Fact
from services.enrichment.page import POSITION_BYTES, Page, split_positions
from services.enrichment.state import (
    FORGOTTEN,
    PAGE,
    PAGE_NUMBER_BYTES,
    USER,
    WAITING,
    decode_forgotten,
    decode_page_entry,
    decode_user,
    decode_waiting,
)


def user_facts(key: bytes, value: bytes, watermark: int, dedup_ttl_ms: int) -> Iterator[Fact]:
    """The facts of one entry of a user. Raises Malformed."""
    kind = key[:1]
    if kind == USER:
        user = decode_user(key[1:], value)
        if user.birth_year is not None or user.country is not None:
            yield Fact(USERS, "info", user.id, (), (user.birth_year, user.country))
        if 0 in user.pages:
            yield from _page(user.id, user.pages[0], watermark, dedup_ttl_ms)
    elif kind == PAGE:
        yield from _page(key[1:-PAGE_NUMBER_BYTES], decode_page_entry(value), watermark, dedup_ttl_ms)
    elif kind == WAITING:
        money = decode_waiting(value)
        lookup = (None, None) if money.requested_at == NO_TIME else (money.requested_at, money.reason)
        content = (money.order_time, int(money.first), *lookup, money.head)
        yield Fact(USERS, "waiting money", key[1:-POSITION_BYTES], (key[-POSITION_BYTES:],), content)
    elif kind == FORGOTTEN:
        proof = decode_forgotten(value)
        yield Fact(USERS, "forgotten", key[1:], (), (proof.request, proof.requested_by, proof.forgotten_at))


def _page(user: bytes, page: Page, watermark: int, dedup_ttl_ms: int) -> Iterator[Fact]:
    for money_type, _ in page.each_type():
        yield Fact(USERS, "money type", user, (money_type,), ())
    for money_id, seen_at, _ in page.each_id():
        if seen_at + dedup_ttl_ms > watermark:
            yield Fact(USERS, "money id", user, (money_id,), (seen_at,))
    for session, (expires, country, _) in page.sessions.items():
        if expires > watermark:
            yield Fact(USERS, "session", user, (session,), (expires, country))
    for session, positions in page.waiting.items():
        for position in split_positions(positions):
            yield Fact(USERS, "wait for a session", user, (session, position), ())
    for money_id, requested_at, position in page.lookups:
        yield Fact(USERS, "open lookup", user, (money_id, requested_at, position), ())
    for reply in page.replies:
        if reply.requested_at >= watermark:
            yield Fact(USERS, "reply", user, (reply.money_id, reply.requested_at), (reply.outcome, reply.country))

"""What a job's state says, taken apart into facts that do not depend on how it is stored.

Two states are the same exactly when their facts are: whatever their pages, chunks, key groups, schema versions, and
however late what has expired is removed. So what influences no result any more is no fact: sessions and ids past their
time, replies behind the watermark, timers of removals, the sources of values (which version 1 did not keep).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moneystate.engine import clock as clocks
from moneystate.engine import fingerprints
from moneystate.engine.clock import Clock
from moneystate.engine.items import CLEANUP_RANK, NO_TIME, Item
from moneystate.engine.slots import PREFIX as CHUNK
from moneystate.engine.slots import decode_items, open_chunk
from services.enrichment import migrations
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

Field = bytes | int | None

USERS, BUFFER = "users", "buffer"


class Fact(NamedTuple):
    """`part`: USERS or BUFFER; `kind`: its name for people; `user`: whose it is, empty of what concerns all; `id`:
    unique among the facts of kind and user; `content`: what differs between two states that both have it."""

    part: str
    kind: str
    user: bytes
    id: tuple[Field, ...]
    content: tuple[Field, ...]


def schemas() -> list[str]:
    """The single-object headers, in hex, of all schemas that entries of the state may have."""
    engine = [fingerprints.BUFFER_CHUNK, fingerprints.KEY_GROUP_CLOCK, fingerprints.KEY_GROUP_CLOCK_V1]
    return sorted(header.hex() for header in [*engine, *migrations.CURRENT, *migrations.UP])


def facts(entries: Iterable[tuple[bytes, bytes]], dedup_ttl_ms: int, with_clock: bool) -> Iterator[Fact]:
    """The facts of one key group's entries, which come sorted by key: the clock thus before all users.

    `with_clock`: those of its clock, too, which are the same in all key groups. Raises Malformed.
    """
    watermark = NO_TIME
    for key, value in entries:
        if key.startswith(CHUNK):
            yield from _buffered(value)
        elif key == clocks.KEY:
            clock = clocks.decode(value)
            watermark = clock.watermark
            if with_clock:
                yield from _clock(clock)
        else:
            yield from user_facts(key, value, watermark, dedup_ttl_ms)


def user_facts(key: bytes, value: bytes, watermark: int, dedup_ttl_ms: int) -> Iterator[Fact]:
    """The facts of one entry of a user, as it is in the changelog, too. Raises Malformed."""
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
        asked = (None, None) if money.requested_at == NO_TIME else (money.requested_at, money.reason)
        content = (money.order_time, int(money.first), *asked, money.head)
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


def _buffered(chunk: bytes) -> Iterator[Fact]:
    items: list[Item] = []
    count, block = open_chunk(chunk)
    decode_items(block, count, items)
    for time, rank, set_at, topic, partition, offset, event_time, key, value in items:
        if rank < CLEANUP_RANK:
            place = (topic, partition, offset, rank, time, set_at)
            yield Fact(BUFFER, "buffered", key, place, (event_time, value))


def _clock(clock: Clock) -> Iterator[Fact]:
    yield Fact(BUFFER, "watermark", b"", (), (clock.watermark,))
    for (topic, partition), high in clock.highs.items():
        yield Fact(BUFFER, "high", b"", (topic, partition), (high,))

"""One user's state, and a whole job's, as plain data for people and programs: times as ISO-8601, what is over named so.

What has expired is shown until it is removed: whoever looks at a checkpoint wants to see what is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine.avro import read_bytes
from moneystate.engine.clock import Clock
from moneystate.engine.items import CLEANUP_RANK, END_OF_TIME, NO_TIME, TIMER_RANK, Item
from moneystate.engine.slots import PREFIX as CHUNK
from moneystate.engine.slots import decode_items, open_chunk
from services.enrichment.page import POSITION_BYTES, Page
from services.enrichment.source import decode_source
from services.enrichment.state import (
    FORGOTTEN,
    PAGE,
    USER,
    WAITING,
    User,
    decode_forgotten,
    decode_page_entry,
    decode_user,
    decode_waiting,
    owner_of,
)
from services.enrichment.topics import INPUTS

TOPICS = {t.code: t.name for t in INPUTS}
REASONS = ("LATE", "OLD", "SESSION_MISSING")
OUTCOMES = ("FOUND", "NOT_FOUND", "FAILED")
SECTIONS = ("moneyTypes", "moneyIds", "sessions", "waiting", "replies", "buffered", "timers")

Row = dict[str, Any]


def time_text(ms: int) -> str | None:
    """None before any time and at the end of time, which a drained job has reached."""
    if ms == NO_TIME or ms >= END_OF_TIME:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_view(clock: Clock, buffered: int) -> Row:
    """What all key groups share, from the clock of one. `buffered`: of all."""
    highs = [
        {"topic": TOPICS.get(topic, str(topic)), "partition": partition, "high": time_text(high)}
        for (topic, partition), high in sorted(clock.highs.items())
    ]
    return {"watermark": time_text(clock.watermark), "buffered": buffered, "partitions": highs}


def user_view(
    user: bytes, entries: Iterable[tuple[bytes, bytes]], rules: dict[str, Any], show_event: Callable[[bytes], bytes]
) -> Row | None:
    """All that a key group's entries have of a user, None for nothing. `show_event`: an event's value as JSON."""
    view: Row = {"user": user.decode(errors="replace"), "watermark": None, "info": None, "forgotten": None}
    view.update({section: [] for section in SECTIONS})
    watermark = NO_TIME
    for key, value in entries:
        if key == clocks.KEY:
            watermark = clocks.decode(value).watermark
        elif key.startswith(CHUNK):
            _buffered(view, user, value, show_event)
        elif owner_of(key) == user:
            _entry(view, key, value)
    for row in view["sessions"]:
        row["over"] = row.pop("expiresMs") <= watermark
    for row in view["moneyIds"]:
        row["over"] = row.pop("seenAtMs") + rules["dedup_ttl_ms"] <= watermark
    view["watermark"] = time_text(watermark)
    something = view["info"] or view["forgotten"] or any(view[section] for section in SECTIONS)
    return view if something else None


def _entry(view: Row, key: bytes, value: bytes) -> None:
    kind = key[:1]
    if kind == USER:
        user = decode_user(key[1:], value)
        view["info"] = _info(user)
        if 0 in user.pages:
            _page(view, user.pages[0])
    elif kind == PAGE:
        _page(view, decode_page_entry(value))
    elif kind == WAITING:
        view["waiting"].append(_waiting(key, value))
    elif kind == FORGOTTEN:
        proof = decode_forgotten(value)
        view["forgotten"] = {
            "request": proof.request.decode(),
            "requestedBy": proof.requested_by.decode(),
            "at": time_text(proof.forgotten_at),
            "from": _place(proof.source),
        }


def _info(user: User) -> Row | None:
    if user.birth_year is None and user.country is None:
        return None
    return {
        "birthYear": _text(user.birth_year),
        "birthYearFrom": _place(user.birth_year_from),
        "residentCountryCode": _text(user.country),
        "residentCountryCodeFrom": _place(user.country_from),
    }


def _page(view: Row, page: Page) -> None:
    for money_type, source in page.each_type():
        view["moneyTypes"].append({"moneyType": money_type.decode(), "from": _place(source)})
    for money_id, seen_at, source in page.each_id():
        row = {"id": money_id.decode(), "seenAt": time_text(seen_at), "seenAtMs": seen_at, "from": _place(source)}
        view["moneyIds"].append(row)
    for session, (expires, country, source) in page.sessions.items():
        row = {"id": session.decode(), "clientCountryCode": country.decode(), "expires": time_text(expires)}
        view["sessions"].append({**row, "expiresMs": expires, "from": _place(source)})
    for reply in page.replies:
        asked = {"moneyId": reply.money_id.decode(), "requestedAt": time_text(reply.requested_at)}
        view["replies"].append({**asked, "outcome": OUTCOMES[reply.outcome], "country": _text(reply.country)})


def _waiting(key: bytes, value: bytes) -> Row:
    money = decode_waiting(value)
    position = key[-POSITION_BYTES:]
    topic, partition, offset = position[0], int.from_bytes(position[1:5], "big"), int.from_bytes(position[5:], "big")
    asked = money.requested_at != NO_TIME
    return {
        "moneyId": money.money_id.decode(),
        "session": money.session.decode(),
        "since": time_text(money.order_time),
        "for": "lookup" if asked else "session",
        "requestedAt": time_text(money.requested_at),
        "reason": REASONS[money.reason] if asked else None,
        "from": f"{TOPICS.get(topic, topic)}/{partition}/{offset}",
    }


def _buffered(view: Row, user: bytes, chunk: bytes, show_event: Callable[[bytes], bytes]) -> None:
    items: list[Item] = []
    count, block = open_chunk(chunk)
    decode_items(block, count, items)
    for time, rank, _, topic, partition, offset, event_time, key, value in items:
        if key != user:
            continue
        place = f"{TOPICS.get(topic, topic)}/{partition}/{offset}"
        if rank < TIMER_RANK:
            times = {"orderTime": time_text(time), "eventTime": time_text(event_time)}
            view["buffered"].append({**times, "from": place, "event": json.loads(show_event(value))})
        elif rank == CLEANUP_RANK:
            view["timers"].append({"due": time_text(time), "what": "removal of what is over", "setBy": place})
        else:
            session, pos = read_bytes(value, 0)
            money_id, _ = read_bytes(value, pos)
            what = f"end of the wait of {money_id.decode()} for session {session.decode()}"
            view["timers"].append({"due": time_text(time), "what": what, "setBy": place})


def _place(source: bytes) -> str | None:
    known = decode_source(source)
    return None if known is None else f"{TOPICS.get(known.topic, known.topic)}/{known.partition}/{known.offset}"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()

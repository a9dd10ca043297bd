"""A user's state as plain data for people and programs, with times in ISO-8601.

Expired values are shown, and marked, until they are removed: the view shows the content of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from moneystate.engine.avro import read_bytes
from moneystate.engine.items import CLEANUP_RANK, NO_TIME, RANK, VALUE, Item
from moneystate.ports.state import Field, Pair, Row, time_text
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
)
from services.enrichment.topics import INPUTS

TOPICS = {t.code: t.name for t in INPUTS}
REASONS = ("LATE", "OLD", "SESSION_MISSING")
OUTCOMES = ("FOUND", "NOT_FOUND", "FAILED")
# What the content of a fact says (`services.enrichment.facts`)
FACTS = {
    "info": ("birthYear", "country"),
    "money id": ("seenAt",),
    "session": ("expires", "country"),
    "waiting money": ("orderTime", "firstOccurrence", "requestedAt", "reason", "record"),
    "forgotten": ("request", "requestedBy", "forgottenAt"),
    "reply": ("outcome", "country"),
}
TIMES = {"seenAt", "expires", "orderTime", "requestedAt", "forgottenAt"}
SECTIONS = ("moneyTypes", "moneyIds", "sessions", "waiting", "replies")
TITLES = {
    "forgotten": "forgotten",
    "moneyTypes": "money types so far",
    "moneyIds": "seen money ids",
    "sessions": "sessions",
    "waiting": "waiting money",
    "replies": "replies without a request so far",
}


def user_view(entries: Iterable[Pair], watermark: int, dedup_ttl_ms: int) -> Row:
    """The content of a user's entries, by section."""
    view: Row = {"info": None, "forgotten": None}
    view.update({section: [] for section in SECTIONS})
    for key, value in entries:
        _entry(view, key, value)
    for row in view["sessions"]:
        row["over"] = row.pop("expiresMs") <= watermark
    for row in view["moneyIds"]:
        row["over"] = row.pop("seenAtMs") + dedup_ttl_ms <= watermark
    return view


def fact_view(kind: str, content: tuple[Field, ...]) -> Row | None:
    """None: the content of such a fact has no names."""
    names = FACTS.get(kind)
    if names is None:
        return None
    return {name: _fact_field(name, field) for name, field in zip(names, content, strict=True)}


def _fact_field(name: str, field: Field) -> str | int | None:
    if isinstance(field, int):
        return time_text(field) if name in TIMES else field
    return field.hex() if name == "record" and field is not None else _text(field)


def timer_view(item: Item) -> str:
    if item[RANK] == CLEANUP_RANK:
        return "removal of expired items"
    session, pos = read_bytes(item[VALUE], 0)
    money_id, _ = read_bytes(item[VALUE], pos)
    return f"end of {money_id.decode()}'s wait for session {session.decode()}"


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
            "from": _source_text(proof.source),
        }


def _info(user: User) -> Row | None:
    if user.birth_year is None and user.country is None:
        return None
    return {
        "birthYear": _text(user.birth_year),
        "birthYearFrom": _source_text(user.birth_year_source),
        "residentCountryCode": _text(user.country),
        "residentCountryCodeFrom": _source_text(user.country_source),
    }


def _page(view: Row, page: Page) -> None:
    for money_type, source in page.each_type():
        view["moneyTypes"].append({"moneyType": money_type.decode(), "from": _source_text(source)})
    for money_id, seen_at, source in page.each_id():
        row = {"id": money_id.decode(), "seenAt": time_text(seen_at), "seenAtMs": seen_at, "from": _source_text(source)}
        view["moneyIds"].append(row)
    for session, (expires, country, source) in page.sessions.items():
        row = {"id": session.decode(), "clientCountryCode": country.decode(), "expires": time_text(expires)}
        view["sessions"].append({**row, "expiresMs": expires, "from": _source_text(source)})
    for reply in page.replies:
        request = {"moneyId": reply.money_id.decode(), "requestedAt": time_text(reply.requested_at)}
        view["replies"].append({**request, "outcome": OUTCOMES[reply.outcome], "country": _text(reply.country)})


def _waiting(key: bytes, value: bytes) -> Row:
    money = decode_waiting(value)
    position = key[-POSITION_BYTES:]
    topic, partition, offset = position[0], int.from_bytes(position[1:5], "big"), int.from_bytes(position[5:], "big")
    looked_up = money.requested_at != NO_TIME
    return {
        "moneyId": money.money_id.decode(),
        "session": money.session.decode(),
        "since": time_text(money.order_time),
        "for": "lookup" if looked_up else "session",
        "requestedAt": time_text(money.requested_at),
        "reason": REASONS[money.reason] if looked_up else None,
        "from": f"{TOPICS.get(topic, topic)}/{partition}/{offset}",
    }


def _source_text(source: bytes) -> str | None:
    known = decode_source(source)
    return None if known is None else f"{TOPICS.get(known.topic, known.topic)}/{known.partition}/{known.offset}"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()

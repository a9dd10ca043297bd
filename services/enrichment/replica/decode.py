"""Decodes state entries into the replica's answers, and computes their index keys (docs/state.md)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from moneystate.engine.avro import HEADER_BYTES, Malformed, read_bytes, read_long
from moneystate.engine.items import NO_TIME
from moneystate.replica.model import Source
from moneystate.replica.rows import BY_USER, END, escape, text
from services.enrichment import fingerprints as fp
from services.enrichment import source as sources
from services.enrichment.events import Reply
from services.enrichment.page import POSITION, POSITION_BYTES, Page, read_optional, split_positions
from services.enrichment.replica.model import (
    ForgottenView,
    KeptReply,
    Known,
    MoneyType,
    Pending,
    Reason,
    SeenMoney,
    Session,
    UserView,
)
from services.enrichment.source import read_source
from services.enrichment.state import (
    FORGOTTEN,
    PAGE,
    PAGE_NUMBER_BYTES,
    USER,
    WAITING,
    User,
    WaitingMoney,
    decode_forgotten,
    decode_page_entry,
    decode_user,
    decode_waiting,
)
from services.enrichment.topics import INPUTS

BY_COUNTRY: Final = b"c"  # escaped country, user
BY_SEEN: Final = b"m"  # escaped id of seen money, user
BY_WAITING: Final = b"n"  # escaped id of waiting money, escaped user, position
BY_SESSION: Final = b"s"  # escaped session id, user

# how many bytes of an entry's key follow the user
REST_BYTES: Final[dict[bytes, int]] = {USER: 0, FORGOTTEN: 0, PAGE: PAGE_NUMBER_BYTES, WAITING: POSITION_BYTES}

Read = Callable[[bytes], bytes | None]  # reads an entry at the version of the snapshot

TOPICS: Final = {t.code: t.name for t in INPUTS}
REASONS: Final = [Reason.LATE, Reason.OLD, Reason.SESSION_MISSING]
OUTCOMES: Final = ["FOUND", "NOT_FOUND", "FAILED"]
SCALE: Final = 4  # decimal places of an amount
SCHEMAS: Final[dict[bytes, tuple[str, int]]] = {
    fp.USER_STATE: ("user", 2),
    fp.USER_STATE_V1: ("user", 1),
    fp.USER_PAGE: ("page", 2),
    fp.USER_PAGE_V1: ("page", 1),
    fp.WAITING_MONEY: ("waiting", 2),
    fp.WAITING_MONEY_V1: ("waiting", 1),
    fp.FORGOTTEN_USER: ("forgotten", 1),
}
WRITTEN_NOW: Final = fp.USER_STATE[2:HEADER_BYTES][::-1].hex()
LINEAGE_FIELDS: Final = ["money", "firstOfType", "birthYear", "residentCountryCode", "session", "reply"]


def split(key: bytes) -> tuple[bytes, bytes] | None:
    """The user of an entry, and the bytes of its key after the user."""
    rest = REST_BYTES.get(key[:1])
    if rest is None or len(key) <= rest:
        return None
    end = len(key) - rest
    return key[1:end], key[end:]


def schema(entry: bytes) -> tuple[str, int]:
    """Kind and version of an entry's schema. Raises Malformed for an unknown schema."""
    known = SCHEMAS.get(entry[:HEADER_BYTES])
    if known is None:
        raise Malformed("a state entry has a schema that this program does not know: a newer program wrote it")
    return known


def index_keys(user: bytes, kind: bytes, rest: bytes, entry: bytes) -> set[bytes]:
    """The index keys of an entry (docs/state.md)."""
    if kind == b"w":
        return {BY_WAITING + escape(decode_waiting(entry).money_id) + escape(user) + rest}
    if kind == b"p":
        return _page_keys(user, decode_page_entry(entry))
    if kind == b"f":
        return set()
    decoded = decode_user(user, entry)
    keys = _page_keys(user, decoded.pages[0]) if decoded.depth == 0 else set()
    keys.add(BY_USER + user)
    if decoded.country is not None:
        keys.add(BY_COUNTRY + escape(decoded.country) + user)
    return keys


def _page_keys(user: bytes, page: Page) -> set[bytes]:
    tail = END + user
    keys = {BY_SEEN + (escape(id) + user if b"\x00" in id else id + tail) for id, _, _ in page.each_id()}
    keys.update(BY_SESSION + escape(id) + user for id in page.sessions)
    return keys


def order_time(entry: bytes) -> int:
    """The order time of waiting money, in ms."""
    return decode_waiting(entry).order_time


def source(raw: bytes) -> Source | None:
    decoded = sources.decode_source(raw)
    return (
        None
        if decoded is None
        else Source(
            TOPICS.get(decoded.topic, str(decoded.topic)), decoded.partition, decoded.offset, decoded.event_time
        )
    )


def counts(seen_at_ms: int, watermark_ms: int, dedup_ttl_ms: int | None) -> bool:
    """Whether a job with this watermark would still recognize duplicates of money that was seen at `seen_at_ms`.
    `dedup_ttl_ms` None: not known; then everything in the state counts."""
    return dedup_ttl_ms is None or seen_at_ms + dedup_ttl_ms > watermark_ms


def user_view(user: bytes, read: Read, watermark_ms: int, dedup_ttl_ms: int | None) -> UserView | None:
    """The user, without items that have expired at the watermark. The state keeps these until a sweep. None: the state
    has no such user."""
    prefix = escape(user)
    entry = read(prefix + b"u")
    if entry is None:
        return None
    schemas = {schema(entry)[1]}
    decoded = decode_user(user, entry)
    pages = _pages(decoded, prefix, read, schemas)
    types = [MoneyType(text(t), source(s)) for page in pages for t, s in page.each_type()]
    sessions = [
        Session(text(id), text(country), expires, source(s))
        for page in pages
        for id, (expires, country, s) in page.sessions.items()
        if expires > watermark_ms
    ]
    seen = [
        SeenMoney(text(id), seen_at_ms, source(s))
        for page in pages
        for id, seen_at_ms, s in page.each_id()
        if counts(seen_at_ms, watermark_ms, dedup_ttl_ms)
    ]
    pending = _pending(decoded, pages, prefix, read, schemas)
    return UserView(
        user_id=text(user),
        birth_year=known(decoded.birth_year, decoded.birth_year_source),
        country=known(decoded.country, decoded.country_source),
        money_types=tuple(sorted(types, key=lambda t: t.type)),
        sessions=tuple(sorted(sessions, key=lambda s: s.id)),
        seen_money=tuple(sorted(seen, key=lambda m: (m.seen_at_ms, m.id))),
        waiting=tuple(p for p in pending if p.reason is Reason.WAITING),
        looking_up=tuple(p for p in pending if p.reason is not Reason.WAITING),
        replies=tuple(_reply(r) for page in pages for r in page.replies if r.requested_at >= watermark_ms),
        schema_versions=tuple(sorted(schemas)),
    )


def _pages(user: User, prefix: bytes, read: Read, schemas: set[int]) -> list[Page]:
    if user.depth == 0:
        return [user.pages[0]]
    entries = [read(prefix + b"p" + n.to_bytes(4, "big")) for n in range(1 << user.depth)]
    schemas.update(schema(e)[1] for e in entries if e is not None)
    return [decode_page_entry(e) for e in entries if e is not None]


def _pending(user: User, pages: list[Page], prefix: bytes, read: Read, schemas: set[int]) -> list[Pending]:
    """The user's waiting money, the oldest first."""
    positions = [p for page in pages for joined in page.waiting.values() for p in split_positions(joined)]
    positions += [lookup[POSITION] for page in pages for lookup in page.lookups]
    pending = []
    for position in positions:
        entry = read(prefix + b"w" + position)
        if entry is not None:
            schemas.add(schema(entry)[1])
            pending.append(pending_view(user.id, position, entry))
    return sorted(pending, key=lambda p: (p.order_time_ms, p.source.topic, p.source.partition, p.source.offset))


def find_session(user: bytes, session: bytes, read: Read) -> Session | None:
    """A session of a user, even if it has expired."""
    prefix = escape(user)
    entry = read(prefix + b"u")
    if entry is None:
        return None
    decoded = decode_user(user, entry)
    page = _page_of(decoded, session, prefix, read)
    stored = page.sessions.get(session)
    if stored is None:
        return None
    expires_ms, country, session_source = stored
    return Session(text(session), text(country), expires_ms, source(session_source))


def find_seen(user: bytes, money_id: bytes, read: Read) -> SeenMoney | None:
    prefix = escape(user)
    entry = read(prefix + b"u")
    if entry is None:
        return None
    page = _page_of(decode_user(user, entry), money_id, prefix, read)
    for id, seen_at_ms, raw in page.each_id():
        if id == money_id:
            return SeenMoney(text(id), seen_at_ms, source(raw))
    return None


def _page_of(user: User, id: bytes, prefix: bytes, read: Read) -> Page:
    number = user.page_number(id)
    if user.depth == 0:
        return user.pages[0]
    return decode_page_entry(read(prefix + b"p" + number.to_bytes(4, "big")))


def known(value: bytes | None, raw_source: bytes) -> Known | None:
    return None if value is None else Known(text(value), source(raw_source))


def pending_view(user: bytes, position: bytes, entry: bytes) -> Pending:
    waiting = decode_waiting(entry)
    session, event_time, amount, currency, money_type, birth_year, country = _head(waiting)
    unions = waiting.sources
    _, pos = read_source(unions, 0)  # of the first event of its type, see `first_of_type`
    birth_year_source, pos = read_source(unions, pos)
    country_source, _ = read_source(unions, pos)
    looked_up = waiting.requested_at != NO_TIME
    return Pending(
        user_id=text(user),
        money_id=text(waiting.money_id),
        session_id=text(session),
        reason=REASONS[waiting.reason] if looked_up else Reason.WAITING,
        order_time_ms=waiting.order_time,
        requested_at_ms=waiting.requested_at if looked_up else None,
        first_occurrence=waiting.first,
        amount=amount,
        currency=text(currency),
        money_type=text(money_type),
        birth_year=known(birth_year, birth_year_source),
        country=known(country, country_source),
        source=position_source(position, event_time),
    )


def first_of_type(entry: bytes) -> Source | None:
    """The first event of the type of waiting money, if it was an earlier one."""
    return source(read_source(decode_waiting(entry).sources, 0)[0])


def position_source(position: bytes, event_time_ms: int) -> Source:
    partition, offset = int.from_bytes(position[1:5], "big"), int.from_bytes(position[5:POSITION_BYTES], "big")
    return Source(TOPICS.get(position[0], str(position[0])), partition, offset, event_time_ms)


def _head(waiting: WaitingMoney) -> tuple[bytes, int, str, bytes, bytes, bytes | None, bytes | None]:
    """Session, event time, amount, currency, money type, birth year, country (avro/enriched/MoneyEnriched.avsc)."""
    head = waiting.head
    _, pos = read_bytes(head, 0)
    _, pos = read_bytes(head, pos)
    session, pos = read_optional(head, pos)
    event_time, pos = read_long(head, pos)
    amount, pos = read_bytes(head, pos)
    currency, pos = read_bytes(head, pos)
    _, pos = read_bytes(head, pos)
    money_type, pos = read_bytes(head, pos)
    branch, pos = read_long(head, pos + 1)  # after isOldMoneyEvent
    birth_year = country = None
    if branch == 1:
        birth_year, pos = read_optional(head, pos)
        country, pos = read_optional(head, pos)
    amount_text = str(Decimal(int.from_bytes(amount, "big", signed=True)).scaleb(-SCALE))
    return session or b"", event_time, amount_text, currency, money_type, birth_year, country


def _reply(reply: Reply) -> KeptReply:
    country = None if reply.country is None else text(reply.country)
    return KeptReply(text(reply.money_id), reply.requested_at, OUTCOMES[reply.outcome], country, source(reply.source))


def forgotten_view(user: bytes, entry: bytes) -> ForgottenView:
    proof = decode_forgotten(entry)
    requested_by = text(proof.requested_by)
    return ForgottenView(text(user), text(proof.request), requested_by, proof.forgotten_at, source(proof.source))


def lineage_origins(header: bytes) -> list[tuple[str, Source]]:
    """Roles and events of a Lineage. Empty if its schema is unknown, or if the header is damaged: anybody who may write
    to the topic can send one."""
    if not header.startswith(fp.LINEAGE):
        return []
    try:
        return _origins(header)
    except Malformed:
        return []


def _origins(header: bytes) -> list[tuple[str, Source]]:
    """Raises Malformed."""
    origins: list[tuple[str, Source]] = []
    money, pos = read_source(b"\x02" + header[HEADER_BYTES:], 0)  # the first field is not a union
    raws = [money]
    pos += HEADER_BYTES - 1
    for _ in LINEAGE_FIELDS[1:]:
        raw, pos = read_source(header, pos)
        raws.append(raw)
    for role, raw in zip(LINEAGE_FIELDS, raws, strict=True):
        event_source = source(raw)
        if event_source is not None:
            origins.append((role, event_source))
    return origins

"""The money enrichment (docs/model.md section 3)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

import moneystate as ms
from services.enrichment.fast_path import MoneyFastPath
from services.enrichment.records import (
    ChangeAddressEvent,
    ChangeBirthDateEvent,
    ForgetUserRequested,
    KindOfWalletEvent,
    KnownSession,
    Money,
    MoneyEnriched,
    OtherUserEvent,
    PaymentEvent,
    Pending,
    Reason,
    Session,
    SessionInfo,
    SessionLookupCompleted,
    SessionLookupRequested,
    Status,
    TransactionEvent,
    User,
    UserInfo,
    UserSessionClosedEvent,
    UserSessionCreatedEvent,
    Waiting,
)

STATUS_OF: Final[dict[ms.Outcome, Status]] = {"FOUND": "LOOKED_UP", "NOT_FOUND": "NOT_FOUND", "FAILED": "LOOKUP_FAILED"}
USERS, SESSIONS, WALLETS = "user-events", "user-session-events", "wallet-events"
MAX_COUNTRY_BYTES: Final = 1024  # of a reply
WAITING: Final = "WAITING"
NO_INFO = UserInfo()


@dataclass(frozen=True)
class Rules:
    session_ttl_ms: Annotated[int, ms.Rule(minimum=1)] = 86_400_000
    dedup_ttl_ms: Annotated[int, ms.Rule(minimum=1)] = 3_600_000
    session_wait_ms: int = 60_000
    session_lookup: Literal["none", "topic"] = "none"  # topic: missing sessions are looked up through topics


def dedup(rules: Rules) -> int:
    return rules.dedup_ttl_ms


def session_ttl(rules: Rules) -> int:
    return rules.session_ttl_ms


def has_country(reply: SessionLookupCompleted) -> bool:
    """Whether the reply has something that can be a country."""
    return 0 < len((reply.client_country_code or "").encode()) <= MAX_COUNTRY_BYTES


service = ms.Service("money-enrichment", rules=Rules(), namespace="moneystate.events")
addresses = service.input(USERS, ChangeAddressEvent, key="user_id", time="processed_at")
birth_dates = service.input(USERS, ChangeBirthDateEvent, key="user_id", time="processed_at")
forgets = service.input(USERS, ForgetUserRequested, key="user_id", time="processed_at")
forgotten = service.forgetting(forgets, id="id", by="requested_by")
created = service.input(SESSIONS, UserSessionCreatedEvent, key="user_id", time="processed_at")
payments = service.input(WALLETS, PaymentEvent, key="user_id", time="processed_at", unique="id", within_ms=dedup)
transactions = service.input(
    WALLETS, TransactionEvent, key="user_id", time="processed_at", unique="id", within_ms=dedup
)
# These only advance time.
service.input(USERS, OtherUserEvent, time="processed_at")
service.input(SESSIONS, UserSessionClosedEvent, time="processed_at")
service.input(WALLETS, KindOfWalletEvent, time="processed_at")

enriched = service.output("money-enriched-events", MoneyEnriched, key="money.user_id")

users = service.value("user", User)
sessions = service.map("sessions", Session, ttl_ms=session_ttl)
waiting = service.map("waiting", Waiting)  # by session and number
session_missing = service.timer("session_missing", of=waiting)

lookups = service.lookup(
    "session_lookup",
    request=SessionLookupRequested,
    reply=SessionLookupCompleted,
    key="user_id",
    time="requested_at",
    by=("money_id",),
    url="/sessions/{user_session_id}",
    accept=has_country,
    held=Waiting,
)
by_session = service.index("by_session", sessions, lambda session: session.id or None)
by_wait = service.index("by_wait", waiting, lambda held: (held.since, held.money.id))
by_lookup = service.index("by_lookup", lookups.open, lambda asked: (asked.held.since, asked.held.money.id))
waiting_by_id = service.index("waiting_by_id", waiting, lambda held: held.money.id)
lookups_by_id = service.index("lookups_by_id", lookups.open, lambda asked: asked.held.money.id)


def put_out(
    ctx: ms.Context[Rules], money: Money, user: UserInfo | None, first: bool, status: Status, country: str | None = None
) -> None:
    session = None if country is None else SessionInfo(country)
    ctx.emit(enriched, MoneyEnriched(money, user, session, first, status))


def look_up(ctx: ms.Context[Rules], held: Waiting, session: str, reason: Reason) -> None:
    if ctx.rules.session_lookup == "topic":
        money = held.money
        ctx.ask(lookups, SessionLookupRequested(money.id, money.user_id, session, ctx.now, reason), held)
    else:
        put_out_held(ctx, held, "LOOKUP_FAILED")


def put_out_held(ctx: ms.Context[Rules], held: Waiting, status: Status, country: str | None = None) -> None:
    put_out(ctx, held.money, held.user_info, held.first_occurrence, status, country)


@service.on(lookups)
def looked_up(ctx: ms.Context[Rules], reply: SessionLookupCompleted, held: Waiting) -> None:
    country = reply.client_country_code if reply.outcome == "FOUND" else None
    put_out_held(ctx, held, STATUS_OF[reply.outcome], country)


@service.on(payments | transactions, users, sessions.at("user_session_id"), waiting)
def money(
    ctx: ms.Context[Rules],
    e: PaymentEvent | TransactionEvent,
    user: User,
    sessions: ms.Entries[Session],
    waiting: ms.Entries[Waiting],
) -> None:
    first = e.money_type not in user.money_types
    if first:
        user.money_types.append(e.money_type)
    pending = Money(
        e.id, e.user_id, e.user_session_id, e.processed_at, e.amount, e.currency, e.closing_balance, e.money_type,
        e.is_old_money_event,
    )  # fmt: skip
    if e.user_session_id is None:
        put_out(ctx, pending, user.info, first, "NO_SESSION")
        return
    session = sessions.get(e.user_session_id)
    if session is not None and ctx.now < session.expires_ms and not e.is_old_money_event:
        put_out(ctx, pending, user.info, first, "JOINED", session.country)
        return
    held = Waiting(pending, user.info, first, ctx.now)
    if e.is_old_money_event:
        look_up(ctx, held, e.user_session_id, "OLD")
    elif ctx.late:
        look_up(ctx, held, e.user_session_id, "LATE")
    else:
        id = f"{e.user_session_id}\0{user.waited:012}"
        user.waited += 1
        waiting.put(id, held)
        ctx.count("waiting")
        ctx.at(session_missing, ctx.now + ctx.rules.session_wait_ms, id)


service.fast_path(payments | transactions, enriched, MoneyFastPath)


@service.on(session_missing, waiting)
def missing(ctx: ms.Context[Rules], id: str, waiting: ms.Entries[Waiting]) -> None:
    held = waiting.get(id)
    if held is not None:
        look_up(ctx, held, held.money.user_session_id or "", "SESSION_MISSING")
        waiting.delete(id)
        ctx.count("waiting", -1)


@service.on(created, sessions.at("id"), waiting)
def session_created(
    ctx: ms.Context[Rules], e: UserSessionCreatedEvent, sessions: ms.Entries[Session], waiting: ms.Entries[Waiting]
) -> None:
    expires_ms = e.processed_at + ctx.rules.session_ttl_ms
    known = sessions.get(e.id)
    if expires_ms > ctx.now and (known is None or expires_ms > known.expires_ms):
        sessions.put(e.id, Session(e.client_country_code, expires_ms, e.id))
    for id, held in waiting.items(f"{e.id}\0"):
        if held.money.user_session_id == e.id:
            put_out_held(ctx, held, "JOINED", e.client_country_code)
            waiting.delete(id)
            ctx.count("waiting", -1)
            ctx.cancel(session_missing, id)


@service.on(addresses, users)
def address(ctx: ms.Context[Rules], e: ChangeAddressEvent, user: User) -> None:
    user.info = replace(user.info or NO_INFO, resident_country_code=e.resident_country_code)


@service.on(birth_dates, users)
def birth_date(ctx: ms.Context[Rules], e: ChangeBirthDateEvent, user: User) -> None:
    user.info = replace(user.info or NO_INFO, birth_year=e.birth_year)


@service.on(forgets, waiting)
def forget(ctx: ms.Context[Rules], e: ForgetUserRequested, waiting: ms.Entries[Waiting]) -> None:
    """Money that waits is put out without what was known of the user; then nothing of the user is left."""
    for _, held in sorted(waiting.items(), key=number_of):
        put_out(ctx, held.money, None, held.first_occurrence, "LOOKUP_FAILED")
        ctx.count("waiting", -1)
    ctx.forget()
    ctx.count("forgotten")


def number_of(entry: tuple[str, Waiting]) -> str:
    return entry[0].rpartition("\0")[2]


@service.query
def pending(view: ms.View, limit: int = 100, reason: str = "", after_ms: int = 0, after_id: str = "") -> list[Pending]:
    """Money that has no output yet, oldest first: all, or of one reason. WAITING is that which waits for its session.

    The next page is what comes after `since` and `money_id` of the last one of this page."""
    low = (after_ms, after_id + "\0") if after_id else None
    held = (_pending(held, None, None) for _, _, held in view.range(by_wait, low))
    asked = (_pending(a.held, a.request.requested_at, a.request.reason) for _, _, a in view.range(by_lookup, low))
    merged = heapq.merge(held, asked, key=lambda money: (money.since, money.money_id))
    return ms.first((money for money in merged if reason in ("", money.reason or WAITING)), limit)


@service.query
def session(view: ms.View, id: str) -> list[KnownSession]:
    """Lists the users whose session has this id, which is one user's unless ids repeat."""
    return [
        KnownSession(its.id, user_id, its.country, its.expires_ms)
        for user_id, _, its in view.find(by_session, id)
        if its.expires_ms > view.time_ms
    ]


@service.query
def pending_of(view: ms.View, user_id: str) -> list[Pending]:
    """Lists the same of one user. Money that waits for its session comes first."""
    held = [_pending(held, None, None) for _, held in view.entries(waiting, user_id)]
    asked = [a for _, a in view.entries(lookups.open, user_id)]
    return [*held, *(_pending(a.held, a.request.requested_at, a.request.reason) for a in asked)]


@service.query
def pending_money(view: ms.View, money_id: str) -> list[Pending]:
    """Lists the same by the id of the money, which is one user's unless ids repeat. Empty: it has its output, or is not
    known."""
    held = [_pending(held, None, None) for _, _, held in view.find(waiting_by_id, money_id)]
    asked = [a for _, _, a in view.find(lookups_by_id, money_id)]
    return [*held, *(_pending(a.held, a.request.requested_at, a.request.reason) for a in asked)]


@service.query
def oldest_wait(view: ms.View) -> int | None:
    """Returns the time since which the oldest of this money waits, in ms."""
    return next((money.since for money in pending(view, 1)), None)


def _pending(held: Waiting, requested_at: int | None, reason: Reason | None) -> Pending:
    money = held.money
    return Pending(money.user_id, money.id, money.user_session_id or "", held.since, requested_at, reason)

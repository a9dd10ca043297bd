"""The money enrichment (DESIGN.md section 3) as a plain service, without lookups."""

from __future__ import annotations

from dataclasses import dataclass, replace

import moneystate as ms
from examples.enrichment.records import (
    ChangeAddressEvent,
    ChangeBirthDateEvent,
    ForgetUserRequested,
    KindOfWalletEvent,
    Money,
    MoneyEnriched,
    OtherUserEvent,
    PaymentEvent,
    Session,
    SessionInfo,
    Status,
    TransactionEvent,
    User,
    UserInfo,
    UserSessionClosedEvent,
    UserSessionCreatedEvent,
    Waiting,
)

USERS, SESSIONS, WALLETS = "user-events", "user-session-events", "wallet-events"
NO_INFO = UserInfo()


@dataclass(frozen=True)
class Rules:
    session_ttl_ms: int = 86_400_000
    dedup_ttl_ms: int = 3_600_000
    session_wait_ms: int = 60_000


def dedup(rules: Rules) -> int:
    return rules.dedup_ttl_ms


def session_ttl(rules: Rules) -> int:
    return rules.session_ttl_ms


service = ms.Service("money", rules=Rules(), namespace="moneystate.events")
addresses = service.input(USERS, ChangeAddressEvent, key="user_id", time="processed_at")
birth_dates = service.input(USERS, ChangeBirthDateEvent, key="user_id", time="processed_at")
forgets = service.input(USERS, ForgetUserRequested, key="user_id", time="processed_at")
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


def put_out(
    ctx: ms.Context[Rules], money: Money, user: UserInfo | None, first: bool, status: Status, country: str | None = None
) -> None:
    session = None if country is None else SessionInfo(country)
    ctx.emit(enriched, MoneyEnriched(money, user, session, first, status))


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
    if e.is_old_money_event:
        put_out(ctx, pending, user.info, first, "LOOKUP_FAILED")
    elif session is not None and ctx.now < session.expires_ms:
        put_out(ctx, pending, user.info, first, "JOINED", session.country)
    elif ctx.late:
        put_out(ctx, pending, user.info, first, "LOOKUP_FAILED")
    else:
        id = f"{e.user_session_id}\0{user.waited:012}"
        user.waited += 1
        waiting.put(id, Waiting(pending, user.info, first))
        ctx.at(session_missing, ctx.now + ctx.rules.session_wait_ms, id)


@service.on(session_missing, waiting)
def missing(ctx: ms.Context[Rules], id: str, waiting: ms.Entries[Waiting]) -> None:
    held = waiting.get(id)
    if held is not None:
        put_out(ctx, held.money, held.user_info, held.first_occurrence, "LOOKUP_FAILED")
        waiting.delete(id)


@service.on(created, sessions.at("id"), waiting)
def session_created(
    ctx: ms.Context[Rules], e: UserSessionCreatedEvent, sessions: ms.Entries[Session], waiting: ms.Entries[Waiting]
) -> None:
    expires_ms = e.processed_at + ctx.rules.session_ttl_ms
    known = sessions.get(e.id)
    if expires_ms > ctx.now and (known is None or expires_ms > known.expires_ms):
        sessions.put(e.id, Session(e.client_country_code, expires_ms))
    for id, held in waiting.items(f"{e.id}\0"):
        if held.money.user_session_id == e.id:
            put_out(ctx, held.money, held.user_info, held.first_occurrence, "JOINED", e.client_country_code)
            waiting.delete(id)
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
    ctx.forget()


def number_of(entry: tuple[str, Waiting]) -> str:
    return entry[0].rpartition("\0")[2]

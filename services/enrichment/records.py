"""The enrichment's records, as the contract has them (docs/model.md section 4). Amounts pass through as they came, so
they are the bytes of decimals here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import moneystate as ms

Reason = Annotated[Literal["LATE", "OLD", "SESSION_MISSING"], ms.Name("moneystate.lookups.LookupReason")]
Outcome = Annotated[ms.Outcome, ms.Name("moneystate.lookups.LookupOutcome")]
Status = Annotated[Literal["JOINED", "NO_SESSION", "LOOKED_UP", "NOT_FOUND", "LOOKUP_FAILED"], ms.Name("SessionStatus")]

Amount = Annotated[bytes, ms.Digits(20, 4)]


@dataclass(frozen=True)
class Event:
    id: str
    user_id: str
    processed_at: ms.Millis


@dataclass(frozen=True)
class MoneyEvent:
    id: str
    user_id: str
    user_session_id: str | None = field(default=None, kw_only=True)
    processed_at: ms.Millis
    amount: Amount
    currency: str
    opening_balance: Amount
    closing_balance: Amount
    money_type: str


@dataclass(frozen=True)
class PaymentEvent(MoneyEvent):
    payment_related_thing: str
    is_old_money_event: bool = False


@dataclass(frozen=True)
class TransactionEvent(MoneyEvent):
    transaction_related_thing: str
    is_old_money_event: bool = False


@dataclass(frozen=True)
class KindOfWalletEvent(Event):
    something_interesting: str


@dataclass(frozen=True)
class ChangeAddressEvent(Event):
    address: str
    resident_country_code: str
    postal_code: str


@dataclass(frozen=True)
class ChangeBirthDateEvent(Event):
    birth_year: str
    birth_city_place: str


@dataclass(frozen=True)
class ForgetUserRequested(Event):
    requested_by: str


@dataclass(frozen=True)
class OtherUserEvent(Event):
    something_util: str


@dataclass(frozen=True)
class UserSessionCreatedEvent(Event):
    client_country_code: str


@dataclass(frozen=True)
class UserSessionClosedEvent(Event):
    reason: str


@ms.named("moneystate.enriched.Money")
@dataclass
class Money:
    id: str
    user_id: str
    user_session_id: str | None
    processed_at: ms.Millis
    amount: Amount
    currency: str
    closing_balance: Amount
    money_type: str
    is_old_money_event: bool


@ms.named("moneystate.enriched.UserInfo")
@dataclass(frozen=True)
class UserInfo:
    birth_year: Annotated[str | None, ms.personal] = None
    resident_country_code: Annotated[str | None, ms.personal] = None


@ms.named("moneystate.enriched.SessionInfo")
@dataclass
class SessionInfo:
    client_country_code: Annotated[str, ms.personal]


@ms.named("moneystate.enriched.MoneyEnriched")
@dataclass
class MoneyEnriched:
    money: Money
    user_info: UserInfo | None
    session_info: SessionInfo | None
    first_occurrence: bool
    session_status: Status


# Lookups


@ms.named("moneystate.lookups.SessionLookupRequested")
@dataclass(frozen=True)
class SessionLookupRequested:
    money_id: str
    user_id: str
    user_session_id: str
    requested_at: ms.Millis
    reason: Reason


@ms.named("moneystate.lookups.SessionLookupCompleted")
@dataclass(frozen=True)
class SessionLookupCompleted:
    money_id: str
    user_id: str
    user_session_id: str
    requested_at: ms.Millis
    outcome: Outcome
    client_country_code: str | None = field(default=None, kw_only=True)
    attempts: ms.Int32
    completed_at: ms.Millis


# State


@dataclass
class User:
    """Holds what the service knows about a user."""

    info: UserInfo | None = None
    money_types: list[str] = field(default_factory=list)
    waited: int = 0  # number for the next money that waits; it counts all that has waited


@dataclass
class Session:
    country: Annotated[str, ms.personal]
    expires_ms: int
    id: str = ""  # by which queries find it


@dataclass(frozen=True)
class Waiting:
    """Money without its session: it waits for the session, or for the reply of its lookup."""

    money: Money
    user_info: UserInfo | None
    first_occurrence: bool
    since: ms.Millis = 0  # the order time of the money


# Answers


@dataclass(frozen=True)
class Pending:
    """Money that has no output yet."""

    user_id: str
    money_id: str
    user_session_id: str
    since: ms.Millis
    requested_at: ms.Millis | None  # None: it waits for its session; else for the reply to this request
    reason: Reason | None


@dataclass(frozen=True)
class KnownSession:
    """A session that money can still be joined to."""

    id: str
    user_id: str
    country: Annotated[str, ms.personal]
    expires_ms: ms.Millis

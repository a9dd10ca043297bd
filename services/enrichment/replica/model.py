"""The answers of a replica of the enrichment's state, beside `moneystate.replica.model`.

Those that each point read makes some of are named tuples, which take a third of the time of frozen dataclasses to make.
Times are in ms. `source`: the event that a value came from, None where it was written by a version that did not keep
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from moneystate.replica.model import Source


class Known(NamedTuple):
    value: str
    source: Source | None


class MoneyType(NamedTuple):
    type: str
    source: Source | None


class Session(NamedTuple):
    """A session of a user."""

    id: str
    country: str  # clientCountryCode
    expires_ms: int  # valid before this time
    source: Source | None


class SeenMoney(NamedTuple):
    """Money that counts for the duplicate check."""

    id: str
    seen_at_ms: int  # order time of the money that counts as the first
    source: Source | None


class Reason(Enum):
    """Why money is not put out yet: it waits for its session, or why it was sent to lookup."""

    WAITING = "WAITING"
    LATE = "LATE"
    OLD = "OLD"
    SESSION_MISSING = "SESSION_MISSING"


@dataclass(frozen=True, slots=True)
class Pending:
    """Money that is not put out yet."""

    user_id: str
    money_id: str
    session_id: str
    reason: Reason
    order_time_ms: int
    requested_at_ms: int | None  # None: it still waits for its session
    first_occurrence: bool
    amount: str  # a decimal number with its four places
    currency: str
    money_type: str
    birth_year: Known | None  # the user info that it travels with
    country: Known | None  # the user info that it travels with
    source: Source  # its own event


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A lookup's reply that was read before its request."""

    money_id: str
    requested_at_ms: int
    outcome: str  # FOUND, NOT_FOUND or FAILED
    country: str | None
    source: Source | None


class UserView(NamedTuple):
    """All that is known about a user."""

    user_id: str
    birth_year: Known | None
    country: Known | None
    money_types: tuple[MoneyType, ...]
    sessions: tuple[Session, ...]  # valid at the version's watermark, by id
    seen_money: tuple[SeenMoney, ...]  # oldest first
    waiting: tuple[Pending, ...]  # oldest first
    looking_up: tuple[Pending, ...]  # oldest first
    replies: tuple[KeptReply, ...]
    schema_versions: tuple[int, ...]  # with which the user's entries are written, ascending


class Where(Enum):
    """The progress of a money event: not output yet; output, only its id is known; output, with its record."""

    WAITING = "WAITING"
    LOOKING_UP = "LOOKING_UP"
    SEEN = "SEEN"
    PUT_OUT = "PUT_OUT"


@dataclass(frozen=True, slots=True)
class MoneyView:
    """All that is known about one money event."""

    money_id: str
    user_id: str
    where: Where
    pending: Pending | None  # if it waits or is looked up
    enriched: Source | None  # its record in the output, if put out; the time is that record's timestamp
    # (role, event) of all that is known; roles are the fields of Lineage: money, session, birthYear,
    # residentCountryCode, firstOfType, reply
    origins: tuple[tuple[str, Source], ...]


@dataclass(frozen=True, slots=True)
class ForgottenView:
    """The proof that a user was forgotten."""

    user_id: str
    request_id: str
    requested_by: str
    forgotten_at_ms: int  # order time of the request
    source: Source | None

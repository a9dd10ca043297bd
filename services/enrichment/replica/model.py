"""The answers of a replica of the enrichment's state, in addition to `moneystate.replica.model`.

Point reads create many of these. Such types are named tuples: to create one takes a third of the time of a frozen
dataclass. Times are in ms. `source` is the event that a value comes from. None: an earlier version, which did not store
sources, wrote the value.
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
    """A money event whose duplicates are recognized."""

    id: str
    seen_at_ms: int  # order time of the first event with this id
    source: Source | None


class Reason(Enum):
    """Why money has not been written yet: it waits for its session, or for a lookup for one of the other reasons."""

    WAITING = "WAITING"
    LATE = "LATE"
    OLD = "OLD"
    SESSION_MISSING = "SESSION_MISSING"


@dataclass(frozen=True, slots=True)
class Pending:
    """Money that has not been written yet."""

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
    birth_year: Known | None  # user info at its order time
    country: Known | None  # user info at its order time
    source: Source  # its own event


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A reply to a lookup that the job has not requested yet (as of this version)."""

    money_id: str
    requested_at_ms: int
    outcome: str  # FOUND, NOT_FOUND or FAILED
    country: str | None
    source: Source | None


class UserView(NamedTuple):
    """The state of a user."""

    user_id: str
    birth_year: Known | None
    country: Known | None
    money_types: tuple[MoneyType, ...]
    sessions: tuple[Session, ...]  # valid at the version's watermark, by id
    seen_money: tuple[SeenMoney, ...]  # oldest first
    waiting: tuple[Pending, ...]  # oldest first
    looking_up: tuple[Pending, ...]  # oldest first
    replies: tuple[KeptReply, ...]
    schema_versions: tuple[int, ...]  # of the user's entries, ascending


class Where(Enum):
    """The progress of a money event.

    WAITING, LOOKING_UP: it has not been written. SEEN: it has been written, and only its id is known. PUT_OUT: it has
    been written, and its record is known.
    """

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
    pending: Pending | None  # for WAITING and LOOKING_UP
    enriched: Source | None  # for PUT_OUT: its record in the output; the time is that record's timestamp
    # the known (role, event) pairs; roles are the fields of Lineage: money, session, birthYear, residentCountryCode,
    # firstOfType, reply
    origins: tuple[tuple[str, Source], ...]


@dataclass(frozen=True, slots=True)
class ForgottenView:
    """The proof that a user was forgotten."""

    user_id: str
    request_id: str
    requested_by: str
    forgotten_at_ms: int  # order time of the request
    source: Source | None

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
    """Valid before `expires_ms`. `country`: clientCountryCode."""

    id: str
    country: str
    expires_ms: int
    source: Source | None


class SeenMoney(NamedTuple):
    """`seen_at_ms`: order time of the money that counts as the first."""

    id: str
    seen_at_ms: int
    source: Source | None


class Reason(Enum):
    """Why money is not put out yet: it waits for its session, or why it was sent to lookup."""

    WAITING = "WAITING"
    LATE = "LATE"
    OLD = "OLD"
    SESSION_MISSING = "SESSION_MISSING"


@dataclass(frozen=True, slots=True)
class Pending:
    """Money that is not put out yet. `requested_at_ms`: None while it waits for its session. `amount`: a decimal
    number with its four places. `birth_year`, `country`: the user info that it travels with. `source`: its own event.
    """

    user_id: str
    money_id: str
    session_id: str
    reason: Reason
    order_time_ms: int
    requested_at_ms: int | None
    first_occurrence: bool
    amount: str
    currency: str
    money_type: str
    birth_year: Known | None
    country: Known | None
    source: Source


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A lookup's reply that was read before its request. `outcome`: FOUND, NOT_FOUND or FAILED."""

    money_id: str
    requested_at_ms: int
    outcome: str
    country: str | None
    source: Source | None


class UserView(NamedTuple):
    """`sessions`: those that are valid at the version's watermark, by id. `seen_money`, `waiting`, `looking_up`: oldest
    first. `schema_versions`: that the user's entries are written with, ascending."""

    user_id: str
    birth_year: Known | None
    country: Known | None
    money_types: tuple[MoneyType, ...]
    sessions: tuple[Session, ...]
    seen_money: tuple[SeenMoney, ...]
    waiting: tuple[Pending, ...]
    looking_up: tuple[Pending, ...]
    replies: tuple[KeptReply, ...]
    schema_versions: tuple[int, ...]


class Where(Enum):
    """The progress of a money event: not output yet; output, only its id is known; output, with its record."""

    WAITING = "WAITING"
    LOOKING_UP = "LOOKING_UP"
    SEEN = "SEEN"
    PUT_OUT = "PUT_OUT"


@dataclass(frozen=True, slots=True)
class MoneyView:
    """`pending`: where it waits or is looked up. `enriched`: its record in the output, where put out; its time is that
    record's timestamp. `origins`: (role, event) of all that is known, the roles being the fields of the record Lineage:
    money, session, birthYear, residentCountryCode, firstOfType, reply."""

    money_id: str
    user_id: str
    where: Where
    pending: Pending | None
    enriched: Source | None
    origins: tuple[tuple[str, Source], ...]


@dataclass(frozen=True, slots=True)
class ForgottenView:
    """The proof that a user was forgotten. `forgotten_at_ms`: the request's order time."""

    user_id: str
    request_id: str
    requested_by: str
    forgotten_at_ms: int
    source: Source | None

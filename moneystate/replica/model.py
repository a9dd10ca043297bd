"""What a replica answers with. Plain values: they stay as they are, whatever the replica does after.

    ReplicaError
    ├── NotFound     no such user, session, money or proof at that version
    ├── Malformed    the question makes no sense: a mark that was made for another listing
    ├── Pruned       the version is older than what is kept, or was never whole here
    ├── Future       the version is not whole yet, or of an epoch that the replica does not know
    └── NotReady     the first full catch-up is not done

Those that each point read makes some of are named tuples, which take a third of the time of frozen dataclasses to make.

Times are in ms. `source`: the event that a value came from, None where it was written by a version that did not keep
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Version(NamedTuple):
    """The state after one batch of one epoch (the query id of the job's checkpoint)."""

    epoch: str
    batch: int

    def __str__(self) -> str:
        return f"{self.epoch}/{self.batch}"


class ReplicaError(Exception):
    """A read that has no answer; the caller is told why."""


class NotFound(ReplicaError):
    pass


class Malformed(ReplicaError):
    pass


class Pruned(ReplicaError):
    def __init__(self, oldest: Version, newest: Version) -> None:
        super().__init__(f"expected a version that is kept: {oldest} to {newest}")
        self.oldest = oldest
        self.newest = newest


class Future(ReplicaError):
    def __init__(self, newest: Version) -> None:
        super().__init__(f"expected a version up to {newest}, the newest")
        self.newest = newest


class NotReady(ReplicaError):
    def __init__(self) -> None:
        super().__init__("the replica still loads the state")


class Source(NamedTuple):
    """The place of an event in the log. `topic`: without prefix."""

    topic: str
    partition: int
    offset: int
    event_time_ms: int


class Header(NamedTuple):
    """`watermark_ms`: None before the first event, the largest 64-bit number after a drain. `written_at_ms`: of the
    version's last end-of-batch record, by the writer's clock. `current_as_of_ms`: when the replica last knew that it
    had all there is, by its own clock. `schema_fingerprint`: of the schema that users are written with now, 16
    hexadecimal digits."""

    version: Version
    watermark_ms: int | None
    written_at_ms: int
    current_as_of_ms: int
    schema_fingerprint: str


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


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the changelog: `key` and `value` to the byte (docs/state.md)."""

    key: bytes
    value: bytes


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
    """Where money is: not put out yet; put out, which is known of its id only; put out, with its record."""

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


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """`after`: where the next page goes on; None: there is none. A page may have fewer items than asked for, even
    none, and still lead on."""

    items: tuple[Item, ...]
    after: bytes | None


@dataclass(frozen=True, slots=True)
class UserChange:
    """None: nothing was known of the user."""

    user_id: str
    before: UserView | None
    after: UserView | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What one version changed: each user with the state after it, None where nothing is known any more. `mark`: more
    changes of this version follow."""

    header: Header
    changed: tuple[tuple[str, UserView | None], ...]
    mark: bytes | None


@dataclass(frozen=True, slots=True)
class SchemaCount:
    """`kind`: user, page, waiting or forgotten."""

    kind: str
    schema_version: int
    entries: int


@dataclass(frozen=True, slots=True)
class Status:
    """`header`: None until caught up for the first time. `users`: at the newest version. `lag_records`: committed
    records of the changelog not read yet."""

    header: Header | None
    caught_up: bool
    oldest: Version | None
    lag_records: int
    current_as_of_ms: int
    users: int
    schema_counts: tuple[SchemaCount, ...]
    database_bytes: int
    key_groups: int

"""The answers of a replica, as immutable values.

    ReplicaError
    ├── Malformed    the request is invalid, such as a mark of another listing
    ├── Pruned       the version is older than the retention, or was never complete here
    ├── Future       the version is not complete yet, or of an epoch that the replica does not know
    └── NotReady     the first full catch-up is not done

Values that every point read creates are named tuples, which take a third of the time of frozen dataclasses.

Times are in ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

Listed = TypeVar("Listed")


class Version(NamedTuple):
    """The state after one batch of one epoch (the query id of the job's checkpoint)."""

    epoch: str
    batch: int

    def __str__(self) -> str:
        return f"{self.epoch}/{self.batch}"


class ReplicaError(Exception):
    """A read that has no answer. The message tells the caller why."""


class Malformed(ReplicaError):
    pass


class Pruned(ReplicaError):
    def __init__(self, oldest: Version, newest: Version) -> None:
        super().__init__(f"expected a version from {oldest} to {newest}, which the replica has")
        self.oldest = oldest
        self.newest = newest


class Future(ReplicaError):
    def __init__(self, newest: Version) -> None:
        super().__init__(f"expected a version up to {newest}, the newest")
        self.newest = newest


class NotReady(ReplicaError):
    def __init__(self) -> None:
        super().__init__("the replica is still loading the state")


class EventPlace(NamedTuple):
    """The place of an event in the log."""

    topic: str  # without prefix
    partition: int
    offset: int
    event_time_ms: int


class Header(NamedTuple):
    """Says how new an answer is."""

    version: Version
    watermark_ms: int | None  # None before the first event, the largest 64-bit number after a drain
    written_at_ms: int  # when the version's last end-of-batch record was written, by the writer's clock
    current_as_of_ms: int  # when the replica had last read everything, by its own clock
    schema_fingerprint: str  # of the schema that owners are written with now, 16 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the changelog, as its bytes (docs/state.md)."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in place of a record that cannot be decoded."""

    problem: str


@dataclass(frozen=True, slots=True)
class Item:
    """A value of a key, or an entry of a map."""

    state: str
    owner: bytes
    id: bytes  # empty for a value
    record: Any  # None: it no longer exists; Unreadable


@dataclass(frozen=True, slots=True)
class SetTimer:
    """A timer that is set."""

    name: str
    id: bytes
    due_ms: int
    source: EventPlace  # the event that set it


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry at two versions."""

    before: Item
    after: Item


@dataclass(frozen=True, slots=True)
class ItemChanges:
    """Holds what one version changed, entry by entry."""

    header: Header
    items: tuple[Item, ...]
    mark: bytes | None  # where to continue with this version; None: that was all


@dataclass(frozen=True, slots=True)
class Step:
    """A change of an entry."""

    header: Header | None  # of that version; None: it is older than those that are kept
    before_ms: int | None  # the previous version's watermark: events from then on made the change
    record: Any  # None: there was no entry


@dataclass(frozen=True, slots=True)
class Page(Generic[Listed]):
    """A page of a listing. It may have fewer items than requested, even none, and still not be the last."""

    items: tuple[Listed, ...]
    after: bytes | None  # where the next page starts; None: this is the last page


@dataclass(frozen=True, slots=True)
class SchemaCount:
    """Describes how many entries of a kind have a schema version."""

    kind: str  # as `ReplicaModel.schema` names it
    schema_version: int
    entries: int


@dataclass(frozen=True, slots=True)
class Status:
    """The replica's progress and size."""

    header: Header | None  # None until caught up for the first time
    caught_up: bool
    oldest: Version | None
    lag_records: int  # committed changelog records that are not read yet
    current_as_of_ms: int
    keys: int  # at the newest version
    schema_counts: tuple[SchemaCount, ...]
    database_bytes: int
    key_groups: int

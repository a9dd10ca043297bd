"""The records of changes: what the connector wrote, what happened, and the state.

A row and a key are JSON: the columns of a row as an object, those of a primary key as an array of their values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

import moneystate as ms
from moneystate.records.json_value import json_as_is

NONE: Final = json_as_is("[]")
EMPTY: Final = json_as_is("{}")
Op: TypeAlias = Literal["c", "u", "d", "r", "t"]
Certainty: TypeAlias = Literal["TRANSACTION", "INCOMPLETE", "WAIT", "SNAPSHOT"]

# Records of the connector


@dataclass(frozen=True)
class Change:
    """A change event of a table. `other_key`: the new key of a deletion and the old key of a creation that are one
    change of the primary key; `transaction`: empty where the event has none; `order`: its number in the transaction,
    which may begin again; `lsn`: its position, 0 for an incremental snapshot; `commit`: the position of the last commit
    before it; `written_by`: `source.txId`; `committed_at`: the database's time; `unavailable`: names of columns of
    `after` that the log does not have, as a JSON array; `problem`: why the row cannot be read."""

    connector: str
    table: str
    op: Op
    key: str
    other_key: str
    before: ms.Json | None
    after: ms.Json | None
    transaction: str
    order: int
    lsn: int
    commit: int
    written_by: str
    committed_at: ms.Millis
    unavailable: ms.Json
    incremental: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Ended:
    """The end of a transaction. `counts`: how many changes it has, by table as the database names it."""

    connector: str
    transaction: str
    lsn: int
    committed_at: ms.Millis
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Beat:
    """A heartbeat of the connector."""

    connector: str
    committed_at: ms.Millis


# Records of the topic business-events


@dataclass
class RowRef:
    table: str
    op: Op
    lsn: int


@dataclass
class BusinessEvent:
    """`type`: a name of the configuration; `rows`: its own and those that it absorbed. docs/changes.md says which
    fields an event has."""

    type: str
    certainty: Certainty
    connector: str
    transaction_id: str | None
    committed_at: Annotated[ms.Millis, ms.Wire("at")]
    table: str
    student: ms.Json | None = None
    course: ms.Json | None = None
    from_: Annotated[ms.Json | None, ms.Wire("from")] = None
    to: ms.Json | None = None
    link: ms.Json | None = None
    before: ms.Json | None = None
    after: ms.Json | None = None
    changed: list[str] | None = None
    missing: list[str] = field(default_factory=list)
    rows: list[RowRef] = field(default_factory=list)


@dataclass(frozen=True)
class ChangedRow:
    """A row after a change, for the topic of its table."""

    table: str
    key: str
    row: ms.Json
    committed_at: Annotated[ms.Millis, ms.Wire("at")]


# State


@dataclass(frozen=True)
class Row:
    """`columns`: None once it is deleted; `unknown`: names of columns that the log never had, as a JSON array; `unit`:
    the number of the unit that wrote it, 0 for a snapshot; `committed_at`: the database's time of its last change;
    `events`: its last ones, newest first, as a JSON array."""

    columns: ms.Json | None
    unknown: ms.Json
    lsn: int
    unit: int
    committed_at: ms.Millis
    events: ms.Json


@dataclass(frozen=True)
class Pending(Change):
    """A change that waits for its unit. `previous`: the id of the one before it in the unit; empty: it is the first."""

    previous: str = ""


@dataclass
class Open:
    """A unit that is not applied. `last`: the id of its last change in `pending`; `counts`: its changes, by table;
    `since`: when the first of it arrived; `unreadable`: whether one of its changes cannot be read; `end`: the number
    of its end in the queue."""

    last: str = ""
    counts: ms.Json = EMPTY
    committed_at: ms.Millis = 0
    since: ms.Millis = 0
    unreadable: bool = False
    end: int | None = None


@dataclass(frozen=True)
class Queued:
    """Holds what is applied in the order of arrival: the end of a unit, or a change of a snapshot. `due`: when the unit
    is applied without what it lacks."""

    end: Ended | None
    change: Change | None
    due: ms.Millis


@dataclass(frozen=True)
class Applied:
    """A unit that was applied. `number`: in the order of applying."""

    number: int
    complete: bool
    committed_at: ms.Millis


@dataclass(frozen=True)
class Forgotten:
    """Nothing but its id, which is forgotten when its time comes."""

    kind: Literal["row", "unit", "change"]


@dataclass
class Connector:
    """`head`, `tail`: numbers of the queue; `units`: how many were applied; `last_end`: the position of the last end;
    `first_end`: the database's time of the first end; `committed_at`: the database's time of the last unit;
    `due`: of the timer; `truncated`: the position of the last truncation, by table; `slots`: those with something to
    forget."""

    head: int = 0
    tail: int = 0
    units: int = 0
    last_end: int = 0
    first_end: ms.Millis | None = None
    committed_at: ms.Millis = 0
    due: ms.Millis | None = None
    truncated: ms.Json = EMPTY
    slots: ms.Json = NONE
    last_slot: int = -1


# State of wait mode


@dataclass
class Gathered:
    """A unit that is not closed. `last`: the id of its last change in `pending`; `since`: when the first of it arrived;
    `commit`, `lsn`: the greatest of its changes, which are its place among the units."""

    last: str = ""
    since: ms.Millis = 0
    commit: int = 0
    lsn: int = 0


@dataclass(frozen=True)
class Arrived:
    """A unit in the order in which the first of each arrived."""

    unit: str
    since: ms.Millis


@dataclass
class Units:
    """Units that share the commit before them."""

    units: list[str]


@dataclass
class Waiting:
    """An event that waits. `created`: whether its row was created, or removed; `turn`: its number among those whose
    waits end."""

    table: str
    key: str
    created: bool
    row: ms.Json
    unknown: ms.Json
    event: BusinessEvent
    changes: list[Change]
    turn: int


@dataclass(frozen=True)
class Turn:
    """Describes when the wait of an event ends, by the database's time."""

    id: str
    due: ms.Millis


@dataclass
class Ids:
    """The ids of events that wait for the same."""

    ids: list[str]


@dataclass
class Waits:
    """The queues of a connector. `arrived_head`, `arrived_tail`, `turn_head`, `turn_tail`: of its queues; `gathered`:
    how many units are not closed; `next_close`: when many of them are looked at again; `as_of`: when the last unit was
    applied; `last_due`: of all turns; `due`: of the timer."""

    arrived_head: int = 0
    arrived_tail: int = 0
    turn_head: int = 0
    turn_tail: int = 0
    gathered: int = 0
    next_close: ms.Millis = 0
    as_of: ms.Millis = 0
    last_due: ms.Millis = 0
    due: ms.Millis | None = None


# Answers


@dataclass
class KnownRow:
    """`columns`: None of a deleted one; `unknown`: columns that the log never had; `events`: the last ones, newest
    first."""

    table: str
    key: ms.Json
    columns: ms.Json | None
    unknown: list[str]
    committed_at: Annotated[ms.Millis, ms.Wire("at")]
    lsn: int
    from_snapshot: bool
    events: ms.Json


@dataclass
class OpenTransaction:
    """`counts`: changes that are there, by table; `lacks`: those that are not, None as long as its end is missing;
    `due`: when it is applied without them."""

    transaction: str
    since: ms.Millis
    committed_at: Annotated[ms.Millis, ms.Wire("at")]
    counts: dict[str, int]
    lacks: dict[str, int] | None
    due: ms.Millis | None


@dataclass
class WaitingEvent:
    """An event that waits, and until when, by the database's time."""

    due: ms.Millis
    event: BusinessEvent

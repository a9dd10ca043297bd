"""Records that the platform writes beside those of a service, with their Avro schemas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from moneystate.records.shapes import Field, Plain, Record, Shapes
from moneystate.records.types import Millis, named, personal


@named("moneystate.api.Timer")
@dataclass
class TimerEntry:
    """A timer in the state. It names the event that set it, so that a timer that was set again is not confused with the
    earlier one."""

    due: int
    set_at: int  # order time of the event that set it
    topic: int
    partition: int
    offset: int


@named("moneystate.api.SeenId")
@dataclass
class SeenId:
    id: bytes
    at: int  # order time of the event that had it


@named("moneystate.api.SeenIds")
@dataclass
class SeenIds:
    """Ids that `unique` has seen, by the order of their times (`moneystate.runtime.seen_page`)."""

    sweep_at: int  # of the ids of a key in its first entry; 0 in its other pages
    depth: int  # of the first entry: the ids are in 2^depth pages; 0: they are here
    ids: list[SeenId]


@named("moneystate.api.Lineage")
@dataclass
class Lineage:
    """The event that caused a record, in the Kafka header `lineage`."""

    topic: str
    partition: int
    offset: int
    order_time: Millis
    timer: str | None = None  # the timer that wrote the record; the event set it. None: the event's own step wrote it


@named("moneystate.events.Heartbeat")
@dataclass
class Heartbeat:
    processed_at: Millis


@named("moneystate.events.TableLoaded")
@dataclass
class TableLoaded:
    """Ends a load of a table. The loader writes it to every partition of the table's topic, with a null key, in the
    transaction of the load's rows."""

    rows: int  # that the source has
    changed: int  # rows that the load wrote
    deleted: int  # tombstones that it wrote
    source: str  # identifies the source: a file with its version, or a query
    loaded_at: Millis


@named("moneystate.EarlyReply")
@dataclass(frozen=True)
class EarlyReply:
    """State: the reply to a request that no step has made yet. A replay finds all replies in the log before it gets to
    their requests."""

    value: Annotated[bytes, personal]  # in canonical form
    partition: int
    offset: int


@named("moneystate.api.HeldEvent")
@dataclass
class HeldEvent:
    """An event that waits for a row of a table. It is an item of the total order."""

    topic: int
    partition: int
    offset: int
    rank: int
    order_time: int
    event_time: int
    value: Annotated[bytes, personal]


@named("moneystate.api.HeldEvents")
@dataclass
class HeldEvents:
    """The held events of a key, the next one first."""

    events: list[HeldEvent] = field(default_factory=list)
    checks: int = 0  # how often the first has been looked at


@dataclass
class _Kept:
    pass


_shapes = Shapes("moneystate.api")
TIMER_RECORD = _shapes.record(TimerEntry, "the platform")
SEEN_RECORD = _shapes.record(SeenIds, "the platform")
LINEAGE_RECORD = _shapes.record(Lineage, "the platform")
HEARTBEAT_RECORD = _shapes.record(Heartbeat, "the platform")
TABLE_LOADED_RECORD = _shapes.record(TableLoaded, "the platform")


def kept_record(record: Record) -> Record:
    """The record that stores a state record with a TTL."""
    long = Plain("long")
    fields = [Field("at", "at", long, None, False), Field("sweep_at", "sweepAt", long, None, False)]
    return Record(f"{record.name}Kept", _Kept, [*fields, Field("value", "value", record, None, False)])

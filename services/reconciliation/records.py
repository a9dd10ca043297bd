"""The records that reconciliation reads, writes and stores. Those that items make are not frozen: a frozen one takes
four times as long to make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import moneystate as ms
from moneystate.engine.avro import Malformed

Role: TypeAlias = Literal["PRODUCER_EXPECTED", "CONSUMER_EXPECTED", "ACTUAL"]
FindingKind: TypeAlias = Literal[
    "TOO_LATE", "DUPLICATE", "LOST", "MISSING", "FOUND", "UNEXPECTED", "EXPLAINED", "TIME_MISMATCH"
]


@dataclass(frozen=True)
class InventoryItem:
    """A store announces an event, or says that it has one. `parts` counts on expected items only, `derived_from`,
    `derived_from_source` and `filtered` on actual ones."""

    store: str
    source: str
    event_id: str
    role: Role
    event_time: ms.Millis
    written_at: ms.Millis | None = None
    parts: int = 1
    derived_from: str | None = None
    derived_from_source: str | None = None
    filtered: bool = False
    note: str | None = None


def is_resent(item: InventoryItem, first: InventoryItem) -> bool:
    """Whether the items are equal in every field, with defaults filled in."""
    return item == first or _filled(item) == _filled(first)


def _filled(item: InventoryItem) -> InventoryItem:
    return replace(item, derived_from_source=item.source) if item.derived_from_source is None else item


def checked_time(item: InventoryItem) -> int:
    """The event time of an item that is as it should be. Raises Malformed, which makes a dead letter of another."""
    if item.parts < 1:
        raise Malformed(f"parts: expected 1 or more, found {item.parts}")
    return item.event_time


@dataclass
class Finding:
    """`source` and `event_id`: of the key; `item_id`: of the item that the finding is about, None for a timer's;
    `event_time`: of the key, for TOO_LATE of the item; `decided_at`: order time, or the timer's time."""

    pair: str
    source: str
    event_id: str
    item_id: str | None
    kind: FindingKind
    event_time: ms.Millis
    decided_at: ms.Millis
    detail: str = ""


@dataclass
class CountChange:
    """Holds what a step changed in the counts of an interval. What is neither matched nor missing is pending."""

    pair: str
    interval_start: ms.Millis
    expected: int = 0
    matched: int = 0
    missing: int = 0
    unexpected: int = 0
    duplicates: int = 0
    too_late: int = 0


@dataclass(frozen=True)
class Counts:
    """The counts of an interval. An item that is neither matched nor missing is pending."""

    expected: int = 0
    matched: int = 0
    missing: int = 0
    unexpected: int = 0
    duplicates: int = 0
    too_late: int = 0


@dataclass(frozen=True)
class Completeness:
    """The counts of an interval. `revision`: 1 in its first record; `final`: no other follows."""

    pair: str
    interval_start: ms.Millis
    interval_end: ms.Millis
    expected: int
    matched: int
    missing: int
    pending: int
    unexpected: int
    duplicates: int
    too_late: int
    percent: float
    revision: int
    final: bool


@dataclass(frozen=True)
class Seen:
    """State: an item that was the first of its kind. `order_time`: its own; `number`: 1 for a key's first actual."""

    order_time: ms.Millis
    item: InventoryItem
    number: int = 1


@dataclass
class Entry:
    """State: what is known of a key. `first`: its first actual item, `actuals`: how many different ones there are;
    `extra`: how many of them were reported after the match. `..._at`: when it was matched, or reported as missing or
    unexpected; `untold`: whether the changes of counts say nothing of it yet."""

    pair: str = ""
    untold: bool = False
    expected: Seen | None = None
    first: Seen | None = None
    actuals: int = 0
    extra: int = 0
    duplicates: int = 0
    matched_at: ms.Millis | None = None
    missing_at: ms.Millis | None = None
    unexpected_at: ms.Millis | None = None

    @property
    def event_time(self) -> int:
        """The key's event time T: that of the expected item, else of the first actual one."""
        seen = self.expected or self.first
        assert seen is not None
        return seen.item.event_time

    def clear(self) -> None:
        """Be no entry."""
        vars(self).update(_NO_ENTRY)


_NO_ENTRY: Final = vars(Entry())


@dataclass(frozen=True)
class Lost:
    """State, for queries alone: an expected item that was not matched. `actuals`: how many of its parts were there."""

    pair: str
    item: InventoryItem
    actuals: int
    lost_at: ms.Millis


@dataclass
class Interval:
    """State: the counts of an interval. `written`: those of its last record; `due`: when the next one is looked at."""

    pair: str = ""
    start: ms.Millis = 0
    counts: Counts = Counts()
    written: Counts = Counts()
    revision: int = 0
    final: bool = False
    due: ms.Millis | None = None

    def clear(self) -> None:
        """Be no entry."""
        vars(self).update(vars(Interval()))

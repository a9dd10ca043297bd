"""Builds the answers of queries from the state of a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import moneystate as ms
from services.reconciliation.records import Entry, Lost, Seen


@dataclass(frozen=True)
class Difference:
    """A finding that is still open. `item_id`: of the actual item that was not expected; `actuals`: how many actual
    items of the key are there."""

    pair: str
    source: str
    event_id: str
    kind: Literal["MISSING", "UNEXPECTED"]
    item_id: str | None
    event_time: ms.Millis
    decided_at: ms.Millis
    actuals: int


@dataclass(frozen=True)
class LostItem:
    pair: str
    source: str
    event_id: str
    event_time: ms.Millis
    lost_at: ms.Millis
    actuals: int
    parts: int
    note: str | None


@dataclass(frozen=True)
class Happened:
    """One line of an item's history. `detail`: the number of parts present, or the item's note."""

    pair: str
    time: ms.Millis
    event: Literal["EXPECTED", "ACTUAL", "FILTERED", "MATCHED", "MISSING", "FOUND", "UNEXPECTED", "EXPLAINED", "LOST"]
    item_id: str
    event_time: ms.Millis
    detail: str


def differences(key: str, entry: Entry, actuals: Sequence[Seen]) -> Iterator[Difference]:
    """Yields the differences of a key. `actuals`: its items, in order."""
    pair, source, event_id = json.loads(key)
    missing, unexpected = entry.missing_at, entry.unexpected_at
    if entry.expected is None:
        if unexpected is not None:
            item_id = actuals[0].item.event_id
            yield Difference(pair, source, event_id, "UNEXPECTED", item_id, entry.event_time, unexpected, entry.actuals)
    elif entry.matched_at is None:
        if missing is not None:
            yield Difference(pair, source, event_id, "MISSING", None, entry.event_time, missing, entry.actuals)
    else:
        for seen in actuals[len(actuals) - entry.extra :]:
            decided_at = max(seen.order_time, entry.matched_at)
            yield Difference(
                pair, source, event_id, "UNEXPECTED", seen.item.event_id, entry.event_time, decided_at, entry.actuals
            )


def lost_item(key: str, lost: Lost) -> LostItem:
    _, source, event_id = json.loads(key)
    item = lost.item
    return LostItem(lost.pair, source, event_id, item.event_time, lost.lost_at, lost.actuals, item.parts, item.note)


def history(key: str, entry: Entry, actuals: Sequence[Seen], lost: Sequence[Lost]) -> list[Happened]:
    """Returns what happened to a key, in the order of time."""
    pair, _, event_id = json.loads(key)
    events = [Happened(pair, one.lost_at, "LOST", event_id, one.item.event_time, _parts(one.actuals, one.item.parts))
              for one in lost]  # fmt: skip
    for seen in actuals:
        item = seen.item
        kind: Literal["FILTERED", "ACTUAL"] = "FILTERED" if item.filtered else "ACTUAL"
        events.append(Happened(pair, seen.order_time, kind, item.event_id, item.event_time, item.note or ""))
    if entry.expected is not None:
        events.extend(_of_expected(pair, entry, entry.expected))
    if entry.unexpected_at is not None:
        first = actuals[0].item
        events.append(Happened(pair, entry.unexpected_at, "UNEXPECTED", first.event_id, first.event_time, ""))
    for seen in actuals[len(actuals) - entry.extra :] if entry.extra else []:
        time = max(seen.order_time, entry.matched_at or seen.order_time)
        events.append(Happened(pair, time, "UNEXPECTED", seen.item.event_id, entry.event_time, ""))
    return sorted(events, key=lambda event: event.time)


def _of_expected(pair: str, entry: Entry, expected: Seen) -> Iterator[Happened]:
    item = expected.item
    yield Happened(pair, expected.order_time, "EXPECTED", item.event_id, item.event_time, item.note or "")
    if entry.unexpected_at is not None:
        yield Happened(pair, expected.order_time, "EXPLAINED", item.event_id, item.event_time, "")
    if entry.missing_at is not None:
        yield Happened(pair, entry.missing_at, "MISSING", item.event_id, item.event_time, "")
    if entry.matched_at is not None:
        kind: Literal["FOUND", "MATCHED"] = "MATCHED" if entry.missing_at is None else "FOUND"
        yield Happened(pair, entry.matched_at, kind, item.event_id, item.event_time, "")


def _parts(there: int, parts: int) -> str:
    return f"{there} of {parts}"

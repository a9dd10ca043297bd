"""The rules for the items of a key (docs/reconciliation.md has their numbers), on state and plain values alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from services.reconciliation.config import Pair
from services.reconciliation.records import CountChange, Entry, Seen

Counted = tuple[int, int, int, int, int, int]  # interval, expected, matched, missing, unexpected, duplicates
NOTHING: Final = (0, 0, 0, 0, 0)  # all of them without the interval


def same_event(a: Seen, b: Seen) -> bool:
    return a.item.event_id == b.item.event_id and a.item.source == b.item.source


def waiting(entry: Entry, further: Iterable[Seen]) -> list[Seen]:
    """The actual items of a key, in their order."""
    if entry.first is None:
        return []
    return [entry.first, *sorted(further, key=lambda seen: seen.number)]


def used_for_match(actuals: Sequence[Seen], parts: int) -> int:
    """Returns how many of the actual items, in their order, make the match; 0: they do not. A filtered one stands for
    all."""
    for number, seen in enumerate(actuals, start=1):
        if seen.item.filtered or number == parts:
            return number
    return 0


def end_of(pair: Pair, entry: Entry) -> int:
    return entry.event_time + pair.m_ms


def due_at(pair: Pair, entry: Entry) -> int:
    """Returns when the side that has come has waited for the other long enough."""
    seen = entry.expected or entry.first
    assert seen is not None
    return min(seen.order_time + pair.n_ms, end_of(pair, entry))


def first_look(pair: Pair, entry: Entry, now: int) -> int:
    """Returns when an expected item that waits is looked at: at due, or where it is untold by the next multiple of
    o."""
    due = due_at(pair, entry)
    return min(due, pair.next_multiple(now)) if entry.untold else due


def counted(pair: Pair, entry: Entry) -> Counted | None:
    """Returns what a key adds to the counts of the interval of its time; None as long as there is no item."""
    expected = entry.expected is not None
    if not expected and entry.first is None:
        return None
    matched = entry.matched_at is not None
    missing = entry.missing_at is not None and not matched
    unexplained = entry.unexpected_at is not None and not expected
    start = pair.interval_of(entry.event_time)
    return start, int(expected), int(matched), int(missing), unexplained + entry.extra, entry.duplicates


def has_counts(pair: Pair, entry: Entry) -> bool:
    before = counted(pair, entry)
    return before is not None and before[1:] != NOTHING


def told(pair: Pair, entry: Entry) -> Counted | None:
    """Returns what the changes have told of a key. An expected item that waits is told at the next multiple of o only:
    mostly it is matched before, and one change says both."""
    return None if entry.untold else counted(pair, entry)


def changes(pair: str, before: Counted | None, after: Counted | None) -> list[CountChange]:
    """Returns the changes from what a key added before a step to what it adds after it. A key that is removed keeps
    what it added."""
    if before == after or after is None:
        return []
    if before is None:
        deltas = [after]
    elif before[0] == after[0]:
        deltas = [_minus(after, before)]
    else:
        deltas = [_minus((before[0], *NOTHING), before), after]
    return [CountChange(pair, *delta) for delta in deltas if delta[1:] != NOTHING]


def _minus(a: Counted, b: Counted) -> Counted:
    return a[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5]

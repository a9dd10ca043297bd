"""The rules of the reconciliation in the plainest way: the whole log is sorted first, then gone through once.

It shares the record classes with the service and nothing else. Times are looked at in order: all items of a time, then
the timers of that time, `due` before `end`.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.reconciliation.records import Completeness, Finding, FindingKind, InventoryItem

NEVER = math.inf


class Logged(NamedTuple):
    """A record of the log. `item` None: a heartbeat."""

    topic: str
    partition: int
    offset: int
    event_time: int
    item: InventoryItem | None


@dataclass(frozen=True)
class RefPair:
    name: str
    expected: tuple[str, str]  # store, role
    actual: tuple[str, str]
    n: int
    m: int
    o: int
    report_duplicates: bool


def with_defaults(item: InventoryItem) -> dict[str, object]:
    fields = dict(vars(item))
    if fields["derived_from_source"] is None:
        fields["derived_from_source"] = item.source
    return fields


@dataclass
class Entry:
    """All that is known of a key."""

    expected: InventoryItem | None = None
    actuals: list[InventoryItem] = field(default_factory=list)
    matched: bool = False
    missing: bool = False
    unexpected: bool = False  # reported at due and not explained
    extra: int = 0  # reported one by one
    duplicates: int = 0
    due: float = NEVER
    end: float = NEVER

    def time(self) -> int:
        return self.expected.event_time if self.expected is not None else self.actuals[0].event_time


class Reference:
    """`findings` by record key, in their order; `completeness` by record key (pair, start); `counts`; `outcomes`: how
    often each thing happened that a workload has to reach."""

    def __init__(self, pairs: Sequence[RefPair], bounds: dict[str, int], ranks: dict[str, int]) -> None:
        self.pairs = pairs
        self.bounds = bounds
        self.ranks = ranks
        self.findings: dict[str, list[Finding]] = defaultdict(list)
        self.completeness: dict[tuple[str, int], list[Completeness]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.entries: dict[tuple[str, str, str], Entry] = {}
        self.by_name = {pair.name: pair for pair in pairs}
        # (pair, interval) -> what changed when: time, field, by how much
        self.changes: dict[tuple[str, int], list[tuple[int, str, int]]] = defaultdict(list)

    def run(self, log: Sequence[Logged]) -> None:
        for time, item in self.in_order(log):
            self.timers_before(time)
            self.take(time, item)
        self.timers_before(NEVER)
        for pair, start in self.changes:
            self.write_interval(self.by_name[pair], start)

    def in_order(self, log: Sequence[Logged]) -> list[tuple[int, InventoryItem]]:
        highs: dict[tuple[str, int], int] = {}
        placed = []
        for record in sorted(log, key=lambda r: (r.topic, r.partition, r.offset)):
            place = (record.topic, record.partition)
            time = record.event_time
            if place in highs:
                time = max(time, highs[place] - self.bounds[record.topic])
            highs[place] = max(highs.get(place, record.event_time), record.event_time)
            if record.item is not None:
                rank = self.ranks[record.topic]
                placed.append(((time, rank, record.topic, record.partition, record.offset), record.item))
        return [(place[0], item) for place, item in sorted(placed, key=lambda p: p[0])]

    # Items

    def take(self, t: int, item: InventoryItem) -> None:
        side = (item.store, item.role)
        mine = [pair for pair in self.pairs if side in (pair.expected, pair.actual)]
        if not mine:
            self.counts["no_pair"] += 1
        self.outcomes[f"pairs of an item: {len(mine)}"] += 1
        for pair in mine:
            is_expected = side == pair.expected
            source, id = item.source, item.event_id
            if not is_expected and item.derived_from is not None:
                source, id = str(with_defaults(item)["derived_from_source"]), item.derived_from
            self.take_in_pair(t, pair, (pair.name, source, id), item, is_expected)

    def take_in_pair(
        self, t: int, pair: RefPair, key: tuple[str, str, str], item: InventoryItem, is_expected: bool
    ) -> None:
        if t > item.event_time + pair.m:  # rule 1
            self.find(key, "TOO_LATE", item.event_id, item.event_time, t)
            start = item.event_time // pair.o * pair.o
            if t <= start + pair.o + pair.m:
                self.changes[pair.name, start].append((t, "too_late", 1))
                self.counts["too_late"] += 1
            else:
                self.outcomes["too late after the final record"] += 1
            return
        entry = self.entries.setdefault(key, Entry())
        known = [entry.expected] if is_expected and entry.expected else [] if is_expected else entry.actuals
        for first in known:  # rule 2
            if (first.source, first.event_id) == (item.source, item.event_id):
                if with_defaults(first) == with_defaults(item):
                    self.counts["resent"] += 1
                    return
                self.counts["duplicates"] += 1
                entry.duplicates += 1
                self.change(key, t, duplicates=1)
                if pair.report_duplicates:
                    self.find(key, "DUPLICATE", item.event_id, entry.time(), t)
                return
        if is_expected:
            self.take_expected(t, pair, key, entry, item)
        else:
            self.take_actual(t, pair, key, entry, item)

    def take_expected(
        self, t: int, pair: RefPair, key: tuple[str, str, str], entry: Entry, item: InventoryItem
    ) -> None:
        counted_before = entry.unexpected + 0, entry.duplicates
        if entry.actuals and entry.time() // pair.o != item.event_time // pair.o:
            self.outcomes["T moved to another interval"] += 1
            self.change(key, t, unexpected=-counted_before[0], duplicates=-counted_before[1])
            entry.expected = item
            self.change(key, t, unexpected=counted_before[0], duplicates=counted_before[1])
        entry.expected = item
        entry.end = item.event_time + pair.m
        entry.due = min(t + pair.n, entry.end)
        self.change(key, t, expected=1)
        if entry.unexpected:
            entry.unexpected = False
            self.change(key, t, unexpected=-1)
            self.find(key, "EXPLAINED", item.event_id, entry.time(), t)
        used = self.used(entry)
        if used:
            entry.matched = True
            self.outcomes["matched when expected came"] += 1
            self.change(key, t, matched=1)
            for extra in entry.actuals[used:]:
                self.outcomes["extra that waited"] += 1
                self.extra(t, key, entry, extra)
            self.compare_times(t, key, entry)
        elif entry.actuals:
            self.outcomes["expected came, some parts were there"] += 1

    def take_actual(self, t: int, pair: RefPair, key: tuple[str, str, str], entry: Entry, item: InventoryItem) -> None:
        entry.actuals.append(item)
        if item.derived_from is not None:
            self.outcomes["derived"] += 1
        if entry.expected is None:
            if len(entry.actuals) == 1:
                entry.end = item.event_time + pair.m
                entry.due = min(t + pair.n, entry.end)
            return
        if entry.matched:
            self.extra(t, key, entry, item)
        elif self.used(entry):
            entry.matched = True
            self.outcomes["matched when an actual came"] += 1
            self.change(key, t, matched=1)
            if entry.missing:
                entry.missing = False
                self.change(key, t, missing=-1)
                self.find(key, "FOUND", item.event_id, entry.time(), t)
            self.compare_times(t, key, entry)

    def used(self, entry: Entry) -> int:
        """How many of the actuals make the match; 0: they do not."""
        assert entry.expected is not None
        for number, actual in enumerate(entry.actuals, start=1):
            if actual.filtered and number < entry.expected.parts:
                self.outcomes["matched by a filtered actual"] += 1
            if actual.filtered or number == entry.expected.parts:
                return number
        return 0

    def extra(self, t: int, key: tuple[str, str, str], entry: Entry, item: InventoryItem) -> None:
        entry.extra += 1
        self.change(key, t, unexpected=1)
        self.find(key, "UNEXPECTED", item.event_id, entry.time(), t)

    def compare_times(self, t: int, key: tuple[str, str, str], entry: Entry) -> None:
        assert entry.expected is not None
        if entry.expected.parts == 1 and entry.actuals[0].event_time != entry.expected.event_time:
            self.find(key, "TIME_MISMATCH", entry.actuals[0].event_id, entry.time(), t)

    # Timers

    def timers_before(self, time: float) -> None:
        """Those of a key in their order; no key has to do with another."""
        for key, entry in list(self.entries.items()):
            if entry.due < time:
                self.at_due(key, entry)
            if entry.end < time:
                self.at_end(key, entry)

    def at_due(self, key: tuple[str, str, str], entry: Entry) -> None:
        t, entry.due = int(entry.due), NEVER
        if t == entry.end:
            self.outcomes["due and end at one time"] += 1
        if entry.expected is None:
            entry.unexpected = True
            self.change(key, t, unexpected=1)
            self.find(key, "UNEXPECTED", entry.actuals[0].event_id, entry.time(), t)
        elif not entry.matched:
            entry.missing = True
            self.change(key, t, missing=1)
            detail = f"{len(entry.actuals)} of {entry.expected.parts}"
            self.find(key, "MISSING", None, entry.time(), t, detail)

    def at_end(self, key: tuple[str, str, str], entry: Entry) -> None:
        if entry.expected is not None and not entry.matched:
            self.find(key, "LOST", None, entry.time(), int(entry.end))
        del self.entries[key]

    # What comes out

    def find(
        self, key: tuple[str, str, str], kind: FindingKind, item_id: str | None, event_time: int, t: int,
        detail: str = "",
    ) -> None:  # fmt: skip
        text = json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))
        self.findings[text].append(Finding(*key, item_id, kind, event_time, t, detail))
        self.outcomes[kind] += 1

    def change(self, key: tuple[str, str, str], t: int, **by: int) -> None:
        pair = self.by_name[key[0]]
        start = self.entries[key].time() // pair.o * pair.o
        for name, n in by.items():
            if n:
                self.changes[pair.name, start].append((t, name, n))

    def write_interval(self, pair: RefPair, start: int) -> None:
        changes = self.changes[pair.name, start]
        last = start + pair.o + pair.m
        ticks = sorted({-(-t // pair.o) * pair.o for t, _, _ in changes})
        written: Counter[str] = Counter()
        records = self.completeness[pair.name, start]
        for tick in [tick for tick in ticks if tick < last] + [last]:
            counts: Counter[str] = Counter()
            for t, name, n in changes:
                if t <= tick:
                    counts[name] += n
            is_final = tick == last
            changed = {k: n for k, n in counts.items() if n} != {k: n for k, n in written.items() if n}
            if changed or (is_final and (records or any(counts.values()))):
                records.append(self.record(pair, start, counts, len(records) + 1, is_final))
                written = counts
            elif not is_final:
                self.outcomes["counts as last written"] += 1
        assert all(t <= last for t, _, _ in changes)
        if not records:
            del self.completeness[pair.name, start]
        elif not any(written.values()):
            self.outcomes["an interval that is empty again"] += 1

    def record(self, pair: RefPair, start: int, counts: Counter[str], revision: int, final: bool) -> Completeness:
        expected, matched, missing = counts["expected"], counts["matched"], counts["missing"]
        percent = 100.0 if expected == 0 else 100.0 * matched / expected
        return Completeness(
            pair.name, start, start + pair.o, expected, matched, missing, expected - matched - missing,
            counts["unexpected"], counts["duplicates"], counts["too_late"], percent, revision, final,
        )  # fmt: skip

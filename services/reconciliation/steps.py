"""What an item or a timer does to its key. docs/reconciliation.md has the rules, under the same numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import moneystate as ms
from moneystate.api.handles import MapTimer
from services.reconciliation.config import Config, Pair
from services.reconciliation.keys import Parts, own_id, part_in
from services.reconciliation.records import (
    CountChange,
    Entry,
    Finding,
    FindingKind,
    InventoryItem,
    Lost,
    Seen,
    is_resent,
)
from services.reconciliation.rules import (
    Counted,
    changes,
    counted,
    due_at,
    end_of,
    first_look,
    has_counts,
    same_event,
    told,
    used_for_match,
    waiting,
)


@dataclass(frozen=True)
class Outputs:
    """The topics that a step writes, and the timers that it sets."""

    findings: ms.Output[Finding]
    changes: ms.Output[CountChange]
    wait: ms.Timer
    forget: MapTimer[Lost]


@dataclass(frozen=True)
class Steps:
    """`pairs`: by name."""

    parts: Parts
    pairs: Mapping[str, Pair]
    outputs: Outputs

    def take(self, ctx: ms.Context[Config], item: InventoryItem, entry: Entry, more: ms.Entries[Seen]) -> None:
        part = part_in(self.parts, item, ctx.key)
        if part is None:
            ctx.count("no_pair")
        else:
            Step(ctx, self.outputs, part.pair, entry, more).take(item, part.is_expected)

    def waited(self, ctx: ms.Context[Config], entry: Entry, more: ms.Entries[Seen], lost: ms.Entries[Lost]) -> None:
        """Due, end, or both at one time (rules 3 to 5); or a multiple of o, by which what waits has to be counted."""
        pair = self.pairs.get(entry.pair)
        if pair is None:  # the configuration has dropped it
            ctx.forget()
        else:
            Step(ctx, self.outputs, pair, entry, more).wake(lost)

    def forget_lost(self, ctx: ms.Context[Config], id: str, lost: ms.Entries[Lost]) -> None:
        lost.delete(id)


@dataclass
class Step:
    """One step of a key. `more`: its actual items after the first."""

    ctx: ms.Context[Config]
    outputs: Outputs
    pair: Pair
    entry: Entry
    more: ms.Entries[Seen]

    def take(self, item: InventoryItem, is_expected: bool) -> None:
        if self.ctx.now > item.event_time + self.pair.m_ms:
            self.take_too_late(item)
            return
        before = told(self.pair, self.entry)
        self.entry.pair, self.entry.untold = self.pair.name, False
        if is_expected:
            self.take_expected(Seen(self.ctx.now, item))
        else:
            self.take_actual(Seen(self.ctx.now, item, self.entry.actuals + 1))
        if not self.entry.untold:
            self.tell(before)

    def tell(self, before: Counted | None) -> None:
        for change in changes(self.pair.name, before, counted(self.pair, self.entry)):
            self.ctx.emit(self.outputs.changes, change)

    def find(self, kind: FindingKind, item_id: str | None, time: int, detail: str = "") -> None:
        pair, source, event_id = json.loads(self.ctx.key)
        finding = Finding(pair, source, event_id, item_id, kind, time, self.ctx.now, detail)
        self.ctx.emit(self.outputs.findings, finding)

    # Items

    def take_too_late(self, item: InventoryItem) -> None:
        """Rule 1."""
        self.find("TOO_LATE", item.event_id, item.event_time)
        start = self.pair.interval_of(item.event_time)
        if self.ctx.now <= self.pair.last_write(start):
            self.ctx.count("too_late")
            self.ctx.emit(self.outputs.changes, CountChange(self.pair.name, start, too_late=1))

    def take_again(self, item: InventoryItem, first: Seen) -> None:
        """Rule 2."""
        if is_resent(item, first.item):
            self.ctx.count("resent")
            return
        self.ctx.count("duplicates")
        self.entry.duplicates += 1
        if self.pair.report_duplicates:
            self.find("DUPLICATE", item.event_id, self.entry.event_time)

    def take_expected(self, seen: Seen) -> None:
        """Rule 4, with the actual items that are there."""
        entry = self.entry
        if entry.expected is not None:
            self.take_again(seen.item, entry.expected)
            return
        entry.untold = not has_counts(self.pair, entry)
        entry.expected = seen
        if entry.unexpected_at is not None:
            self.find("EXPLAINED", seen.item.event_id, entry.event_time)
        actuals = waiting(entry, [seen for _, seen in self.more.items()] if entry.actuals > 1 else [])
        used = used_for_match(actuals, seen.item.parts)
        if not used:
            self.ctx.at(self.outputs.wait, first_look(self.pair, entry, self.ctx.now))
            return
        entry.untold = False
        for extra in actuals[used:]:
            self.take_extra(extra)
        self.match()

    def take_actual(self, seen: Seen) -> None:
        """Rules 4 and 5."""
        entry = self.entry
        known = self.known_as(seen)
        if known is not None:
            self.take_again(seen.item, known)
            return
        entry.actuals = seen.number
        if entry.first is None:
            entry.first = seen
        else:
            self.more.put(own_id(seen.item), seen)
        if entry.expected is None:
            if seen.number == 1:
                self.ctx.at(self.outputs.wait, due_at(self.pair, entry))
        elif entry.matched_at is not None:
            self.take_extra(seen)
        elif seen.item.filtered or seen.number == entry.expected.item.parts:
            if entry.missing_at is not None:
                self.find("FOUND", seen.item.event_id, entry.event_time)
            self.match()

    def known_as(self, seen: Seen) -> Seen | None:
        """The first actual item of the same event."""
        entry = self.entry
        if entry.first is None:
            return None
        if same_event(entry.first, seen):
            return entry.first
        return self.more.get(own_id(seen.item)) if entry.actuals > 1 else None

    def match(self) -> None:
        """Rule 6, and no more waiting for the other side."""
        entry = self.entry
        entry.matched_at = self.ctx.now
        self.ctx.at(self.outputs.wait, end_of(self.pair, entry))
        assert entry.expected is not None
        assert entry.first is not None
        if entry.expected.item.parts == 1 and entry.first.item.event_time != entry.event_time:
            self.find("TIME_MISMATCH", entry.first.item.event_id, entry.event_time)

    def take_extra(self, seen: Seen) -> None:
        """Rule 5, after a match."""
        self.entry.extra += 1
        self.find("UNEXPECTED", seen.item.event_id, self.entry.event_time)

    # The timer

    def wake(self, lost: ms.Entries[Lost]) -> None:
        entry, now = self.entry, self.ctx.now
        due, end = due_at(self.pair, entry), end_of(self.pair, entry)
        if entry.matched_at is None:
            before = told(self.pair, entry)
            entry.untold = False
            if now >= due:
                self.report()
            self.tell(before)
        if now < end:
            self.ctx.at(self.outputs.wait, due if now < due else end)
        else:
            self.finish(lost)

    def report(self) -> None:
        """Rules 4 and 5, at due."""
        entry = self.entry
        if entry.expected is None:
            if entry.unexpected_at is None:
                assert entry.first is not None
                entry.unexpected_at = self.ctx.now
                self.find("UNEXPECTED", entry.first.item.event_id, entry.event_time)
        elif entry.matched_at is None and entry.missing_at is None:
            entry.missing_at = self.ctx.now
            self.find("MISSING", None, entry.event_time, f"{entry.actuals} of {entry.expected.item.parts}")

    def finish(self, lost: ms.Entries[Lost]) -> None:
        entry, now = self.entry, self.ctx.now
        if entry.expected is not None and entry.matched_at is None:
            self.find("LOST", None, entry.event_time)
            id = str(entry.event_time)
            lost.put(id, Lost(self.pair.name, entry.expected.item, entry.actuals, now))
            self.ctx.at(self.outputs.forget, now + self.pair.retention_ms, id)
        if entry.actuals > 1:
            for id in self.more.ids():
                self.more.delete(id)
        entry.clear()

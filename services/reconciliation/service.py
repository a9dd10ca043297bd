"""Items and their findings: the first of the two services."""

from __future__ import annotations

import functools
import json
import operator

import moneystate as ms
from services.reconciliation.config import Config, Pair, check
from services.reconciliation.decode import decoder_of
from services.reconciliation.keys import interval_key, key_text, keys_of, own_id, part_in, parts_of
from services.reconciliation.queries import declare_queries
from services.reconciliation.records import (
    CountChange,
    Entry,
    Finding,
    FindingKind,
    InventoryItem,
    Lost,
    Seen,
    checked_time,
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

FINDINGS = "reconciliation-findings"
CHANGES = "reconciliation-changes"


def reconciliation(config: Config) -> ms.Service[Config]:
    service = ms.Service("reconciliation", rules=config)
    check(service, config)
    pairs, parts = {pair.name: pair for pair in config.pairs}, parts_of(config.pairs)

    findings = service.output(
        FINDINGS, Finding, key=lambda f: key_text(f.pair, f.source, f.event_id), format=config.format
    )
    count_changes = service.output(
        CHANGES, CountChange, key=lambda c: interval_key(c.pair, c.interval_start), timed=True
    )
    entries = service.value("entry", Entry)
    further = service.map("further", Seen)  # the actual items of a key after its first
    lost = service.map("lost", Lost)
    wait = service.timer("wait")  # to due; then, and after a match at once, to end. As one timer, due comes before end
    forget = service.timer("forget", of=lost)

    inputs = [
        service.input(
            given.topic, InventoryItem, key=keys_of(parts), time=checked_time, bound_ms=given.bound_ms,
            format=given.format, decode=decoder_of(given),
        )
        for given in config.inputs
    ]  # fmt: skip
    items = functools.reduce(operator.or_, inputs)

    def find(ctx: ms.Context[Config], kind: FindingKind, item_id: str | None, time: int, detail: str = "") -> None:
        pair, source, event_id = json.loads(ctx.key)
        ctx.emit(findings, Finding(pair, source, event_id, item_id, kind, time, ctx.now, detail))

    @service.on(items, entries, further.at(derived_id))
    def take(ctx: ms.Context[Config], item: InventoryItem, entry: Entry, more: ms.Entries[Seen]) -> None:
        part = part_in(parts, item, ctx.key)
        if part is None:
            ctx.count("no_pair")
            return
        pair = part.pair
        if ctx.now > item.event_time + pair.m_ms:
            take_too_late(ctx, pair, item)
            return
        before = told(pair, entry)
        entry.pair, entry.untold = pair.name, False
        if part.is_expected:
            take_expected(ctx, pair, Seen(ctx.now, item), entry, more)
        else:
            take_actual(ctx, pair, Seen(ctx.now, item, entry.actuals + 1), entry, more)
        if not entry.untold:
            tell(ctx, pair, entry, before)

    def tell(ctx: ms.Context[Config], pair: Pair, entry: Entry, before: Counted | None) -> None:
        for change in changes(pair.name, before, counted(pair, entry)):
            ctx.emit(count_changes, change)

    def take_too_late(ctx: ms.Context[Config], pair: Pair, item: InventoryItem) -> None:
        """Rule 1."""
        find(ctx, "TOO_LATE", item.event_id, item.event_time)
        start = pair.interval_of(item.event_time)
        if ctx.now <= pair.last_write(start):
            ctx.count("too_late")
            ctx.emit(count_changes, CountChange(pair.name, start, too_late=1))

    def take_again(ctx: ms.Context[Config], pair: Pair, item: InventoryItem, first: Seen, entry: Entry) -> None:
        """Rule 2."""
        if is_resent(item, first.item):
            ctx.count("resent")
            return
        ctx.count("duplicates")
        entry.duplicates += 1
        if pair.report_duplicates:
            find(ctx, "DUPLICATE", item.event_id, entry.event_time)

    def take_expected(ctx: ms.Context[Config], pair: Pair, seen: Seen, entry: Entry, more: ms.Entries[Seen]) -> None:
        """Rule 4, with the actual items that are there."""
        if entry.expected is not None:
            take_again(ctx, pair, seen.item, entry.expected, entry)
            return
        entry.untold = not has_counts(pair, entry)
        entry.expected = seen
        if entry.unexpected_at is not None:
            find(ctx, "EXPLAINED", seen.item.event_id, entry.event_time)
        actuals = waiting(entry, [seen for _, seen in more.items()] if entry.actuals > 1 else [])
        used = used_for_match(actuals, seen.item.parts)
        if not used:
            ctx.at(wait, first_look(pair, entry, ctx.now))
            return
        entry.untold = False
        for extra in actuals[used:]:
            take_extra(ctx, extra, entry)
        match(ctx, pair, entry)

    def take_actual(ctx: ms.Context[Config], pair: Pair, seen: Seen, entry: Entry, more: ms.Entries[Seen]) -> None:
        """Rules 4 and 5."""
        known = known_as(seen, entry, more)
        if known is not None:
            take_again(ctx, pair, seen.item, known, entry)
            return
        entry.actuals = seen.number
        if entry.first is None:
            entry.first = seen
        else:
            more.put(own_id(seen.item), seen)
        if entry.expected is None:
            if seen.number == 1:
                ctx.at(wait, due_at(pair, entry))
        elif entry.matched_at is not None:
            take_extra(ctx, seen, entry)
        elif seen.item.filtered or seen.number == entry.expected.item.parts:
            if entry.missing_at is not None:
                find(ctx, "FOUND", seen.item.event_id, entry.event_time)
            match(ctx, pair, entry)

    def match(ctx: ms.Context[Config], pair: Pair, entry: Entry) -> None:
        """Rule 6, and no more waiting for the other side."""
        entry.matched_at = ctx.now
        ctx.at(wait, end_of(pair, entry))
        assert entry.expected is not None
        assert entry.first is not None
        if entry.expected.item.parts == 1 and entry.first.item.event_time != entry.event_time:
            find(ctx, "TIME_MISMATCH", entry.first.item.event_id, entry.event_time)

    def take_extra(ctx: ms.Context[Config], seen: Seen, entry: Entry) -> None:
        """Rule 5, after a match."""
        entry.extra += 1
        find(ctx, "UNEXPECTED", seen.item.event_id, entry.event_time)

    @service.on(wait, entries, further, lost)
    def waited(ctx: ms.Context[Config], entry: Entry, more: ms.Entries[Seen], lost: ms.Entries[Lost]) -> None:
        """Due, end, or both at one time (rules 3 to 5); or a multiple of o, by which what waits has to be counted."""
        pair = pairs.get(entry.pair)
        if pair is None:  # the configuration has dropped it
            ctx.forget()
            return
        due, end = due_at(pair, entry), end_of(pair, entry)
        if entry.matched_at is None:
            before = told(pair, entry)
            entry.untold = False
            if ctx.now >= due:
                report(ctx, entry)
            tell(ctx, pair, entry, before)
        if ctx.now < end:
            ctx.at(wait, due if ctx.now < due else end)
        else:
            finish(ctx, pair, entry, more, lost)

    def report(ctx: ms.Context[Config], entry: Entry) -> None:
        """Rules 4 and 5, at due."""
        if entry.expected is None:
            if entry.unexpected_at is None:
                assert entry.first is not None
                entry.unexpected_at = ctx.now
                find(ctx, "UNEXPECTED", entry.first.item.event_id, entry.event_time)
        elif entry.matched_at is None and entry.missing_at is None:
            entry.missing_at = ctx.now
            detail = f"{entry.actuals} of {entry.expected.item.parts}"
            find(ctx, "MISSING", None, entry.event_time, detail)

    def finish(
        ctx: ms.Context[Config], pair: Pair, entry: Entry, more: ms.Entries[Seen], lost: ms.Entries[Lost]
    ) -> None:
        if entry.expected is not None and entry.matched_at is None:
            find(ctx, "LOST", None, entry.event_time)
            id = str(entry.event_time)
            lost.put(id, Lost(pair.name, entry.expected.item, entry.actuals, ctx.now))
            ctx.at(forget, ctx.now + pair.retention_ms, id)
        if entry.actuals > 1:
            for id in more.ids():
                more.delete(id)
        entry.clear()

    @service.on(forget, lost)
    def forget_lost(ctx: ms.Context[Config], id: str, lost: ms.Entries[Lost]) -> None:
        lost.delete(id)

    declare_queries(service, config, entries, further, lost)
    return service


def derived_id(item: InventoryItem) -> list[str]:
    """Parts of an event meet others of its key: what was seen of them is read with the batch."""
    return [] if item.derived_from is None else [own_id(item)]


def known_as(seen: Seen, entry: Entry, more: ms.Entries[Seen]) -> Seen | None:
    """The first actual item of the same event."""
    if entry.first is None:
        return None
    if same_event(entry.first, seen):
        return entry.first
    return more.get(own_id(seen.item)) if entry.actuals > 1 else None

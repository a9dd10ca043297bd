"""A service that uses everything: maps, timers by id, times to live, several outputs, rejects."""

from __future__ import annotations

from dataclasses import dataclass, field

import moneystate as ms

HOUR = 3_600_000


@dataclass(frozen=True)
class Added:
    basket: str
    item: str
    n: int
    at: ms.Millis


@dataclass(frozen=True)
class Removed:
    basket: str
    item: str
    at: ms.Millis


@dataclass(frozen=True)
class Looked:
    baskets: list[str]
    at: ms.Millis


@dataclass(frozen=True)
class Seen:
    text: str


@dataclass(frozen=True)
class Gone:
    basket: str
    item: str


@dataclass
class Total:
    n: int = 0
    lasts: list[str] = field(default_factory=list)


@dataclass
class Item:
    n: int
    notes: list[str] = field(default_factory=list)


@dataclass
class Visit:
    times: int = 0


@dataclass(frozen=True)
class Rules:
    keep_ms: int = 10_000
    visit_ms: int = 60_000


service = ms.Service("basket", rules=Rules())
added = service.input("added", Added, key="basket", time="at")
removed = service.input("added", Removed, key="basket", time="at")
looked = service.input("looked", Looked, key=lambda e: e.baskets, time="at", rank=3)
total = service.value("total", Total)
items = service.map("items", Item)
visits = service.value("visits", Visit, ttl_ms=lambda rules: rules.visit_ms)
recent = service.map("recent", Visit, ttl_ms=lambda rules: rules.visit_ms)
forget = service.timer("forget", of=items)
nightly = service.timer("nightly")
seen = service.output("seen", Seen, key=lambda s: s.text[:1])
gone = service.output("gone", Gone, key=("basket", "item"), compacted=True)


@service.on(added, total, items.at("item"), recent)
def add(ctx: ms.Context[Rules], e: Added, total: Total, items: ms.Entries[Item], recent: ms.Entries[Visit]) -> None:
    total.n += e.n
    total.lasts.append(e.item)
    ctx.count("added")
    ctx.at(forget, ctx.now + ctx.rules.keep_ms, e.item)
    ctx.at(nightly, ctx.now + HOUR)
    recent.put(e.item, Visit(1))
    known = items.get(e.item)
    if known is None:
        items.put(e.item, Item(e.n))
    else:
        known.n += e.n
        known.notes.append("again")
    if e.n == 13:
        ctx.emit(gone, Gone(ctx.key, e.item))
        raise ms.Reject("unlucky", "13")
    if e.n == 15:
        ctx.forget()
    if e.n == 14:
        ctx.dead_letter("odd")
    if e.n == 16:
        ctx.remove(gone, ctx.key, e.item)


@service.on(removed, total, items)
def remove(ctx: ms.Context[Rules], e: Removed, total: Total, items: ms.Entries[Item]) -> None:
    total.lasts = [item for item in total.lasts if item != e.item]
    for id, item in list(items.items(e.item)):
        total.n -= item.n
        items.delete(id)
        ctx.cancel(forget, id)
        ctx.emit(gone, Gone(ctx.key, id))


@service.on(forget, total, items)
def forgotten(ctx: ms.Context[Rules], id: str, total: Total, items: ms.Entries[Item]) -> None:
    item = items.get(id)
    assert item is not None
    total.n -= item.n
    total.lasts = [last for last in total.lasts if last != id]
    items.delete(id)
    ctx.emit(gone, Gone(ctx.key, id))


@service.on(nightly, total)
def night(ctx: ms.Context[Rules], total: Total) -> None:
    ctx.emit(seen, Seen(f"night {ctx.key} {ctx.now} {total.n}"))


@service.on(looked, total, items, visits, recent)
def look(
    ctx: ms.Context[Rules],
    e: Looked,
    total: Total,
    items: ms.Entries[Item],
    visits: Visit,
    recent: ms.Entries[Visit],
) -> None:
    visits.times += 1
    held = ",".join(f"{id}={item.n}" for id, item in items.items())
    late = " late" if ctx.late else ""
    ctx.emit(seen, Seen(f"{ctx.key}:{total.n}:{held}:{visits.times}:{','.join(recent.ids())}{late}"))

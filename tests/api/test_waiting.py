"""Events that wait for a row of a table (`Service.wait_for`), in memory, against a model of one queue for each key."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.runtime.waiting import CHECKS
from moneystate.testing import Bench
from moneystate.testing.bench import CRASH
from tests.api.tables_model import TableModel, Wrote
from tests.budget import examples

S = 1_000
WAIT_MS = 10_000


@dataclass(frozen=True)
class Price:
    cents: int


@dataclass(frozen=True)
class Placed:
    order: int
    customer: str
    sku: str | None


@dataclass(frozen=True)
class Priced:
    order: int
    cents: int | None
    now: ms.Millis
    late: bool


service = ms.Service("patient")
placed = service.input("orders", Placed, key="customer", time=ms.arrival)
prices = service.table("prices", Price)
priced = service.output("priced", Priced, key="order")


@service.on(placed, service.wait_for(prices, "sku", WAIT_MS))
def price(ctx: ms.Context[None], e: Placed, prices: ms.Table[Price]) -> None:
    row = None if e.sku is None else prices.get(e.sku)
    ctx.emit(priced, Priced(e.order, None if row is None else row.cents, ctx.now, ctx.late))


def outputs(b: Bench) -> list[tuple[int, int | None, int]]:
    return [(p.order, p.cents, p.now) for p in b.out(priced)]


def test_an_event_waits_for_its_row_and_others_behind_it() -> None:
    b = Bench(service)
    b.rows(prices, {"b": Price(2)}, arrival_ms=S)
    b.send(Placed(1, "eve", "a"), Placed(2, "bob", "b"), arrival_ms=2 * S)
    b.send(Placed(3, "eve", "b"), Placed(4, "eve", None), arrival_ms=3 * S)
    assert outputs(b) == [(2, 2, 2 * S)]
    assert b.count("held") == 3
    b.rows(prices, {"a": Price(1)}, arrival_ms=4 * S)
    b.advance(S)
    released = 2 * S + 4 * (WAIT_MS // CHECKS)
    assert outputs(b) == [(2, 2, 2 * S), (1, 1, released), (3, 2, released), (4, None, released)]
    assert (b.count("held"), {p.late for p in b.out(priced)}) == (0, {False})
    b.end()


def test_an_event_is_processed_without_its_row_after_the_wait() -> None:
    b = Bench(service)
    b.send(Placed(1, "eve", "a"), CRASH, arrival_ms=2 * S)
    b.end()
    assert outputs(b) == [(1, None, 2 * S + WAIT_MS)]


def modelled(events: list[tuple[int, Placed]], rows: TableModel) -> list[tuple[int, int | None, int]]:
    """The events of one customer, in their order."""
    queue: deque[tuple[int, Placed]] = deque()
    out: list[tuple[int, int | None, int]] = []
    look = 0

    def found(e: Placed, now: int) -> int | None:
        row = None if e.sku is None else rows.at(e.sku, now)
        return None if row is None else row.cents

    def waits(at: int, e: Placed, now: int) -> bool:
        return e.sku is not None and found(e, now) is None and now < at + WAIT_MS

    def release(until: int) -> None:
        nonlocal look
        while queue and look < until:
            at, e = queue[0]
            if waits(at, e, look):
                look = min(look + WAIT_MS // CHECKS, at + WAIT_MS)
                continue
            queue.popleft()
            out.append((e.order, found(e, look), look))

    for at, e in events:
        release(at)  # a timer runs after the events of its time
        if queue or waits(at, e, at):
            if not queue:
                look = at + WAIT_MS // CHECKS
            queue.append((at, e))
        else:
            out.append((e.order, found(e, at), at))
    release(1 << 60)
    return out


@pytest.mark.parametrize("seed", range(examples(60)))
def test_waiting_is_that_of_the_model(seed: int) -> None:
    b, chance = Bench(service, partitions=2, seed=seed), random.Random(seed)
    events: dict[str, list[tuple[int, Placed]]] = {"eve": [], "bob": []}
    wrote: list[Wrote] = []
    now_ms = S
    for number in range(chance.randint(5, 40)):
        now_ms += chance.choice((1, 625, 1_000, 4_000))
        if chance.random() < 0.3:
            row = None if chance.random() < 0.4 else Price(number)
            sku = chance.choice("ab")
            b.rows(prices, {sku: row}, arrival_ms=now_ms)
            wrote.append(Wrote(sku, row, now_ms, None))
        else:
            e = Placed(number, chance.choice(("eve", "bob")), chance.choice(("a", "b", "c", None)))
            b.send(e, arrival_ms=now_ms)
            events[e.customer].append((now_ms, e))
        if chance.random() < 0.1:
            b.send(CRASH)
    b.end()
    rows = TableModel(wrote)
    wanted: list[Any] = [one for its in events.values() for one in modelled(its, rows)]
    assert sorted(outputs(b)) == sorted(wanted)
    assert b.count("held") == 0


def test_only_events_wait() -> None:
    s = ms.Service("patient")
    table = s.table("prices", Price)
    timer = s.timer("soon")
    s.on(timer, s.wait_for(table, "sku", 1))(lambda ctx, prices: None)
    taken = s.input("orders", Placed, key="customer", time=ms.arrival)
    s.on(taken)(lambda ctx, e: None)
    with pytest.raises(ServiceError, match="needs events in the total order"):
        Bench(s)

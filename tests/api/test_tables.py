"""Tables (docs/tables.md) in memory: on the bench, and against a model of all rows that were ever written."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.api.tables import DeclaredTable
from moneystate.engine.deadletter import Letter
from moneystate.errors import ServiceError, StepError
from moneystate.records.schema import schema_of
from moneystate.runtime.cells import decode_entry
from moneystate.runtime.job import state_records
from moneystate.runtime.plan import Plan
from moneystate.runtime.table_reader import ends_load
from moneystate.testing import Bench
from moneystate.testing.bench import CRASH
from moneystate.testing.generated import run_generated
from moneystate.testing.run import Run, Sent, Whole
from tests.api.services import pricing
from tests.api.services.pricing import Discount, Limit, Placed, Price, discounts, limits, prices
from tests.api.tables_model import BEGINNING_MS, TableModel, Wrote
from tests.budget import examples

S = 1_000
BOUND_MS = 2 * S


def bench(seed: int = 0) -> Bench:
    return Bench(pricing.service, bound_ms=BOUND_MS, partitions=2, seed=seed)


def order(number: int, at: int, sku: str = "a", customer: str = "eve") -> Placed:
    return Placed(number, customer, sku, 1, "de", at)


def cents(b: Bench) -> dict[int, int | None]:
    return {p.order: p.cents for p in b.out(pricing.priced) if not p.by_timer}


# The bench


def test_an_event_meets_the_row_that_held_at_its_time() -> None:
    b = bench()
    b.rows(prices, {"a": Price("a", 1)}, arrival_ms=4 * S)
    b.rows(prices, {"a": Price("a", 2)}, arrival_ms=6 * S)
    b.rows(prices, {"a": None}, arrival_ms=8 * S)
    for number, at in enumerate((3_999, 4_000, 5_999, 6_000, 7_999, 8_000)):
        b.send(order(number, at))
    assert cents(b) == {0: None, 1: 1, 2: 1, 3: 2, 4: 2, 5: None}
    b.end()


def test_rows_of_the_first_load_hold_from_the_beginning_of_time() -> None:
    b = bench()
    b.advance(9 * S)
    b = bench()
    b.load(prices, {"a": Price("a", 1), "b": Price("b", 2, valid_from=5 * S)})
    b.load(limits, {"eve": Limit(10)})
    b.send(order(1, 10), order(2, 4_999, "b"), order(3, 5_000, "b"))
    assert cents(b) == {1: 1, 2: None, 3: 2}
    assert [p.most for p in b.out(pricing.priced) if p.order == 1] == [10]
    assert [(one.most, one.now) for one in b.out(pricing.limited)] == [(10, BEGINNING_MS)]
    b.end()


def test_a_row_of_tomorrow_leaves_that_of_today() -> None:
    b = bench()
    b.rows(prices, {"a": Price("a", 1)}, arrival_ms=S)
    b.rows(prices, {"a": Price("a", 2, valid_from=9 * S)}, arrival_ms=2 * S)
    b.send(order(1, 8_999), CRASH, order(2, 9_000))
    assert cents(b) == {1: 1, 2: 2}
    b.end()


def test_history_has_what_rows_were() -> None:
    b = bench()
    b.rows(prices, {"a": Price("a", 1)}, arrival_ms=10 * S)
    b.rows(prices, {"a": Price("a", 2)}, arrival_ms=20 * S)
    b.rows(prices, {"a": Price("a", 3, valid_from=12 * S)}, arrival_ms=22 * S)  # a correction
    b.send(order(1, 30 * S))
    b.count("late")
    b.send(order(2, 15 * S))  # late
    assert cents(b)[2] == 3
    (late,) = [p for p in b.out(pricing.priced) if p.order == 2 and not p.by_timer]
    assert (late.now > 15 * S, late.then) == (True, 3)
    b.end()


def test_a_local_table_tells_when_its_row_changes() -> None:
    b = bench()
    b.rows(limits, {"eve": Limit(1)}, arrival_ms=S)
    b.rows(limits, {"eve": Limit(1)}, arrival_ms=2 * S)  # no change
    b.rows(limits, {"eve": Limit(2, valid_from=9 * S)}, arrival_ms=3 * S)
    b.advance(10 * S)
    b.rows(limits, {"eve": None})
    assert [one.most for one in b.out(pricing.limited)] == [1, 2, None]
    assert [one.now for one in b.out(pricing.limited)][:2] == [S, 9 * S]
    b.end()


def test_a_query_reads_tables() -> None:
    b = bench()
    b.rows(prices, {"a": Price("a", 1)}, arrival_ms=S)
    b.rows(limits, {"eve": Limit(7)}, arrival_ms=S)
    b.send(order(1, 2 * S))

    def both(view: ms.View) -> tuple[Price | None, Limit | None]:
        return view.table(prices).get("a"), view.table(limits).get("eve")

    assert b.ask(both) == (Price("a", 1), Limit(7))


def test_records_that_are_no_rows_become_dead_letters() -> None:
    b = bench()
    b.send_raw("prices", b'{"sku":"a","cents":1}', key=b"b", timestamp_ms=S)
    b.send_raw("prices", b'{"sku":"a"}', key=b"a", timestamp_ms=S)
    b.send_raw("limits", b'{"most":1}', timestamp_ms=S)
    b.send_raw("prices", b'{"type":"Heartbeat","processedAt":"1970-01-01T00:00:09Z"}', timestamp_ms=S)
    b.send(order(1, 2 * S))
    assert cents(b) == {1: None}
    assert b.dead_letters() == ["bad_key", "malformed", "bad_key"]
    b.end()


# The model


@dataclass
class Log:
    """What was sent, in the order of sending."""

    prices: list[Wrote]
    discounts: list[Wrote]
    limits: list[Wrote]


def random_row(chance: random.Random, now_ms: int) -> tuple[Any, Any, Any, int | None]:
    """A table, a key, a row and its valid_from."""
    removed = chance.random() < 0.15
    ahead = chance.choice((None, None, now_ms - 3_005, now_ms + 2_005, now_ms + 9_005))
    table = chance.choice((prices, prices, discounts, limits))
    if table is prices:
        sku = chance.choice("abc")
        return table, sku, None if removed else Price(sku, chance.randrange(4), ahead), None if removed else ahead
    if table is discounts:
        key = (chance.randrange(2), chance.choice(("de", "fr")))
        return table, key, None if removed else Discount(*key, [chance.randrange(9)]), None
    customer = chance.choice(("eve", "bob"))
    return table, customer, None if removed else Limit(chance.randrange(3), ahead), None if removed else ahead


def filled(b: Bench, chance: random.Random) -> Log:
    """Sends a random log: equal times, late orders, rows valid later and earlier, deletes, kills."""
    log = Log([], [], [])
    wrote = {prices: log.prices, discounts: log.discounts, limits: log.limits}
    first: list[tuple[Any, dict[Any, Any]]] = [
        (prices, {sku: Price(sku, 9) for sku in "ab"}),
        (discounts, {(1, "de"): Discount(1, "de", [5])}),
        (limits, {"eve": Limit(5)}),
    ]
    for table, rows in first if chance.random() < 0.7 else []:
        b.load(table, rows)
        wrote[table] += [Wrote(key, row, BEGINNING_MS, None) for key, row in rows.items()]
    now_ms = 20 * S
    for number in range(chance.randint(10, 60)):
        now_ms += chance.choice((0, 0, 10, 1_000))
        if chance.random() < 0.5:
            table, key, row, valid_from = random_row(chance, now_ms)
            if table is limits:
                now_ms += 10  # so that no two changes have one time
            b.rows(table, {key: row}, arrival_ms=now_ms)
            wrote[table].append(Wrote(key, row, now_ms, valid_from))
        else:
            at = now_ms - chance.choice((0, 0, 500, 5_000))
            b.send(Placed(number, chance.choice(("eve", "bob")), chance.choice("abcd"), chance.randrange(2), "de", at))
        if chance.random() < 0.1:
            b.send(CRASH)
        if chance.random() < 0.1:
            b.out(pricing.priced)
            now_ms += 10  # the bench's clock has gone on
    return log


@pytest.mark.parametrize("seed", range(examples(90)))
def test_outputs_are_those_of_the_model(seed: int) -> None:
    """The bench runs each log again in other batches, with lost ones, and in other key groups."""
    b, chance = bench(seed), random.Random(seed)
    log = filled(b, chance)
    b.advance(30 * S)
    b.end()
    at = {placed.order: placed for placed in sent(b)}
    price_of, discount_of, limit_of = TableModel(log.prices), TableModel(log.discounts), TableModel(log.limits)
    outputs = b.out(pricing.priced)
    assert Counter(p.order for p in outputs if not p.by_timer) == Counter(list(at))
    for p in outputs:
        event = at[p.order]
        row = price_of.at(event.sku, p.now)
        assert p.cents == (None if row is None else row.cents), p
        if p.by_timer:
            continue
        then, discount = (
            price_of.known_of(event.sku, p.now, event.at),
            discount_of.at((event.group, event.country), p.now),
        )
        limit = limit_of.at(event.customer, p.now)
        alike = {key: price_of.at(key, p.now) for key in "abcd"}
        assert p.then == (None if then is None else then.cents), p
        assert p.percents == (None if discount is None else discount.percents), p
        assert p.most == (None if limit is None else limit.most), p
        groups = [(group, event.country) for group in range(2) if discount_of.at((group, event.country), p.now)]
        assert p.groups == [f'["{group}","{country}"]' for group, country in groups], p
        assert p.alike == sorted(key for key, other in alike.items() if row and other and other.cents == row.cents), p
    for customer in ("eve", "bob"):
        changed = [(one.now, one.most) for one in b.out(pricing.limited) if one.customer == customer]
        expected = [(ms_, None if row is None else row.most) for ms_, row in limit_of.changes(customer)]
        assert changed == expected


def sent(b: Bench) -> list[Placed]:
    """The orders in the log."""
    codec = b.plan.codecs[Placed]
    values = [entry.value for entry in b.log if isinstance(entry, Sent) and entry.value.startswith(codec.header)]
    return [codec.decode(value) for value in values]


def test_random_records_are_rows_too() -> None:
    """`moneystate check` does this."""
    assert run_generated(pricing.service, 60, 1).failures == []


def test_entries_of_rows_stay_readable_to_the_byte() -> None:
    b = bench()
    b.rows(limits, {"eve": Limit(1)}, arrival_ms=S)
    b.rows(limits, {"eve": Limit(2, valid_from=9 * S)}, arrival_ms=2 * S)
    b.count("late")
    entries = [(key.hex(), value.hex()) for key, value in b.entries() if key.startswith(b"v")]
    # the name of the table and the key; the schema, then written, validFrom and row of each version
    value = "c3012630e755489b6b4b" + "04" + "d00fd00f02" + "0200" + "a01fd08c0102" + "04" + "02d08c01" + "00"
    assert entries == [("76066c696d6974730003657665", value)]


def test_timers_do_not_run_to_the_time_of_the_rows_in_a_drain() -> None:
    """Rows are written now, and the events of a backlog are old."""
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    rows = service.table("prices", Price)
    tick = service.timer("tick")

    @service.on(placed, rows)
    def step(ctx: ms.Context[None], e: Placed, rows: ms.Table[Price]) -> None:
        ctx.at(tick, ctx.now + S)

    @service.on(tick)
    def again(ctx: ms.Context[None]) -> None:
        ctx.count("ticks")
        ctx.at(tick, ctx.now + S)

    plan = Plan(service)
    run = Run(plan, BOUND_MS, dict.fromkeys(plan.topics, 1), 2, False)
    row = Whole(b"a", b'{"sku":"a","cents":1}', {}, 1_700_000_000_000, raw=True)
    event = plan.codecs[Placed].encode(order(1, 10 * S))
    run.batch([Sent(plan.codes["prices"], 0, 0, b"", row), Sent(plan.codes["orders"], 0, 0, event)])
    run.batch([], drain=True)
    assert 1 <= run.count("ticks") <= 5


# Declarations


def wrong(declare: Any) -> str:
    with pytest.raises(ServiceError) as e:
        declare(ms.Service("shop"))
    return str(e.value)


def test_a_table_must_fit() -> None:
    assert "ready='soon'" in wrong(lambda s: s.table("prices", Price, ready="soon"))
    changed = wrong(lambda s: s.on(s.table("prices", Price).changed, s.value("last", pricing.Last))(lambda *_: None))
    assert "not local" in changed
    assert "declared twice" in wrong(lambda s: (s.table("prices", Price), s.table("other", Price, name="prices")))
    assert "also an input" in wrong(lambda s: (s.input("x", Price, time="valid_from"), s.table("x", Price)))


def test_a_compacted_table_cannot_wait() -> None:
    assert "takes no record without a key" in wrong(lambda s: s.table("prices", Price, compacted=True))


def test_forgetting_a_key_leaves_its_rows() -> None:
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    mine = service.table("limits", Limit, local=True)
    last = service.value("last", pricing.Last)

    @service.on(placed, last)
    def step(ctx: ms.Context[None], e: Placed, last: pricing.Last) -> None:
        last.order = e.order
        ctx.forget()

    b = Bench(service)
    b.rows(mine, {"eve": Limit(3)}, arrival_ms=S)
    b.send(order(1, 2 * S))
    assert b.state(last, "eve") == pricing.Last()
    assert b.ask(lambda view: view.table(mine).get("eve")) == Limit(3)
    b.end()


def test_a_local_table_has_no_rows_of_other_keys() -> None:
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    mine = service.table("limits", Limit, local=True)

    @service.on(placed, mine)
    def step(ctx: ms.Context[None], e: Placed, mine: ms.Table[Limit]) -> None:
        mine.get("other")

    b = Bench(service)
    b.send(order(1, S))
    with pytest.raises(StepError, match="the step's own key 'eve'"):
        b.count("late")


# Change events


def change(id: int, cents: int | None, snapshot: str = "false", op: str = "u") -> tuple[bytes, bytes]:
    row = None if cents is None else {"sku": f"s{id}", "cents": cents, "valid_from": None}
    value = {"op": op, "after": row, "before": None, "source": {"snapshot": snapshot}, "ts_ms": 1}
    return json.dumps({"id": id}).encode(), json.dumps(value).encode()


def test_change_events_of_a_database_are_rows() -> None:
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    rows = service.table("db.prices", Price, format="debezium")
    out = service.output("priced", pricing.Limited, key="customer")

    @service.on(placed, rows)
    def step(ctx: ms.Context[None], e: Placed, rows: ms.Table[Price]) -> None:
        row = rows.get(7)
        ctx.emit(out, pricing.Limited(ctx.key, None if row is None else row.cents, ctx.now))

    b = Bench(service, partitions=2)
    for time_ms, (key, value) in ((S, change(7, 1, op="c")), (3 * S, change(7, 2)), (5 * S, change(7, None, op="d"))):
        b.send_raw("db.prices", value, key, timestamp_ms=time_ms)
    b.send_raw("db.prices", None, b'{"id":7}', timestamp_ms=5 * S)  # the tombstone behind a deletion
    b.send_raw("db.prices", change(7, None, op="t")[1], None, timestamp_ms=6 * S)
    for number in range(1, 7):
        b.send(order(number, number * S))
    assert [one.most for one in b.out(out)] == [1, 1, 2, 2, None, None]
    assert b.dead_letters() == []
    b.end()


@pytest.mark.parametrize(
    ("snapshot", "loaded"), [("true", None), ("first", None), ("last", 6), ("last_in_data_collection", 6), ("false", 5)]
)
def test_a_first_load_ends_with_the_snapshot(snapshot: str, loaded: int | None) -> None:
    key, value = change(7, 1, snapshot)
    assert ends_load("debezium", Letter("db.prices", 0, 5, S, key, value, [])) == loaded
    assert ends_load("json", Letter("db.prices", 0, 5, S, key, value, [])) is None


# Other programs


def with_limits(record: type) -> ms.Service[None]:
    service = ms.Service("shop", namespace="shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    mine: DeclaredTable[Any] = service.table("limits", record, local=True)
    service.on(placed, mine)(lambda ctx, e, mine: None)
    return service


def test_a_table_comes_before_all_inputs_and_renumbers_none() -> None:
    plan = Plan(with_limits(Limit))
    assert [(t.name, t.rank, t.code) for t in plan.input_topics()] == [("orders", 0, 0), ("limits", -1, 1)]
    before = ms.Service("shop")
    before.table("limits", Limit)
    placed = before.input("orders", Placed, key="customer", time="at")
    before.on(placed)(lambda ctx, e: None)
    saved = Plan(before, codes={"orders": 0})
    assert [(t.name, t.rank, t.code) for t in saved.input_topics()] == [("orders", 0, 0), ("limits", -1, 1)]


def test_a_row_with_a_new_field_is_read_from_state_of_before() -> None:
    earlier: Any = make_dataclass("Limit", [("most", int)], frozen=True)
    later: Any = make_dataclass("Limit", [("most", int), ("currency", str, "EUR")], frozen=True)
    before = Bench(with_limits(earlier))
    before.rows(before.service.tables["limits"], {"eve": earlier(3)}, arrival_ms=S)
    before.count("late")
    released = [schema_of(record) for record in state_records(before.plan).values()]
    plan = Plan(with_limits(later), released=released)
    ((_, stored),) = [entry for entry in before.entries() if entry[0].startswith(b"v")]
    (version,) = decode_entry(plan.kinds["limits"], stored).value.versions
    assert version.row == later(3, "EUR")

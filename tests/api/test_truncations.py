"""Truncations of a table that is read from change events (docs/tables.md), against a model of all changes."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import moneystate as ms
from moneystate.api.table_versions import holding, insert, known_of, needed
from moneystate.api.tables import DeclaredTable
from moneystate.api.truncations import Truncation, is_gone, removed_with, removes, still_needed
from moneystate.records.iso_time import from_ms
from moneystate.runtime.plan import Plan
from moneystate.runtime.table_copies import CopiedVersion, TableCopy
from moneystate.testing import Bench
from moneystate.testing.bench import CRASH
from tests.budget import examples

S = 1_000
HISTORY_MS = 5 * S


@dataclass(frozen=True)
class Price:
    id: int
    cents: int
    valid_from: ms.Millis | None = None


@dataclass
class Placed:
    order: int
    customer: str
    id: int
    at: ms.Millis


@dataclass
class Priced:
    order: int
    id: int
    at: ms.Millis
    now: ms.Millis
    cents: int | None
    then: int | None  # by the history, as of the event's own time
    alike: list[str]  # keys of the same price


def shop(history_ms: int = HISTORY_MS) -> ms.Service[None]:
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="customer", time="at")
    prices = service.table(
        "db.prices", Price, name="prices", valid_from="valid_from", history_ms=history_ms, format="debezium"
    )
    by_cents = service.index("by_cents", of=prices, by=lambda p: p.cents)
    priced = service.output("priced", Priced, key="id")

    @service.on(placed, prices)
    def price(ctx: ms.Context[None], e: Placed, prices: ms.Table[Price]) -> None:
        row, then = prices.get(e.id), prices.get(e.id, at=e.at) if history_ms else None
        alike = [] if row is None else [key for key, _ in prices.find(by_cents, row.cents)]
        cents, was = None if row is None else row.cents, None if then is None else then.cents
        ctx.emit(priced, Priced(e.order, e.id, e.at, ctx.now, cents, was, alike))

    return service


class Wrote(NamedTuple):
    id: int
    row: Price | None
    written_ms: int
    lsn: int | None


class Truncated(NamedTuple):
    written_ms: int
    lsn: int | None

    def removed(self, wrote: Wrote) -> bool:
        if self.lsn is None or wrote.lsn is None:
            return wrote.written_ms < self.written_ms
        return wrote.lsn < self.lsn


@dataclass
class Model:
    wrote: list[Wrote]
    truncated: list[Truncated]

    def cents(self, id: int, now_ms: int, at_ms: int | None = None) -> int | None:
        """At a time; `at_ms`: by the history, as of that time."""
        until_ms = now_ms if at_ms is None else min(now_ms, at_ms)
        truncated = [t for t in self.truncated if t.written_ms <= until_ms]
        best: tuple[tuple[int, ...], Price | None] = ((), None)
        for number, w in enumerate(self.wrote):
            if w.id != id or w.written_ms > now_ms or any(t.removed(w) for t in truncated):
                continue
            valid_ms = w.written_ms if w.row is None or w.row.valid_from is None else w.row.valid_from
            since_ms = max(w.written_ms, valid_ms)
            if at_ms is None and since_ms <= now_ms:
                best = max(best, ((since_ms, number), w.row), key=lambda one: one[0])
            if at_ms is not None and valid_ms <= at_ms:
                best = max(best, ((valid_ms, w.written_ms, number), w.row), key=lambda one: one[0])
        return None if best[1] is None else best[1].cents


def change(op: str, lsn: int | None, row: Price | None = None) -> bytes:
    valid_from = None if row is None or row.valid_from is None else from_ms(row.valid_from)
    after = None if row is None else {"id": row.id, "cents": row.cents, "valid_from": valid_from}
    return json.dumps({"op": op, "before": None, "after": after, "source": {"snapshot": "false", "lsn": lsn}}).encode()


def write(b: Bench, wrote: Wrote) -> None:
    op = "d" if wrote.row is None else "u"
    key = json.dumps({"id": wrote.id}).encode()
    b.send_raw("db.prices", change(op, wrote.lsn, wrote.row), key, timestamp_ms=wrote.written_ms)


def truncate(b: Bench, truncated: Truncated) -> None:
    b.send_raw("db.prices", change("t", truncated.lsn), timestamp_ms=truncated.written_ms)


def prices_of(b: Bench) -> DeclaredTable[Any]:
    return b.service.tables["prices"]


def test_a_truncation_removes_all_rows_until_they_are_written_again() -> None:
    b = Bench(shop(), partitions=2)
    for id in (1, 2):
        write(b, Wrote(id, Price(id, id), S, 10 + id))
    write(b, Wrote(1, Price(1, 5, valid_from=4 * S), S, 15))
    truncate(b, Truncated(3 * S, 20))
    write(b, Wrote(2, Price(2, 7), 3 * S, 30))  # in the same transaction
    for number, (id, at) in enumerate([(1, 2_999), (2, 2_999), (1, 3_000), (2, 3_000), (1, 4_000), (2, 4_000)]):
        b.send(Placed(number, "eve", id, at))
    assert [p.cents for p in b.out(b.service.outputs[0])] == [1, 2, None, 7, None, 7]
    assert b.ask(lambda view: [view.table(prices_of(b)).get(id) for id in (1, 2)]) == [None, Price(2, 7)]
    assert b.run.letters() == []
    b.end()


def test_a_truncation_that_is_sent_again_leaves_later_rows() -> None:
    """As a connector does that was killed."""
    b = Bench(shop(), partitions=2)
    truncate(b, Truncated(S, 20))
    write(b, Wrote(1, Price(1, 1), 2 * S, 30))
    truncate(b, Truncated(3 * S, 20))
    b.send(Placed(1, "eve", 1, 4 * S))
    assert [p.cents for p in b.out(b.service.outputs[0])] == [1]
    b.end()


@pytest.mark.parametrize("history_ms", [0, HISTORY_MS])
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("cut", [False, True])
def test_a_row_of_before_a_truncation_that_is_sent_again_leaves_the_newer_one(
    cut: bool, crash: bool, history_ms: int
) -> None:
    """The newer row is there, whichever batches the steps are in, after the older one has replaced it for a while."""
    b = Bench(shop(history_ms), partitions=2)
    write(b, Wrote(1, Price(1, 20), 1 * S, 20))
    truncate(b, Truncated(2 * S, 25))
    write(b, Wrote(1, Price(1, 30), 3 * S, 30))
    write(b, Wrote(1, Price(1, 20), 10 * S, 20))
    for number in range(8):
        b.send(Placed(number, "eve", 1, (11 + 2 * number) * S))
        if crash:
            b.send(CRASH)
        if cut:
            b.out(b.service.outputs[0])
    assert [p.cents for p in b.out(b.service.outputs[0])] == [30] * 8
    assert b.ask(lambda view: view.table(prices_of(b)).get(1)) == Price(1, 30)
    truncate(b, Truncated(31 * S, 40))
    b.send(Placed(9, "eve", 1, 32 * S))
    assert b.out(b.service.outputs[0])[-1].cents is None
    b.end()


@pytest.mark.parametrize("seed", range(20))
def test_versions_that_are_no_longer_needed_make_no_difference(seed: int) -> None:
    """Whatever truncations follow: with a position from before some of the versions, or without one."""
    chance = random.Random(seed)
    versions: list[CopiedVersion] = []
    for written in sorted(chance.choices(range(20), k=8)):
        valid = chance.choice((written, written, written - 3, written + 3))
        insert(versions, CopiedVersion(written, valid, b"", chance.choice((0, chance.randrange(1, 9)))))
    rest = needed(versions, 20, history_ms := chance.choice((0, 5)), removed_with)
    truncations = [Truncation(written, position) for written in range(25) for position in range(10)]
    for truncation in truncations:
        left, rest_left = ([v for v in some if not removes(truncation, v)] for some in (versions, rest))
        for at in range(20, 26):
            assert holding(left, at) is holding(rest_left, at)
        for at in range(20 - history_ms, 26) if history_ms else ():
            assert known_of(left, 25, at) is known_of(rest_left, 25, at)


def test_versions_do_not_pile_up_while_rows_are_sent_again() -> None:
    """At most one for each position that is sent again in a row, until a newer row comes."""
    versions: list[CopiedVersion] = []
    for time in range(100):
        insert(versions, CopiedVersion(time, time, b"", 50 + time % 10))
        versions = needed(versions, time, 0, removed_with)
        assert len(versions) <= 2
    insert(versions, CopiedVersion(100, 100, b"", 0))  # of a snapshot that has no position
    insert(versions, CopiedVersion(101, 101, b"", 70))
    assert [v.position for v in needed(versions, 101, 0, removed_with)] == [0, 70]


def test_a_local_table_is_not_truncated() -> None:
    service = ms.Service("shop")
    placed = service.input("orders", Placed, key="id", time="at")
    mine = service.table("db.prices", Price, format="debezium", local=True)
    service.on(placed, mine)(lambda ctx, e, mine: None)
    b = Bench(service)
    truncate(b, Truncated(S, 20))
    assert b.dead_letters() == ["malformed"]


def test_the_key_of_truncations_is_not_that_of_a_row() -> None:
    b = Bench(shop())
    b.send_raw("db.prices", change("u", 1, Price(1, 1)), json.dumps({"id": "\0truncated"}).encode(), timestamp_ms=S)
    assert b.dead_letters() == ["bad_key"]


def test_a_copy_forgets_truncated_rows_once_no_step_can_get_them() -> None:
    copy = TableCopy(Plan(shop()).tables["prices"])
    body = copy.planned.changes.encode(copy.planned.changes.record.cls(Price(1, 1), 7))[10:]
    for number in range(3):
        copy.put(b"%d" % number, CopiedVersion(S, S, body, 5 + number))
    copy.truncate(Truncation(2 * S, 7))
    copy.prune(2 * S + HISTORY_MS - 1)
    assert list(copy.rows) == [b"0", b"1", b"2"]
    copy.prune(2 * S + HISTORY_MS)
    assert list(copy.rows) == [b"2"]
    assert copy.truncations == [Truncation(2 * S, 7)]  # a row that is sent again may be one of before
    copy.truncate(Truncation(3 * S, 9))
    copy.prune(9 * S)
    assert (copy.rows, copy.truncations) == ({}, [Truncation(3 * S, 9)])


def test_entries_of_truncations_stay_readable_to_the_byte() -> None:
    b = Bench(shop(), partitions=2)
    write(b, Wrote(1, Price(1, 1), S, 10))
    truncate(b, Truncated(3 * S, 20))
    b.count("late")
    # written, validFrom, row and position of each version
    rows = "c3018fb255ae62c77e72" + "02" + "d00fd00f" + "02020200" + "14" + "00"
    truncations = "c3018fb255ae62c77e72" + "02" + "f02ef02e" + "00" + "28" + "00"
    entries = [(key.hex(), value.hex()) for key, value in b.entries()]
    table = "7606" + b"prices".hex()
    assert entries == [(table + "0001" + b"1".hex(), rows), (table + "000a" + b"\0truncated".hex(), truncations)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_no_longer_needed_makes_no_difference(seed: int) -> None:
    chance = random.Random(seed)
    truncations = [
        Truncation(n, chance.choice((0, chance.randrange(1, 30)))) for n in sorted(chance.sample(range(30), 8))
    ]
    versions = [CopiedVersion(n, n, b"", chance.choice((0, chance.randrange(1, 30)))) for n in range(30)]
    rest = still_needed(truncations, 20)
    assert len(rest) <= 3 + sum(t.written > 20 for t in truncations)
    for version in versions:
        assert [is_gone(version, rest, at) for at in range(20, 31)] == [
            is_gone(version, truncations, at) for at in range(20, 31)
        ]


def filled(b: Bench, chance: random.Random) -> Model:
    """Sends a random log: changes of one time, rows valid later and earlier, deletes, truncations, kills, and changes
    whose position is not known, or that a connector sends again."""
    model = Model([], [])
    now_ms, lsn = 20 * S, 100
    for number in range(chance.randint(10, 60)):
        now_ms += chance.choice((0, 0, 10, 1_000))
        lsn += chance.choice((1, 5))
        position = chance.choice((lsn, lsn, lsn, lsn - 20, None))
        what = chance.random()
        if what < 0.4:
            id, ahead = chance.randrange(4), chance.choice((None, None, now_ms - 3_005, now_ms + 2_005))
            row = None if chance.random() < 0.1 else Price(id, chance.randrange(3), ahead)
            model.wrote.append(Wrote(id, row, now_ms, position))
            write(b, model.wrote[-1])
        elif what < 0.55:
            model.truncated.append(Truncated(now_ms, position))
            truncate(b, model.truncated[-1])
        else:
            at = now_ms - chance.choice((0, 0, 500, 3_000))
            b.send(Placed(number, chance.choice(("eve", "bob")), chance.randrange(4), at))
        if chance.random() < 0.1:
            b.send(CRASH)
        if chance.random() < 0.1:
            b.out(b.service.outputs[0])
            now_ms += 10  # the bench's clock has gone on
    return model


@pytest.mark.parametrize("history_ms", [0, HISTORY_MS])
@pytest.mark.parametrize("seed", range(examples(90)))
def test_outputs_are_those_of_the_model(seed: int, history_ms: int) -> None:
    """The bench runs each log again in other batches, with lost ones, and in other key groups."""
    b, chance = Bench(shop(history_ms), bound_ms=2 * S, partitions=2, seed=seed), random.Random(seed)
    model = filled(b, chance)
    b.advance(30 * S)
    outputs: list[Priced] = b.out(b.service.outputs[0])
    for p in outputs:
        assert p.cents == model.cents(p.id, p.now), p
        assert p.then == (model.cents(p.id, p.now, p.at) if history_ms else None), p
        alike = [str(id) for id in range(4) if p.cents is not None and model.cents(id, p.now) == p.cents]
        assert p.alike == alike, p
    rows = b.ask(lambda view: [view.table(prices_of(b)).get(id) for id in range(4)])
    asked_at = b.ask(lambda view: view.time_ms)
    cents_by_id = [model.cents(id, asked_at) for id in range(4)]
    assert [None if row is None else row.cents for row in rows] == cents_by_id
    by_cents = prices_of(b).indices[0]
    by_price = b.ask(lambda view: [[key for key, _ in view.table(prices_of(b)).find(by_cents, n)] for n in range(3)])
    assert by_price == [[str(id) for id in range(4) if cents_by_id[id] == n] for n in range(3)]
    b.end()

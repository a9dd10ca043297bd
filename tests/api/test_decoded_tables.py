"""Tables whose rows a function of the service reads, and what else the delivery needs of tables: places of rows,
changes of rows that belong to no key, and rows by index as of a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

import pytest

import moneystate as ms
from moneystate.errors import ConfigError, ServiceError
from moneystate.tables import declared as tables_declared
from moneystate.testing import Bench
from moneystate.testing.bench import CRASH
from moneystate.testing.generated import run_generated

S = 1_000
HISTORY_MS = 20 * S


class Tier(str, Enum):  # noqa: UP042 -- its str() is another text
    GOLD = "gold"


@dataclass(frozen=True)
class Plan:
    name: str
    tier: str
    problem: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Asked:
    number: int
    tier: str
    back_ms: int


@dataclass(frozen=True)
class Answered:
    number: int
    plans: list[str]


@dataclass(frozen=True)
class Changed:
    name: str
    offset: int | None


def plan_of(message: ms.Message) -> Plan | None:
    if message.value == b"skip":
        return None
    if message.value == b"refuse":
        raise ms.Reject("refused")
    document = json.loads(message.value or b"")
    name = (message.key or b"").decode()
    tier = document.get("tier")
    problem = "" if isinstance(tier, str) else "tier is not a text"
    return Plan(name, "" if problem else tier, problem, message.partition, message.offset)


service = ms.Service("plans")
plans = service.table("plans", Plan, decode=plan_of, history_ms=HISTORY_MS)
by_tier = service.index("by_tier", of=plans, by=lambda p: p.tier.split("+") if p.tier else None)
by_place = service.index("by_place", of=plans, by=lambda p: (p.partition, p.offset))
asked = service.input("asked", Asked, key="number", time=ms.arrival, format="json")
answered = service.output("answered", Answered, key="number", format="json")
changed = service.output("changed", Changed, key="name", format="json")


@service.on(asked, plans)
def answer(ctx: ms.Context[None], e: Asked, plans: ms.Table[Plan]) -> None:
    at = ctx.now - e.back_ms if e.back_ms else None
    tiers = e.tier.split("|")
    rows = plans.find_any(by_tier, tiers, at=at) if len(tiers) > 1 else plans.find(by_tier, e.tier, at=at)
    ctx.emit(answered, Answered(e.number, [f"{key} {row.partition}/{row.offset}" for key, row in rows]))


@service.on(plans.changed)
def tell(ctx: ms.Context[None], row: Plan | None) -> None:
    if row is not None and row.problem:
        ctx.count("problems")
    ctx.emit(changed, Changed(ctx.key, None if row is None else row.offset))


@service.query
def of_tier(view: ms.View, tier: str, at: int) -> list[str]:
    return [key for key, _ in view.table(plans).find(by_tier, tier, at=at)]


def tier(name: str) -> bytes:
    return json.dumps({"tier": name}).encode()


def bench(seed: int = 0) -> Bench:
    return Bench(service, seed=seed, partitions=1)


def ask(b: Bench, number: int, name: str, at_ms: int, back_ms: int = 0) -> None:
    b.send(Asked(number, name, back_ms), arrival_ms=at_ms)


def answers(b: Bench) -> dict[int, list[str]]:
    return {a.number: a.plans for a in b.out(answered)}


@pytest.mark.parametrize("seed", range(4))
def test_rows_have_what_their_function_makes_of_the_whole_record(seed: int) -> None:
    b = bench(seed)
    b.rows(plans, {"b": tier("gold"), "a": tier("gold"), "c": tier("tin")}, arrival_ms=S)
    b.rows(plans, {"a": tier("tin")}, arrival_ms=3 * S)
    b.send(CRASH)
    b.rows(plans, {"b": None}, arrival_ms=5 * S)
    for number, at_ms in enumerate((2 * S, 4 * S, 6 * S)):
        ask(b, 10 + number, "gold", at_ms)
        ask(b, 20 + number, "tin", at_ms)
    assert answers(b) == {
        10: ["a 0/1", "b 0/0"], 20: ["c 0/2"], 11: ["b 0/0"], 21: ["a 0/3", "c 0/2"], 12: [], 22: ["a 0/3", "c 0/2"]
    }  # fmt: skip
    b.end()


def test_a_row_that_breaks_a_rule_replaces_the_row_before_it_and_is_counted() -> None:
    b = bench()
    b.rows(plans, {"a": tier("gold")}, arrival_ms=S)
    b.rows(plans, {"a": b'{"tier":7}'}, arrival_ms=3 * S)
    ask(b, 1, "gold", 2 * S)
    ask(b, 2, "gold", 4 * S)
    assert answers(b) == {1: ["a 0/0"], 2: []}
    assert (b.count("problems"), b.dead_letters()) == (1, [])
    b.end()


def test_a_function_may_take_no_record_or_refuse_it() -> None:
    b = bench()
    b.rows(plans, {"a": tier("gold")}, arrival_ms=S)
    for value in (b"skip", b"refuse", b"{"):
        b.rows(plans, {"a": value}, arrival_ms=2 * S)
    ask(b, 1, "gold", 3 * S)
    assert answers(b) == {1: ["a 0/0"]}
    assert b.dead_letters() == ["refused", "malformed"]
    b.end()


def test_changes_of_rows_that_belong_to_no_key() -> None:
    b = bench()
    b.rows(plans, {"a": tier("gold")}, arrival_ms=S)
    b.rows(plans, {"a": tier("gold")}, arrival_ms=2 * S)  # another place, so another row
    b.rows(plans, {"a": None}, arrival_ms=3 * S)
    assert [c.offset for c in b.out(changed)] == [0, 1, None]
    b.end()


@pytest.mark.parametrize("seed", range(4))
def test_rows_by_index_as_of_a_time(seed: int) -> None:
    b = bench(seed)
    b.rows(plans, {"a": tier("gold"), "b": tier("gold")}, arrival_ms=10 * S)
    b.rows(plans, {"a": tier("tin")}, arrival_ms=20 * S)
    b.rows(plans, {"b": None}, arrival_ms=22 * S)
    ask(b, 1, "gold", 25 * S, back_ms=4 * S)
    ask(b, 2, "gold", 25 * S, back_ms=6 * S)
    ask(b, 3, "tin", 25 * S, back_ms=5 * S)
    assert answers(b) == {1: ["b 0/1"], 2: ["a 0/0", "b 0/1"], 3: ["a 0/2"]}
    assert b.ask(of_tier, "gold", 19 * S) == ["a", "b"]
    assert b.ask(of_tier, "gold", 21 * S) == ["b"]
    assert b.ask(of_tier, "gold", 9 * S) == []
    b.end()


def test_rows_with_one_of_several_values_are_told_once() -> None:
    b = bench()
    b.rows(plans, {"b": tier("gold+tin"), "a": tier("tin"), "c": tier("iron")}, arrival_ms=10 * S)
    b.rows(plans, {"c": tier("gold")}, arrival_ms=20 * S)
    ask(b, 1, "tin|gold|none", 12 * S)
    ask(b, 2, "tin|gold", 21 * S)
    ask(b, 3, "gold|iron", 22 * S, back_ms=11 * S)
    ask(b, 4, "none|neither", 22 * S)
    assert answers(b) == {1: ["a 0/1", "b 0/0"], 2: ["a 0/1", "b 0/0", "c 0/3"], 3: ["b 0/0", "c 0/2"], 4: []}

    def in_query(view: ms.View) -> list[str]:
        return [key for key, _ in view.table(plans).find_any(by_tier, ["tin", "gold"], at=15 * S)]

    assert b.ask(in_query) == ["a", "b"]


def test_values_of_all_forms_find_rows() -> None:
    b = bench()
    b.rows(plans, {"a": tier("gold")}, arrival_ms=S)
    ask(b, 1, "gold", 2 * S)
    b.advance(1)
    copy = b._member("plans").run.copies.access(b.plan.tables["plans"], 3 * S)
    assert [key for key, _ in copy.find(by_tier, ("gold",), None)] == ["a"]
    assert [key for key, _ in copy.find(by_tier, Tier.GOLD, None)] == ["a"]
    assert [key for key, _ in copy.find(by_place, (0, 0), None)] == ["a"]
    assert list(copy.find(by_place, (0, 1), None)) == []


def test_generated_records_leave_such_a_table_out() -> None:
    assert run_generated(service, 40, 1).failures == []


def test_declarations_that_cannot_work_are_refused() -> None:
    wrong = ms.Service("wrong")
    with pytest.raises(ServiceError, match="decode= with format='debezium'"):
        wrong.table("plans", Plan, decode=plan_of, format="debezium")
    with pytest.raises(ServiceError, match="decode="):
        wrong.table("plans", Plan, decode=lambda: None)  # type: ignore[arg-type,misc]
    rows, seen = wrong.table("plans", Plan, decode=plan_of), wrong.value("seen", Count)
    with pytest.raises(ServiceError, match="belong to no key that has state"):
        wrong.on(rows.changed, seen)(lambda ctx, row, seen: None)
    truncated = wrong.table("truncated", Plan, format="debezium")
    with pytest.raises(ServiceError, match="truncated"):
        wrong.on(truncated.changed)(lambda ctx, row: None)


@dataclass
class Count:
    n: int = 0


def test_rows_of_such_a_table_are_bytes() -> None:
    with pytest.raises(ValueError, match="give rows as bytes"):
        bench().rows(plans, {"a": Plan("a", "gold", "", 0, 0)})


def test_a_load_cannot_read_its_types_from_the_service() -> None:
    with pytest.raises(ConfigError, match="a function of the service reads"):
        tables_declared.table_of_service(f"{__name__}:service", "plans")

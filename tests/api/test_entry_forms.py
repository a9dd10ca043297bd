"""Entries are read in any form, with a TTL or without one. Those that cannot be read stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.errors import StepError
from moneystate.runtime.cells import decode_entry
from moneystate.runtime.processor import ServiceProcessor
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.runtime.state_model import ServiceState
from moneystate.testing import Bench
from tests.api.handover import handed_over, stored

S = 1_000


@dataclass(frozen=True)
class Rules:
    keep_ms: int = 0


@dataclass(frozen=True)
class Put:
    shop: str
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Ids:
    shop: str
    ids: list[str]
    n: int


@dataclass
class Part:
    n: int = 0


Ttl = int | Callable[[Any], int] | None


def shop(keep_ms: int, ttl_ms: Ttl = lambda rules: rules.keep_ms) -> tuple[ms.Service[Rules], ms.Output[Ids]]:
    """A service whose steps count in a value, put into a map, and tell both."""
    service = ms.Service("shop", rules=Rules(keep_ms))
    put = service.input("put", Put, key="shop", time="at")
    out = service.output("out", Ids, key="shop")
    total = service.value("total", Part, ttl_ms=ttl_ms)
    parts = service.map("parts", Part, ttl_ms=ttl_ms)

    @service.on(put, total, parts)
    def step(ctx: ms.Context[Rules], e: Put, total: Part, parts: ms.Entries[Part]) -> None:
        if e.id == "reject":
            parts.ids()
            raise ms.Reject("rejected")
        if e.id:
            total.n += 1
            parts.put(e.id, Part(total.n))
        ctx.emit(out, Ids(e.shop, parts.ids(), total.n))

    return service, out


def after(keep_ms: int, then_ms: int, *events: Put, ttl_ms: Ttl = lambda rules: rules.keep_ms) -> tuple[Bench, Any]:
    """A bench that goes on with other rules after an entry was put at 1 s."""
    first, _ = shop(keep_ms, ttl_ms)
    before = Bench(first, bound_ms=0, key_groups=1)
    before.send(Put("a", "1", S))
    service, out = shop(then_ms)
    bench = handed_over(before, service, bound_ms=0)
    bench.send(*events)
    return bench, bench.out(out)


@pytest.mark.parametrize(("keep_ms", "then_ms"), [(0, 10 * S), (10 * S, 0), (10 * S, 20 * S), (20 * S, 10 * S)])
def test_a_ttl_may_be_switched_by_a_rule(keep_ms: int, then_ms: int) -> None:
    _, out = after(keep_ms, then_ms, Put("a", "2", 2 * S))
    assert out == [Ids("a", ["1", "2"], 2)]


def test_a_ttl_that_is_switched_on_counts_from_the_last_change() -> None:
    bench, out = after(0, 10 * S, Put("a", "", 10 * S), Put("a", "", 11 * S), Put("b", "", 30 * S))
    assert out == [Ids("a", ["1"], 1), Ids("a", [], 0), Ids("b", [], 0)]
    assert stored(bench) == {}


def test_an_entry_that_expired_before_anything_touched_it_is_swept_once_it_is_touched() -> None:
    bench, out = after(0, 10 * S, Put("a", "", 60 * S), Put("b", "", 61 * S))
    assert out == [Ids("a", [], 0), Ids("b", [], 0)]
    assert stored(bench) == {}


def test_a_ttl_that_is_switched_off_removes_nothing() -> None:
    bench, out = after(10 * S, 0, Put("a", "", 60 * S), Put("b", "", 90 * S))
    assert out == [Ids("a", ["1"], 1), Ids("b", [], 0)]
    service, again = shop(10 * S)
    on = handed_over(bench, service, bound_ms=0)
    on.send(Put("a", "", 100 * S), Put("b", "", 200 * S))
    assert on.out(again) == [Ids("a", [], 0), Ids("b", [], 0)]
    assert stored(on) == {}


def test_without_the_time_of_its_change_the_ttl_begins_when_an_entry_is_touched() -> None:
    """As it is with entries of a program that declared no TTL."""
    bench, out = after(
        0,
        10 * S,
        Put("a", "", 60 * S),
        Put("a", "", 70 * S - 1),
        Put("a", "", 70 * S),
        Put("b", "", 99 * S),
        ttl_ms=None,
    )
    assert out == [Ids("a", ["1"], 1), Ids("a", ["1"], 1), Ids("a", [], 0), Ids("b", [], 0)]
    assert stored(bench) == {}


def test_a_step_that_rejects_does_not_begin_a_ttl() -> None:
    bench, out = after(0, 10 * S, Put("a", "reject", 60 * S), Put("a", "", 65 * S), Put("a", "", 74 * S), ttl_ms=None)
    assert out == [Ids("a", ["1"], 1), Ids("a", ["1"], 1)]
    assert bench.dead_letters() == ["rejected"]


def test_the_form_of_an_entry_does_not_depend_on_a_rule() -> None:
    forms = []
    for keep_ms in (0, 10 * S):
        service, _ = shop(keep_ms)
        bench = Bench(service, bound_ms=0, key_groups=1)
        bench.send(Put("a", "1", S))
        forms.append({key: value[:10] for key, value in stored(bench).items()})
    assert forms[0] == forms[1]


def test_any_declaration_reads_the_forms_of_any_other() -> None:
    bytes_of = {}
    for name, ttl_ms in {"none": None, "some": 10 * S}.items():
        service, _ = shop(0, ttl_ms)
        bench = Bench(service, bound_ms=0, key_groups=1)
        bench.send(Put("a", "1", S))
        bytes_of[name] = stored(bench, b"m").popitem()[1]
    for ttl_ms in (None, 10 * S):
        kind = Bench(shop(0, ttl_ms)[0]).plan.kinds["parts"]
        assert [decode_entry(kind, entry).value for entry in bytes_of.values()] == [Part(1)] * 2


# An entry that cannot be read


@dataclass(frozen=True)
class Paid:
    account: str
    euros: int
    at: ms.Millis


@dataclass
class AccountV1:
    euros: int = 0


@dataclass
class Account:
    cents: int = 0


class Unknown(Exception):
    pass


@ms.upgrade
def in_cents(old: AccountV1) -> Account:
    if old.euros < 0:
        raise Unknown("a debt")
    return Account(100 * old.euros)


def accounts(record: Any, ttl_ms: Ttl = None, map_of: bool = False) -> ms.Service[None]:
    service = ms.Service("accounts")
    paid = service.input("paid", Paid, key="account", time="at")
    account: Any = (service.map if map_of else service.value)("account", record, ttl_ms=ttl_ms)

    @service.on(paid, account)
    def step(ctx: ms.Context[None], e: Paid, state: Any) -> None:
        entry = state
        if map_of:
            entry = state.get("id")
            if entry is None:
                state.put("id", entry := record())
        if record is Account:
            entry.cents += 100 * e.euros
        else:
            entry.euros += e.euros

    return service


def released_as_account(record: type) -> Any:
    """The same record under the name that it had when it was the current one."""
    return dataclass(type("Account", (record,), {}))


@pytest.mark.parametrize("map_of", [False, True])
@pytest.mark.parametrize("ttl_ms", [None, 10 * S])
@pytest.mark.parametrize("cuts", ["one", "each"])
def test_an_entry_that_cannot_be_upgraded_stays_as_it_is(map_of: bool, ttl_ms: Ttl, cuts: Any) -> None:
    old = released_as_account(AccountV1)
    before = Bench(accounts(old, ttl_ms, map_of), bound_ms=0, key_groups=1)
    before.send(Paid("eve", -5, S), Paid("bob", 5, S))
    of_eve = {key: value for key, value in stored(before).items() if b"eve" in key}
    given: dict[str, Any] = {"bound_ms": 0, "cuts": cuts, "dead_letter_errors": True}
    bench = handed_over(before, accounts(Account, ttl_ms, map_of), **given)
    bench.send(Paid("eve", 1, S + 1), Paid("eve", 1, S + 2), Paid("bob", 1, S + 3))
    assert bench.dead_letters() == ["exception", "exception"]
    assert {key: value for key, value in stored(bench).items() if b"eve" in key} == of_eve
    kind = bench.plan.kinds["account"]
    (of_bob,) = [value for key, value in stored(bench).items() if b"bob" in key]
    assert decode_entry(kind, of_bob).value == Account(600)


def test_an_entry_that_cannot_be_upgraded_is_removed_when_it_has_expired() -> None:
    old = released_as_account(AccountV1)
    before = Bench(accounts(old, 10 * S), bound_ms=0, key_groups=1)
    before.send(Paid("eve", -5, S))
    bench = handed_over(before, accounts(Account, 10 * S), bound_ms=0)
    bench.send(Paid("bob", 0, 30 * S))
    assert stored(bench) == {}


def test_a_sweep_of_an_entry_that_cannot_be_upgraded_names_it() -> None:
    old = released_as_account(AccountV1)
    before = Bench(accounts(old, 10 * S), bound_ms=0, key_groups=1)
    before.send(Paid("eve", -5, S), Paid("eve", -5, 9 * S))  # the sweep finds an entry that has not expired
    failing = handed_over(before, accounts(Account, 10 * S), bound_ms=0)
    failing.send(Paid("bob", 0, 13 * S))
    with pytest.raises(StepError, match=r"paid, partition 0, offset 0: state 'account' at .*: Unknown: a debt\. Do: "):
        failing.dead_letters()


def test_tools_name_an_entry_that_cannot_be_upgraded() -> None:
    before = Bench(accounts(released_as_account(AccountV1)), bound_ms=0, key_groups=1)
    before.send(Paid("eve", -5, S))
    ((key, entry),) = stored(before).items()
    plan = Bench(accounts(Account)).plan
    with pytest.raises(Malformed, match=r"account with key 'eve': its upgrade function raised Unknown: a debt"):
        decode_entry(plan.kinds["account"], entry, b"eve")
    with pytest.raises(StepError, match=r"entry of account with key 'eve': .*Do: correct the function, and run"):
        ServiceProcessor(plan).rewrite(iter([(key, entry)]))


def declared(rules: Rules) -> ms.Service[Rules]:
    service = ms.Service("kept-by-rule", rules=rules)
    put = service.input("put", Put, key="shop", time="at")
    parts = service.map("parts", Part, ttl_ms=lambda rules: rules.keep_ms)

    @service.on(put, parts)
    def step(ctx: ms.Context[Rules], e: Put, parts: ms.Entries[Part]) -> None:
        parts.put(e.id, Part(1))

    return service


def test_tools_read_state_with_the_rules_of_its_run() -> None:
    """Not with those that the service declares: a savepoint of a run with another TTL has other facts."""
    bench = Bench(declared(Rules(10 * S)), bound_ms=0, key_groups=1)
    bench.send(Put("a", "1", S))
    ((key, entry),) = stored(bench, b"m").items()
    state = ServiceState("tests.api.test_entry_forms:declared")
    facts = {keep_ms: list(state.facts(key, entry, 12 * S, {"keep_ms": keep_ms})) for keep_ms in (0, 10 * S, 20 * S)}
    assert [len(listed) for listed in facts.values()] == [1, 0, 1]
    assert [listed[0].content[0] for listed in facts.values() if listed] == [None, S]
    assert state.view([(key, entry)], 12 * S, {"keep_ms": 10 * S})["parts"] == []
    assert len(state.view([(key, entry)], 12 * S, {})["parts"]) == 1


@pytest.mark.parametrize(("of_run", "of_server"), [(10 * S, 0), (0, 10 * S)])
def test_a_replica_indexes_entries_of_a_run_with_other_rules(of_run: int, of_server: int) -> None:
    """The server is started with its own rules. What has expired is decided by those of the run."""
    bench = Bench(declared(Rules(of_run)), bound_ms=0, key_groups=1)
    bench.send(Put("a", "1", S))
    ((_, entry),) = stored(bench, b"m").items()
    replica = ReplicaModel(f'tests.api.test_entry_forms:declared {{"keep_ms":{of_server}}}')
    assert replica.schema(entry) == ("parts", 1)
    assert decode_entry(replica.plan.kinds["parts"], entry).value == Part(1)
    assert replica.plan_at({"keep_ms": of_run}).kinds["parts"].ttl_ms == of_run

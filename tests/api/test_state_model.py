"""What the platform can tell of a service's entries."""

from __future__ import annotations

import pickle

import pytest

from moneystate.engine.avro import Malformed
from moneystate.engine.keys import check_kinds
from moneystate.ports.state import StateModel
from moneystate.runtime.state_model import ServiceState
from moneystate.testing import Bench
from tests.api.services import basket
from tests.api.services.basket import Added, Looked

S = 1_000
STATE: StateModel = ServiceState("tests.api.services.basket:service")


def bench() -> Bench:
    b = Bench(basket.service, bound_ms=2 * S)
    b.send(Added("b", "x", 1, S), Added("b", "y", 2, 2 * S), Looked(["c"], 3 * S))
    return b


def test_owners_are_told_and_what_is_not_declared_has_none() -> None:
    owners = {STATE.owner_of(key) for key, _ in bench().entries()}
    assert owners == {b"b", b"c"}
    assert STATE.owner_of(b"v\x05other\x00\x01b") is None
    assert STATE.owner_of(b"x") is None
    check_kinds(STATE.kinds)
    with pytest.raises(Malformed):
        list(STATE.facts(b"v\x05other\x00\x01b", b"", 0, {}))


def test_each_entry_is_a_fact_until_it_has_expired() -> None:
    entries = list(bench().entries())
    facts = [fact for key, value in entries for fact in STATE.facts(key, value, 3 * S, {})]
    assert len(facts) == len(entries)
    assert len({(fact.kind, fact.key, fact.id) for fact in facts}) == len(entries)
    later = {fact.kind for key, value in entries for fact in STATE.facts(key, value, 3 * S + 60 * S, {})}
    assert later == {"value total", "map items", "timer forget", "timer nightly"}


def test_the_view_has_the_entries_of_an_owner_by_name() -> None:
    mine = [(key, value) for key, value in bench().entries() if STATE.owner_of(key) == b"b"]
    view = STATE.view(mine, 3 * S, {})
    assert view["total"] == [{"n": 3, "lasts": ["x", "y"]}]
    assert view["items"] == [{"id": "x", "n": 1, "notes": []}, {"id": "y", "n": 2, "notes": []}]
    assert {"name": "forget", "id": "x", "due": 11 * S} in view["named-timers"]
    assert view["visits"] == []


def test_it_goes_into_sparks_tasks_and_knows_its_schemas() -> None:
    again = pickle.loads(pickle.dumps(STATE))
    headers = {value[:10] for _, value in bench().entries()}
    assert headers <= set(again.versions.written)
    assert again.topics == {0: "added", 1: "looked"}

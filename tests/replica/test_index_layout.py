"""The layout of a service's replica says when an index is another one. An index whose function fails says which."""

from __future__ import annotations

from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from moneystate.runtime.replica_model import ReplicaModel
from tests.api.services.market import Moved, Seller

SERVICE = "tests.api.services.market:service"


def layout(by: Any) -> str:
    service = ms.Service("market")
    moved = service.input("moved", Moved, key="seller", time="at")
    seller = service.value("seller", Seller)
    service.index("by_score", seller, by)
    service.on(moved, seller)(lambda ctx, e, seller: None)
    made = ReplicaModel(SERVICE)
    made.plan = Plan(service)
    return made.layout


def test_the_layout_says_when_an_index_is_another_one() -> None:
    assert layout(lambda s: s.score) == layout(lambda s: s.score)
    others = [layout(lambda s: s.score), layout(lambda s: -s.score), layout(lambda s: s.country), layout(lambda s: 7)]
    assert len(set(others)) == 4


def test_the_layout_is_the_same_in_each_process() -> None:
    """Sets are in another order by each process's hashes, and objects are elsewhere."""

    def among(wanted: Any) -> Any:
        return lambda s: s.score in wanted

    assert repr({0, 8}) != repr({8, 0})
    assert (
        layout(lambda s: s.score in {0, 8})
        == layout(lambda s: s.score in {8, 0})
        != layout(lambda s: s.score in {0, 7})
    )
    assert layout(among({0, 8})) == layout(among({8, 0})) != layout(among({0, 7}))

    def through(read: Any) -> Any:
        return lambda s: read(s)

    assert layout(through(lambda s: s.score)) == layout(through(lambda s: s.score)) != layout(through(lambda s: 7))


LIMIT = 5


def rank(seller: Any) -> int:
    return twice(seller) if seller.score < LIMIT else 0


def twice(seller: Any) -> int:
    return int(2 * seller.score)


def thrice(seller: Any) -> int:
    return int(3 * seller.score)


def doubled(self: Seller) -> int:
    return 2 * self.score


def tripled(self: Seller) -> int:
    return 3 * self.score


def test_the_layout_says_when_what_an_index_calls_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = layout(lambda s: rank(s))
    assert layout(lambda s: rank(s)) == before
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "twice", thrice)
        assert layout(lambda s: rank(s)) != before
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "LIMIT", 6)
        assert layout(lambda s: rank(s)) != before


def test_the_layout_says_when_a_method_of_the_record_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seller, "grade", doubled, raising=False)
    before = layout(lambda s: s.grade())
    monkeypatch.setattr(Seller, "grade", tripled)
    assert layout(lambda s: s.grade()) != before


def test_an_index_whose_function_fails_says_which_and_for_which_key() -> None:
    service = ms.Service("market")
    moved = service.input("moved", Moved, key="seller", time="at")
    seller = service.value("seller", Seller)
    service.index("rate", seller, lambda s: 100 // s.score)
    service.on(moved, seller)(lambda ctx, e, seller: None)
    model = ReplicaModel(SERVICE)
    model.plan = Plan(service)
    entry = ReplicaModel(SERVICE).plan.kinds["seller"].codec.encode(Seller("ES", 0))
    with pytest.raises(ServiceError, match=r"index 'rate': its function raised ZeroDivisionError: .* for key 'a'"):
        model.index_keys(b"a", b"v", b"\x06seller", entry)

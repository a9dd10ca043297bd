"""The digests of a service's functions tell an edited one, also if it is a method, or called by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, wraps
from typing import Any

import pytest

import moneystate as ms
from moneystate.runtime.function_code import code_text
from moneystate.runtime.job import code_of, digests_of
from moneystate.testing.purity import findings


@dataclass
class Sent:
    id: str
    at: ms.Millis


@dataclass
class Count:
    n: int = 0


class Prices:
    def __init__(self) -> None:
        self.cached = lru_cache(self.of_name)

    def of_name(self, name: str) -> int:
        return 1

    def unused(self) -> int:
        return 1


class Shop:
    def fee(self) -> int:
        return 1


def twice(function: Callable[..., int]) -> Callable[..., int]:
    @wraps(function)
    def run(*given: Any) -> int:
        return 2 * function(*given)

    return run


class Base:
    LEAST = 1

    def inherited(self) -> int:
        return 1


class Steps(Base):
    def __init__(self) -> None:
        self.prices = Prices()
        self.shops = {"a": Shop(), "b": Shop()}
        self.most = 1

    def take(self, ctx: ms.Context[None], e: Sent, count: Count) -> None:
        count.n = self.called() + self.price + self.later + self.fixed() + self.wrapped() + self.inherited()
        count.n += self.prices.cached(e.id) + self.shops["a"].fee() + self.LEAST + min(self.most, 1)

    def called(self) -> int:
        return 1

    @property
    def price(self) -> int:
        return 1

    @cached_property
    def later(self) -> int:
        return 1

    @staticmethod
    def fixed() -> int:
        return 1

    @twice
    def wrapped(self) -> int:
        return 1

    def unused(self) -> int:
        return 1

    def __call__(self, message: ms.Message) -> Sent | None:
        return self.decoded(message)

    def decoded(self, message: ms.Message) -> Sent | None:
        return None

    def key(self, e: Sent) -> str:
        return e.id


def service_of(steps: Steps) -> ms.Service[None]:
    service = ms.Service("sends")
    counts = service.value("count", Count)
    sent = service.input("sent", Sent, key=partial(Steps.key, steps), time="at", decode=steps)
    service.on(sent, counts)(steps.take)
    return service


def edited(self: Any, *given: Any) -> Any:
    return 2


EDITED: dict[str, tuple[Any, str]] = {
    "the method": (Steps.take, "Steps.take"),
    "another method": (Steps.called, "Steps.take"),
    "a property": (vars(Steps)["price"].fget, "Steps.take"),
    "a cached property": (vars(Steps)["later"].func, "Steps.take"),
    "a static method": (Steps.fixed, "Steps.take"),
    "a wrapped method": (vars(Steps)["wrapped"].__wrapped__, "Steps.take"),
    "a method of a base class": (Base.inherited, "Steps.take"),
    "a method of a helper": (Prices.of_name, "Steps.take"),
    "a method of helpers in a dict": (Shop.fee, "Steps.take"),
    "an object that is called": (Steps.__call__, "Steps.__call__"),
    "a method that it calls": (Steps.decoded, "Steps.__call__"),
    "a method in a partial": (Steps.key, "Steps.key"),
}


@pytest.mark.parametrize(("function", "told"), EDITED.values(), ids=EDITED.keys())
def test_an_edited_body_is_told(function: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(Steps())
    code, digests = code_of(service), digests_of(service)
    assert list(digests) == ["Steps.__call__", "Steps.key", "Steps.take"]
    monkeypatch.setattr(function, "__code__", edited.__code__)
    after = digests_of(service)
    assert [name for name in digests if digests[name] != after[name]] == [told]
    assert code_of(service) != code


def test_an_edited_constant_of_the_class_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(Steps())
    code = code_of(service)
    monkeypatch.setattr(Base, "LEAST", 2)
    assert code_of(service) != code


def test_only_what_the_code_reaches_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    digests = digests_of(service_of(steps))
    assert digests_of(service_of(Steps())) == digests
    assert steps.later == 1  # is kept in the object from now on
    steps.most = 2  # comes from the configuration, which is compared as rules
    assert digests_of(service_of(steps)) == digests
    for cls in (Steps, Prices):
        monkeypatch.setattr(cls, "unused", edited)
    assert digests_of(service_of(Steps())) == digests


def test_an_object_that_a_function_encloses_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()

    def by(count: Count) -> int:
        return steps.called()

    before = code_text(by)
    monkeypatch.setattr(Steps, "called", edited)
    assert code_text(by) != before


class Impure:
    def __init__(self) -> None:
        self.n = 0
        self.names: dict[str, int] = {}
        self.other: Any = None

    def take(self, ctx: ms.Context[None], e: Sent, count: Count) -> None:
        self.n += 1
        self.names[e.id] = 1
        self.n, self.other.n = 1, 2
        self.other.n += 1
        del self.n
        for self.n in (1,):
            pass
        count.n = self.called(e)

    def called(self, e: Sent) -> int:
        return hash(e.id)


def test_impure_methods_are_found() -> None:
    service = ms.Service("sends")
    counts = service.value("count", Count)
    service.on(service.input("sent", Sent, key="id", time="at"), counts)(Impure().take)
    assert [(one.function, one.kind, one.text) for one in findings(service)] == [
        ("take", "kept in module", "self.n += 1"),
        ("take", "kept in module", "self.names[e.id] = 1"),
        ("take", "kept in module", "self.n, self.other.n = (1, 2)"),
        ("take", "kept in module", "self.other.n += 1"),
        ("take", "kept in module", "del self.n"),
        ("take", "kept in module", "for self.n in (1,):"),
        ("called", "hash", "hash"),
    ]


def sent_twice(topics: tuple[str, ...]) -> ms.Service[None]:
    service, key = ms.Service("sends"), lambda sent: sent.id
    counts, steps = service.value("count", Count), Impure()
    for topic in topics:
        service.on(service.input(topic, Sent, key=key, time="at"), counts)(steps.take)
    return service


def test_the_number_of_inputs_is_no_part_of_the_code() -> None:
    """It comes from the configuration, which is compared as rules."""
    one, two = sent_twice(("a",)), sent_twice(("a", "b"))
    assert digests_of(one) == digests_of(two)
    assert code_of(one) == code_of(two)

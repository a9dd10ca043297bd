"""A beginner's mistakes: each has one line that says where and what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import moneystate as ms
from moneystate.api.plan import Plan
from moneystate.errors import ServiceError
from tests.api.services import basket

WRONG_TYPES = Path(__file__).parent / "services" / "wrong_types.py"


@dataclass(frozen=True)
class Placed:
    order_id: str
    cents: int
    placed_at: ms.Millis
    weight: float = 0.0


@dataclass
class Order:
    cents: int = 0


@dataclass(frozen=True)
class Frozen:
    cents: int = 0


@dataclass
class Needs:
    cents: int


@dataclass
class WithSet:
    tags: set[str] = field(default_factory=set)


@dataclass
class NotFrozen:
    wait_ms: int = 0


@dataclass(frozen=True)
class BadRule:
    waits: tuple[int, ...] = ()


class Plain:
    pass


def nothing(*_: object) -> None:
    pass


Declare = Callable[[Any], Any]


def well(s: Any) -> Any:
    return s.input("orders", Placed, key="order_id", time="placed_at")


def handled(s: Any) -> Any:
    source = well(s)
    s.on(source)(nothing)
    return source


def two_functions(s: Any) -> None:
    source = handled(s)
    s.on(source)(nothing)


def mistake(**changes: Any) -> Declare:
    """An input with something wrong in it."""

    def declare(s: Any) -> None:
        right = {"topic": "orders", "record": Placed, "key": "order_id", "time": "placed_at"}
        s.on(s.input(**(right | changes)))(nothing)

    return declare


def wrong_signature(s: Any) -> None:
    def step(ctx: Any) -> None:
        pass

    s.on(well(s), s.value("order", Order))(step)


def asynchronous(s: Any) -> None:
    async def step(ctx: Any, e: Any) -> None:
        pass

    s.on(well(s))(step)


MISTAKES: dict[str, tuple[Declare, str]] = {
    "time field missing": (
        mistake(time="placed"),
        "time='placed', but Placed has no field 'placed'; it has order_id, cents, placed_at, weight. Do: name a field",
    ),
    "time of another type": (mistake(time="cents"), "time='cents' is no time. Do: declare the field Placed.cents as"),
    "key field missing": (mistake(key="id"), "key='id', but Placed has no field 'id'"),
    "key path missing": (mistake(key="order_id.x"), "key='order_id.x', but order_id has no field 'x'"),
    "key of another type": (mistake(key="weight"), "key='weight' is neither a text nor a whole number"),
    "no key": (mistake(key=None), "without key, but nothing runs on it. Do: name a field as key=."),
    "unique without within_ms": (mistake(unique="order_id"), "without within_ms. Do: say for how long"),
    "unique of another type": (mistake(unique="weight", within_ms=5), "unique='weight' is no text or whole number"),
    "record is no dataclass": (mistake(record=Plain), "expected a dataclass, found Plain. Do: put @dataclass before"),
    "topic is no name": (mistake(topic="no topic"), "no name for a topic"),
    "format unknown": (mistake(format="xml"), "format='xml'. Do: use one of avro, json, confluent, debezium."),
    "rank beyond": (mistake(rank=8), "rank=8. Do: give one from 0 to 7."),
    "two functions": (two_functions, "has two functions, nothing and nothing. Do: put both into one function."),
    "input twice": (lambda s: (well(s), well(s)), "declared twice with Placed. Do: declare it once."),
    "wrong parameters": (wrong_signature, "Do: take (ctx, Placed, order)."),
    "async step": (asynchronous, "a step cannot be async: it does no I/O."),
    "timer of another service": (
        lambda s: s.on(basket.nightly)(nothing), "timer 'nightly' belongs to the service 'basket'."
    ),
    "state of another service": (
        lambda s: s.on(well(s), basket.total)(nothing), "value 'total' belongs to the service 'basket'."
    ),
    "on something else": (lambda s: s.on("orders")(nothing), "on('orders') is no input and no timer."),
    "state not declared": (lambda s: s.on(well(s), Order)(nothing), "is no state. Do: pass what value() or"),
    "timer without function": (lambda s: (handled(s), s.timer("late")), "no function runs when it is due."),
    "no function": (well, "no function runs on any of its inputs."),
    "state not serialisable": (
        lambda s: (handled(s), s.value("order", WithSet)), "WithSet.tags: no type that a record can have: set[str]."
    ),
    "state frozen": (lambda s: (handled(s), s.value("order", Frozen)), "Frozen is frozen, so no step could change it."),
    "state without defaults": (lambda s: (handled(s), s.value("order", Needs)), "Needs has no default for cents."),
    "state twice": (lambda s: (s.value("order", Order), s.map("order", Order)), "map 'order': declared twice."),
    "state name": (lambda s: s.value("Order", Order), "value 'Order': no name for it."),
    "ttl negative": (lambda s: (handled(s), s.value("o", Order, ttl_ms=-1)), "expected a duration in ms, found -1."),
    "output key None": (
        lambda s: s.output("closed", Placed, key=None),
        "key=None: nobody could say which records belong together. Do: name a field as key=.",
    ),
    "output twice": (
        lambda s: [s.output("o", Placed, key=key) for key in ("order_id", "cents")], "output 'o': declared twice"
    ),
    "output key missing": (
        lambda s: (handled(s), s.output("o", Placed, key="id")), "output 'o': key='id', but Placed has no field 'id'"
    ),
}  # fmt: skip


def _plan(service: Any, declare: Declare) -> None:
    declare(service)
    Plan(service).input_topics()


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_has_one_line(name: str) -> None:
    declare, line = MISTAKES[name]
    service = ms.Service("wrong")
    with pytest.raises(ServiceError) as refused:
        _plan(service, declare)
    told = str(refused.value)
    assert line in told
    assert told.startswith("service 'wrong': ")
    assert " Do: " in told
    assert "\n" not in told


def test_wrong_names_and_rules() -> None:
    with pytest.raises(ServiceError, match="no name for a service"):
        ms.Service("Orders!")
    with pytest.raises(ServiceError, match="NotFrozen is no frozen dataclass"):
        ms.Service("orders", rules=NotFrozen())
    with pytest.raises(ServiceError, match="waits is no int, str, bool or float"):
        ms.Service("orders", rules=BadRule())


def test_mypy_finds_wrong_event_state_and_output_types() -> None:
    """Each line of the module that ends in `# E` is an error by mypy strict, and no other."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(WRONG_TYPES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=WRONG_TYPES.parents[3])
    error_lines = {int(n) for n in re.findall(r"wrong_types\.py:(\d+): error", done.stdout)}
    lines = WRONG_TYPES.read_text().splitlines()
    expected = {n for n, line in enumerate(lines, 1) if line.endswith("# E")}
    assert error_lines == expected, done.stdout
    assert len(expected) > 8

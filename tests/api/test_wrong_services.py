"""A beginner's mistakes: each has one line that says where and what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError, StepError
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
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
    waits: list[int] = field(default_factory=list)


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


@dataclass
class NoneInt:
    n: int = None  # type: ignore[assignment]


def annotated(**hints: Any) -> Declare:
    """A step with these types."""

    def declare(s: Any) -> None:
        def step(ctx: Any, e: Any) -> None:
            pass

        step.__annotations__ = hints
        s.on(well(s))(step)

    return declare


def yielding(s: Any) -> None:
    def step(ctx: Any, e: Any) -> Any:
        yield e

    s.on(well(s))(step)


def asynchronous(s: Any) -> None:
    async def step(ctx: Any, e: Any) -> None:
        pass

    s.on(well(s))(step)


@dataclass(frozen=True)
class Posted:
    order_id: Annotated[str, ms.Header("ce_id")]
    cents: int
    placed_at: ms.Millis


@dataclass(frozen=True)
class Weighed:
    order_id: str
    placed_at: ms.Millis
    weight: Annotated[float, ms.Header("weight")]


@dataclass(frozen=True)
class Wrapped:
    order_id: str
    placed_at: ms.Millis
    posted: Posted


@dataclass(frozen=True)
class Ping:
    order_id: Annotated[str, ms.Header("ce_id")]
    placed_at: Annotated[ms.Millis, ms.Header("ce_time")]


@dataclass(frozen=True)
class Row:
    customer_id: int


@dataclass(frozen=True)
class Inserted:
    after: Row | None
    ts_ms: ms.Millis


@dataclass(frozen=True)
class Changed:
    before: Row | None
    after: Row | None
    ts_ms: ms.Millis


def two_tables(s: Any) -> None:
    for record in (Changed, Inserted):
        s.on(s.input("rows", record, key=lambda e: "k", time="ts_ms", format="debezium"))(nothing)


def two_formats(s: Any) -> None:
    handled(s)
    s.input("orders", Posted, key="order_id", time="placed_at", format="json")


def all_of_it(s: Any) -> None:
    handled(s)
    s.input("orders", Ping, key="order_id", time="placed_at")


MISTAKES: dict[str, tuple[Declare, str]] = {
    "time field missing": (
        mistake(time="placed"),
        "time='placed', but Placed has no field 'placed'; it has order_id, cents, placed_at, weight. Do: name a field",
    ),
    "time of another type": (mistake(time="cents"), "time='cents' is not a time. Do: declare the field Placed.cents"),
    "key field missing": (mistake(key="id"), "key='id', but Placed has no field 'id'"),
    "key path missing": (mistake(key="order_id.x"), "key='order_id.x', but order_id has no field 'x'"),
    "key of another type": (mistake(key="weight"), "key='weight' is neither a string nor a whole number"),
    "two tables in a topic": (two_tables, "expected one type of records in a topic of change events, found several."),
    "deletions without a key": (
        mistake(record=Inserted, key="after.customer_id", time="ts_ms", format="debezium"),
        "key='before.customer_id', but Inserted has no field 'before'",
    ),
    "change events as an output": (
        lambda s: s.output("out", Placed, key="order_id", format="debezium"),
        "output 'out': format='debezium' is for inputs. Do: use json.",
    ),
    "decode of nothing": (mistake(decode=lambda: None), "input 'orders': decode=()"),
    "fallback that is none": (mistake(fallback="x"), "input 'orders': fallback='x' is not a function. Do: pass"),
    "two formats": (two_formats, "declared with format='avro' and 'json'. Do: use one format for the topic."),
    "a header in Avro": (
        mistake(record=Posted),
        "input 'orders' of Posted: order_id is in a header, but a value in avro has all fields. Do: use format=",
    ),
    "a header of numbers": (mistake(record=Weighed, format="json"), "Weighed.weight: a header cannot hold float. Do:"),
    "a header in a part": (
        mistake(record=Wrapped, format="json"),
        "input 'orders' of Wrapped: Posted.order_id is in a header, but belongs to a nested record.",
    ),
    "all in headers beside others": (all_of_it, "input 'orders' of Ping: all of its fields are in headers"),
    "an output's key in a header": (
        lambda s: (handled(s), s.output("out", Placed, key=ms.Header("ce_id"))),
        "output 'out': key=Header(name='ce_id'), but an output has no headers. Do: use a field.",
    ),
    "no key": (mistake(key=None), "without key, but nothing runs on it. Do: name a field as key=."),
    "unique without within_ms": (mistake(unique="order_id"), "without within_ms. Do: say for how long"),
    "unique of another type": (mistake(unique="weight", within_ms=5), "unique='weight' is not a string or"),
    "record is no dataclass": (mistake(record=Plain), "expected a dataclass, found Plain. Do: put @dataclass before"),
    "topic is no name": (mistake(topic="no topic"), "invalid name of a topic"),
    "format unknown": (mistake(format="xml"), "format='xml'. Do: use one of avro, json, confluent, debezium."),
    "rank beyond": (mistake(rank=8), "rank=8. Do: use one from 0 to 7."),
    "two functions": (two_functions, "has two functions, nothing and nothing. Do: put both into one function."),
    "input twice": (lambda s: (well(s), well(s)), "declared twice with Placed. Do: declare it once."),
    "wrong parameters": (wrong_signature, "Do: declare (ctx, Placed, order)."),
    "async step": (asynchronous, "a step cannot be async: it does no I/O."),
    "timer of another service": (
        lambda s: s.on(basket.nightly)(nothing), "timer 'nightly' belongs to the service 'basket'."
    ),
    "state of another service": (
        lambda s: s.on(well(s), basket.total)(nothing), "value 'total' belongs to the service 'basket'."
    ),
    "on something else": (lambda s: s.on("orders")(nothing), "on('orders'): expected an input, a timer or a lookup."),
    "a step that yields": (yielding, "step: a step cannot yield. Do: use ctx.emit(output, record)."),
    "a step that returns": (annotated(**{"return": Placed}), "step: expected a step that returns None. Do: use ctx"),
    "event before context": (
        annotated(ctx=Placed, e=ms.Context[None]), "step: expected the context as first parameter, found Placed."
    ),
    "another event": (annotated(e=Needs), "step: expected Placed as its event, found Needs. Do: declare (ctx, P"),
    "an object as a record": (lambda s: (handled(s), s.value("order", Order())), "Do: pass the class itself."),
    "default of another type": (
        lambda s: (handled(s), s.value("order", NoneInt)), "NoneInt.n, its default: expected int, found None."
    ),
    "state not declared": (lambda s: s.on(well(s), Order)(nothing), "expected a state, found <class"),
    "timer without function": (lambda s: (handled(s), s.timer("late")), "no function runs when it is due."),
    "no function": (well, "no function runs on any of its inputs."),
    "state not serialisable": (
        lambda s: (handled(s), s.value("order", WithSet)),
        "WithSet.tags: expected a type that a record can have, found set[str].",
    ),
    "state frozen": (lambda s: (handled(s), s.value("order", Frozen)), "Frozen is frozen, so no step could change it."),
    "state without defaults": (lambda s: (handled(s), s.value("order", Needs)), "Needs has no default for cents."),
    "state twice": (lambda s: (s.value("order", Order), s.map("order", Order)), "map 'order': declared twice."),
    "state name": (lambda s: s.value("Order", Order), "value 'Order': invalid name."),
    "ttl negative": (lambda s: (handled(s), s.value("o", Order, ttl_ms=-1)), "expected a duration in ms, found -1."),
    "index of nothing": (lambda s: s.index("by", Order, len), "expected a value or a map, found <class"),
    "index of another service": (
        lambda s: (handled(s), s.index("by", basket.items, len)),
        "index 'by': map 'items' is not a state of this service.",
    ),
    "output key None": (
        lambda s: s.output("closed", Placed, key=None),
        "expected a key, found key=None. Do: name a field as key=.",
    ),
    "pattern that is timed": (
        lambda s: s.input("orders-*", Placed, key="order_id", timed=True),
        "input 'orders-*': a topic pattern with timed=True or ordered=False. Do: declare such topics one by one, by "
        "their names.",
    ),
    "output of a pattern": (
        lambda s: s.output("orders-*", Placed, key="order_id"),
        "output 'orders-*': invalid name of a topic. Do: use letters, digits, '.', '_' and '-'.",
    ),
    "output twice": (
        lambda s: [s.output("o", Placed, key=key) for key in ("order_id", "cents")], "output 'o': declared twice"
    ),
    "output with a record time that is none": (
        lambda s: s.output("o", Placed, key="order_id", record_time="cents"),
        "output 'o': time='cents' is not a time. Do: declare the field Placed.cents as ms.Millis.",
    ),
    "output of two formats": (
        lambda s: (s.output("o", Placed, key="order_id"), s.output("o", Needs, key="cents", format="json")),
        "output 'o': declared with different formats, partitions, compacted, keep_ms or timed. Do: use the same for "
        "the topic.",
    ),
    "records kept for some time in a topic that is not compacted": (
        lambda s: s.output("o", Placed, key="order_id", keep_ms=1_000),
        "output 'o': expected compacted=True and keep_ms in ms, found False and 1000. Do: give a whole number, for a "
        "compacted topic.",
    ),
    "output key missing": (
        lambda s: (handled(s), s.output("o", Placed, key="id")), "output 'o': key='id', but Placed has no field 'id'"
    ),
}  # fmt: skip


def _plan(service: Any, declare: Declare) -> None:
    declare(service)
    Plan(service).input_topics()


def step_fails(body: Callable[[Any, Any], object]) -> str:
    service = ms.Service("wrong")
    placed = service.input("orders", Placed, key="order_id", time="placed_at")
    service.on(placed)(body)  # type: ignore[arg-type]
    bench = Bench(service)
    bench.send(Placed("a", 1, 1))
    with pytest.raises(StepError) as failed:
        bench.end()
    return str(failed.value)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (lambda ctx, e: e, "expected a step to return None, found Placed(order_id='a'"),
        (
            lambda ctx, e: ctx.at("overdue", 5),
            "expected a timer, found 'overdue'. Do: pass an object that timer() returned.",
        ),
        (
            lambda ctx, e: ctx.emit("closed", e),
            "expected an output, found 'closed'. Do: pass an object that output() returned.",
        ),
        (lambda ctx, e: ctx.dead_letter(5), "dead_letter: expected two strings, found 5 and ''. Do: pass the reason"),
        (lambda ctx, e: rejected(5), "Reject: expected two strings, found 5 and ''"),
    ],
    ids=["returns", "timer", "output", "dead letter", "reject"],
)
def test_what_a_step_does_wrong_is_said_with_its_record(body: Callable[[Any, Any], object], line: str) -> None:
    told = step_fails(body)
    assert line in told
    assert told.startswith("orders, partition 0, offset 0: ")
    assert "\n" not in told


def rejected(reason: Any) -> None:
    raise ms.Reject(reason)


def test_bench_runs_every_index() -> None:
    service = ms.Service("wrong")
    placed = service.input("orders", Placed, key="order_id", time="placed_at")
    order = service.value("order", Order)
    service.index("by_half", order, lambda o: o.cents / 2)

    def step(ctx: Any, e: Placed, order: Order) -> None:
        order.cents = e.cents

    service.on(placed, order)(step)
    bench = Bench(service)
    bench.send(Placed("a", 1, 1))
    with pytest.raises(StepError, match=r"index 'by_half': expected a string, a whole number .* found 0.5"):
        bench.end()


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
    with pytest.raises(ServiceError, match="invalid name"):
        ms.Service("Orders!")
    with pytest.raises(ServiceError, match="NotFrozen is not a frozen dataclass"):
        ms.Service("orders", rules=NotFrozen())
    with pytest.raises(ServiceError, match="waits is a list"):
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

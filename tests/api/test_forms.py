"""What a step gets from the state does not depend on whether the step before it was in the same batch."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

import moneystate as ms
from moneystate.errors import StepError
from moneystate.testing import Bench
from moneystate.testing.forms import exact_form
from moneystate.testing.member import Cuts

SHARED: list[int] = []


class Level(enum.IntEnum):
    HIGH = 7


class Name(enum.StrEnum):
    EVE = "eve"


@dataclass(frozen=True)
class Event:
    key: str
    n: int
    words: list[str]
    at: ms.Millis


@dataclass(frozen=True)
class Shown:
    key: str
    text: str


@dataclass
class Line:
    n: int = 0


@dataclass
class SpecialLine(Line):
    more: int = 5


@dataclass
class Held:
    words: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    line: Line = field(default_factory=Line)
    shared: list[int] = field(default_factory=lambda: SHARED)
    mean: float = 0
    amount: ms.Decimal = Decimal(0)
    n: int = 0
    name: str = ""
    status: Literal["new", "eve"] = "new"
    is_open: bool = False
    raw: bytes = b""
    note: ms.Json | None = None
    hidden: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Fixed:
    mean: float
    words: list[str]


@dataclass(frozen=True)
class Number:
    mean: float


State = Any  # steps below leave values of other types than the declared ones
Step = Callable[[Event, State], object]


def service_of(step: Step) -> tuple[ms.Service[None], ms.Output[Shown]]:
    service = ms.Service("forms")
    events = service.input("events", Event, key="key", time="at")
    shown = service.output("shown", Shown, key="key")
    held, maps = service.value("held", Held), service.map("lines", Line)
    fixed, numbers = service.map("fixed", Fixed), service.map("numbers", Number)

    @service.on(events, held, maps, fixed, numbers)
    def run(
        ctx: ms.Context[None], e: Event, held: Held, lines: ms.Entries[Line], fixed: ms.Entries[Fixed],
        numbers: ms.Entries[Number],
    ) -> None:  # fmt: skip
        state = SimpleNamespace(held=held, lines=lines, fixed=fixed, numbers=numbers)
        ctx.emit(shown, Shown(e.key, repr(step(e, state))))

    return service, shown


def texts(step: Step, cuts: Cuts) -> list[str]:
    service, shown = service_of(step)
    SHARED.clear()
    bench = Bench(service, bound_ms=0, cuts=cuts)
    bench.send(*[Event("k", n, ["z", word], 1_000 + n) for n, word in enumerate("dbca")])
    got = [one.text for one in bench.out(shown)]
    bench.end()
    return got


def sets(name: str, *values: Any) -> Step:
    """Shows the field, with its type, and sets it to the next of the values."""

    def step(e: Event, state: State) -> object:
        before = getattr(state.held, name)
        setattr(state.held, name, values[e.n % len(values)])
        return type(before).__name__, repr(before)

    return step


def order_of_members(e: Event, state: State) -> object:
    state.held.counts[e.words[1]] = e.n
    return list(state.held.counts)


def one_entry_under_two_ids(e: Event, state: State) -> object:
    if e.n == 0:
        line = Line(1)
        state.lines.put("a", line)
        state.lines.put("b", line)
    else:
        state.lines["a"].n += 1
    return state.lines["b"].n


def one_line_in_two_states(e: Event, state: State) -> object:
    if e.n == 0:
        state.held.line = Line(1)
        state.lines.put("a", state.held.line)
    else:
        state.held.line.n += 1
    return state.lines["a"].n


def the_events_own_list(e: Event, state: State) -> object:
    if e.n == 0:
        state.held.words = e.words
        state.held.counts["first"] = len(e.words)
    state.held.words.append("more")
    return state.held.words


def one_line_twice_in_a_list(e: Event, state: State) -> object:
    if e.n == 0:
        state.held.lines = [Line()] * 2
    else:
        state.held.lines[0].n += 1
    return state.held.lines


def a_subclass_with_more(e: Event, state: State) -> object:
    before = repr(state.held.line)
    state.held.line = SpecialLine(e.n)
    return before


def an_attribute_that_is_no_field(e: Event, state: State) -> object:
    before = getattr(state.held, "extra", None), getattr(state.held, "n", None)
    state.held.extra = state.held.n = e.n
    return before


def a_default_that_is_shared(e: Event, state: State) -> object:
    before = list(state.held.shared)
    state.held.shared.append(e.n)
    state.held.shared = []
    return before


def a_field_that_is_not_compared(e: Event, state: State) -> object:
    state.held.hidden += 1
    return state.held.hidden


def a_frozen_entry(e: Event, state: State) -> object:
    before = state.fixed.get("a")
    state.fixed.put("a", Fixed(e.n, tuple(e.words)))  # type: ignore[arg-type]
    return before


def a_frozen_number(e: Event, state: State) -> object:
    before = state.numbers.get("a")
    state.numbers.put("a", Number(e.n))
    return before


def a_list_that_the_step_keeps(e: Event, state: State) -> object:
    words = state.held.words
    words.append(e.words[1])
    state.fixed.put("a", Fixed(0.0, words))
    entry = state.fixed.get("a")
    assert entry is not None
    return entry.words


@pytest.mark.parametrize(
    "step",
    [
        order_of_members,
        one_entry_under_two_ids,
        one_line_in_two_states,
        the_events_own_list,
        one_line_twice_in_a_list,
        a_subclass_with_more,
        an_attribute_that_is_no_field,
        a_default_that_is_shared,
        a_field_that_is_not_compared,
        a_frozen_entry,
        a_frozen_number,
        a_list_that_the_step_keeps,
    ],
    ids=lambda step: step.__name__,
)
def test_a_step_gets_the_same_record_in_all_batches(step: Step) -> None:
    assert texts(step, "one") == texts(step, "each") == texts(step, "random")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mean", (1, 2**53 + 1)),
        ("mean", (-0.0, 0.0)),
        ("mean", (float("nan"), float("-inf"))),
        ("mean", (True, Decimal("0.1"), np.float32(0.1))),
        ("amount", (Decimal("1.0"), Decimal("1.00"), Decimal("-0"))),
        ("n", (True, Level.HIGH, np.int64(5_000), np.int32(7))),
        ("name", (Name.EVE, np.str_("eve"))),
        ("status", (Name.EVE, "new")),
        ("is_open", (1, np.True_, 0)),
        ("raw", (bytearray(b"ab"), b"c")),
        ("words", (("a", "b"), [])),
        ("lines", ((Line(1), SpecialLine(2)), [])),
        ("counts", ({"b": True, "a": Level.HIGH}, {})),
        ("note", (ms.Json('{"b": 1.0, "a": -0}'), ms.Json("null"), None)),
    ],
    ids=str,
)
def test_a_field_has_its_declared_form_in_all_batches(name: str, values: tuple[Any, ...]) -> None:
    got = texts(sets(name, *values), "one")
    assert got == texts(sets(name, *values), "each") == texts(sets(name, *values), "random")
    declared = {name: type(value).__name__ for name, value in vars(Held(mean=0.0)).items()}
    assert {text.split("'")[1] for text in got[:-1]} <= {declared[name], "Json", "NoneType"}


@dataclass
class Limited:
    n: int = 0

    def __post_init__(self) -> None:
        if self.n > 2:
            raise ValueError("at most 2")


@pytest.mark.parametrize("cuts", ["one", "each"])
def test_a_record_that_its_constructor_would_refuse_is_refused_in_the_step_that_left_it(cuts: Cuts) -> None:
    service = ms.Service("limited")
    events = service.input("events", Event, key="key", time="at")
    limited = service.value("limited", Limited)

    @service.on(events, limited)
    def add(ctx: ms.Context[None], e: Event, limited: Limited) -> None:
        limited.n += e.n

    bench = Bench(service, bound_ms=0, cuts=cuts, dead_letter_errors=True)
    bench.send(*[Event("k", n, [], 1_000 + number) for number, n in enumerate([1, 5, 1, 1])])
    assert bench.dead_letters() == ["exception", "exception"]
    assert bench.state(limited, "k") == Limited(2)


def test_a_change_to_a_frozen_record_that_is_not_put_is_found() -> None:
    def step(e: Event, state: State) -> object:
        if e.n == 0:
            state.numbers.put("a", Number(0.5))
        elif e.n == 1:
            object.__setattr__(state.numbers["a"], "mean", 7.0)
        return None

    with pytest.raises(AssertionError, match=r"numbers.*changed without put: expected Number\(mean=0\.5\)"):
        texts(step, "one")


def test_a_record_that_changes_when_it_is_read_is_found() -> None:
    @dataclass
    class Growing:
        n: int = 0

        def __post_init__(self) -> None:
            self.n += 1

    service = ms.Service("growing")
    events = service.input("events", Event, key="key", time="at")
    growing = service.value("growing", Growing)

    @service.on(events, growing)
    def take(ctx: ms.Context[None], e: Event, growing: Growing) -> None:
        growing.n = 5

    bench = Bench(service, bound_ms=0)
    bench.send(Event("k", 0, [], 1_000))
    with pytest.raises(AssertionError, match="state 'growing' of key 'k', read and written again"):
        bench.state(growing, "k")


def test_forms_differ_by_type_order_sign_and_digits() -> None:
    for one, other in [
        (1, True), (1, 1.0), (0.0, -0.0), (Decimal("1.0"), Decimal("1.00")), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1], (1,)), (Line(1), SpecialLine(1)), ([Line(1)], [Line(2)]),
    ]:  # fmt: skip
        assert exact_form(one) != exact_form(other)
    assert exact_form(float("nan")) == exact_form(float("nan"))


def test_the_error_for_a_value_that_state_cannot_hold_names_the_record_and_the_entry() -> None:
    def step(e: Event, state: State) -> object:
        if e.n == 1:
            state.lines.put("a", Line(2**63))
        return None

    line = (
        r"^events, partition 0, offset 1: run: state 'lines' of key 'k', id 'a': Line\.n: expected a number of at most"
    )
    for cuts in ("one", "each"):
        with pytest.raises(StepError, match=line):
            texts(step, cuts)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", 2**63, "a number of at most 64 bits"),
        ("n", -(2**63) - 1, "a number of at most 64 bits"),
        ("n", 10**5_000, "a number of at most 64 bits, found a number with too many digits"),
        ("n", 1.0, "int"),
        ("n", "1", "int"),
        ("mean", 10**400, "a number of at most 64 bits"),
        ("mean", "1", "float"),
        ("is_open", None, "bool"),
        ("is_open", "no", "bool"),
        ("name", b"a", "str"),
        ("name", "\ud800", "a string that UTF-8 can encode"),
        ("raw", "a", "bytes"),
        ("raw", memoryview(array("q", [1, 2])), "bytes"),
        ("words", {"a", "b"}, "list"),
        ("words", "ab", "list"),
        ("words", (word for word in "ab"), "list"),
        ("counts", [("a", 1)], "dict"),
        ("counts", {1: 1}, "str"),
        ("lines", [Number(1.0)], "Line"),
        ("amount", 1, "Decimal"),
        ("note", {}, "Json"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_value_that_a_field_cannot_hold_is_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(StepError, match=rf"offset 0: run: .*Held\.{name}.*: expected {expected}"):
        texts(sets(name, value), "one")


def test_a_record_of_exact_types_is_not_read_again_but_one_that_a_step_gave_is() -> None:
    leaked: list[Any] = []

    def step(e: Event, state: State) -> object:
        line = state.lines.get("a")
        leaked.append(line)
        if e.n == 0:
            state.lines.put("a", Line(1))
        elif e.n == 1:
            line.n = 2
        elif e.n == 2:
            line.n = True
        return None

    texts(step, "one")
    first, second, third, fourth = leaked[:4]
    assert first is None
    assert second is third  # it was read, and has the declared types
    assert fourth is not third  # it had not
    assert (fourth.n, type(fourth.n)) == (1, int)


def test_a_record_that_a_step_touches_twice_restarts_its_ttl_only_if_it_changes() -> None:
    service = ms.Service("twice")
    events = service.input("events", Event, key="key", time="at")
    limited = service.map("limited", Limited, ttl_ms=100)

    @service.on(events, limited)
    def run(ctx: ms.Context[None], e: Event, limited: ms.Entries[Limited]) -> None:
        if e.n == 0:
            limited.put("a", Limited(1))
        else:
            assert limited.get("a") is limited.get("a")

    for cuts in ("one", "each"):
        bench = Bench(service, bound_ms=0, cuts=cuts)
        bench.send(Event("k", 0, [], 1_000), Event("k", 1, [], 1_060), Event("k", 1, [], 1_090))
        assert bench.state(limited, "k") == {"a": Limited(1)}
        bench.send(Event("k", 1, [], 1_120))
        assert bench.state(limited, "k") == {}


@pytest.mark.parametrize(("given", "shown"), [(1, 1.0), (True, 1.0), (Decimal("0.5"), 0.5)])
def test_a_query_in_the_bench_gives_what_a_caller_gets(given: Any, shown: float) -> None:
    service, _ = service_of(lambda e, state: None)

    @service.query
    def mean(view: ms.View, words: bool) -> list[Number]:
        results: Any = (Number(given),) if words else [Line(1)]
        return results  # type: ignore[no-any-return]

    bench = Bench(service, bound_ms=0)
    assert exact_form(bench.ask(mean, True)) == exact_form([Number(shown)])
    with pytest.raises(StepError, match=r"MeanResult\.value\[0\]: expected Number, found Line"):
        bench.ask(mean, False)


def test_a_query_with_other_types_than_a_server_takes_can_be_asked_in_the_bench() -> None:
    service, _ = service_of(lambda e, state: None)

    @service.query
    def words(view: ms.View) -> set[str]:
        return {"a"}

    assert Bench(service, bound_ms=0).ask(words) == {"a"}

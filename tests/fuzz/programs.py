"""Programs of steps on random records and rules. Each runs in one batch, in a batch for each event, and in random ones.
What its steps see, write, reject and leave in the state must be the same, and no later reader may refuse it."""

from __future__ import annotations

import copy
import enum
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import field, make_dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from hypothesis import strategies as st

import moneystate as ms
from moneystate.engine import clock
from moneystate.engine.block import Block
from moneystate.engine.items import END_OF_TIME, NO_TIME, Output
from moneystate.engine.keygroup import run_batch
from moneystate.engine.keys import is_engines
from moneystate.engine.order import RangeOrder
from moneystate.engine.state import MemoryState
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.runtime.json_topic import JsonTopic
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing import Bench
from moneystate.testing.forms import difference_of_cell, exact_form
from tests.fuzz.target import target

KINDS: Final = 600  # of services: records and rules
IDS: Final = ("a", "b", "é")
WRONG: Final = 0.03  # of the values: those that a field cannot hold
START_MS: Final = 1_000
BOUND_MS: Final = 20


class Level(enum.IntEnum):
    HIGH = 7


class Colour(enum.StrEnum):
    RED = "red"


# Records

Inner: Final[Any] = make_dataclass("Inner", [("n", int, 0), ("xs", list[float], field(default_factory=list))])
Frozen: Final[Any] = make_dataclass("Frozen", [("n", int, 0), ("x", float, 0.0)], frozen=True)
Rich: Final[Any] = make_dataclass("Rich", [("more", int, 1)], bases=(Inner,))
TYPES: Final[list[tuple[Any, Callable[[], Any]]]] = [
    (int, int), (float, float), (str, str), (bool, bool), (bytes, bytes), (ms.Millis, int), (ms.Decimal, Decimal),
    (Annotated[ms.Decimal, ms.Digits(38, 9)], Decimal), (ms.Json | None, lambda: None),
    (Literal["red", "blue"], lambda: "red"), (list[int], list), (list[float], list), (list[str], list),
    (list[ms.Decimal], list), (dict[str, int], dict), (dict[str, float], dict), (dict[str, list[int]], dict),
    (Inner, Inner), (list[Inner], list), (dict[str, Inner], dict), (Frozen, Frozen), (int | None, lambda: None),
    (float | None, lambda: None), (list[float] | None, lambda: None), (Inner | None, lambda: None),
]  # fmt: skip


def record_type(name: str, chance: random.Random, frozen: bool) -> Any:
    chosen = chance.choices(TYPES, k=chance.randint(1, 4))
    parts = [(f"f{n}", declared, field(default_factory=make)) for n, (declared, make) in enumerate(chosen)]
    return make_dataclass(name, parts, frozen=frozen)


# Values


def value_for(shape: Shape, chance: random.Random) -> Any:
    """A value in one of the forms that Python takes for the shape, now and then one that the shape cannot hold."""
    if chance.random() < WRONG:
        return chance.choice([None, "\ud800", 2**63, 1.5, b"x", {"a"}, object, 10**400, Decimal("NaN"), [None], {1: 2}])
    if isinstance(shape, Maybe):
        return None if chance.random() < 0.3 else value_for(shape.inner, chance)
    if isinstance(shape, Record):
        return record_value(shape, chance)
    if isinstance(shape, Array):
        items = [value_for(shape.inner, chance) for _ in range(chance.randrange(3))]
        forms: list[Callable[[Any], Any]] = [list, list, tuple, deque]
        return chance.choice(forms)(items)
    if isinstance(shape, Table):
        keys = chance.sample([*IDS, Colour.RED], k=chance.randrange(4))
        members = {key: value_for(shape.inner, chance) for key in keys}
        forms = [dict, dict, OrderedDict, lambda members: defaultdict(int, members)]
        return chance.choice(forms)(members)
    if isinstance(shape, Symbols):
        return chance.choice(["red", "blue", Colour.RED])
    if isinstance(shape, Exact):
        return Decimal(chance.choice(["0", "-0", "1.0", "1.00", "1E+2", "-0.5", "12345.678"]))
    assert isinstance(shape, Plain)
    return chance.choice(PLAIN[shape.kind])


PLAIN: Final[dict[str, list[Any]]] = {
    "long": [0, 1, -1, True, 64, 2**53 + 1, 2**63 - 1, -(2**63), Level.HIGH, np.int64(5_000), np.int8(-3)],
    "millis": [0, -1, START_MS, 253_402_300_799_999, 253_402_300_800_000, 2**62],
    "double": [0.0, -0.0, 1, 2**53 + 1, True, float("nan"), float("inf"), 0.1, Decimal("0.1"), np.float32(0.1)],
    "string": ["", "a", "é", "\x00", Colour.RED, np.str_("z"), "y" * 70],
    "boolean": [True, False, 1, 0, np.True_],
    "bytes": [b"", b"ab", bytearray(b"c"), bytes(70)],
    "json": [ms.Json('{"b": 1.0, "a": -0}'), ms.Json("null"), ms.Json.of({"z": [1, {"y": "é"}], "a": None})],
}


def record_value(shape: Record, chance: random.Random) -> Any:
    made = shape.cls(**{f.name: value_for(f.shape, chance) for f in shape.fields})
    if shape.cls is Inner and chance.random() < 0.3:
        made = Rich(made.n, made.xs)
        made.note = "no field"
    return made


# Steps


class State(NamedTuple):
    """What a step of a program works on."""

    ctx: ms.Context[Any]
    chance: random.Random
    event: Any
    held: Any
    maps: list[tuple[Any, Any]]  # entries, with their record's shape
    seen: list[str]


class Kind(NamedTuple):
    """A service with random records and rules."""

    bench: Bench
    event: Any
    topic: JsonTopic | None  # of the output `copies`, if that is JSON


def some_map(s: State) -> tuple[Any, Any, str]:
    entries, shape = s.chance.choice(s.maps)
    return entries, shape, s.chance.choice(IDS)


def set_field(s: State, shape: Record) -> None:
    f = s.chance.choice(shape.fields)
    setattr(s.held, f.name, value_for(f.shape, s.chance))


def change_in_place(s: State, shape: Record) -> None:
    for f in s.chance.sample(shape.fields, len(shape.fields)):
        if change(getattr(s.held, f.name), f.shape, s.chance):
            return


def change(value: Any, shape: Shape, chance: random.Random) -> bool:
    if isinstance(shape, Maybe):
        return value is not None and change(value, shape.inner, chance)
    if isinstance(shape, Array) and isinstance(value, list):
        if value and chance.random() < 0.5:
            return change(value[0], shape.inner, chance) or value.pop() is not value
        value.insert(0, value[0] if value and chance.random() < 0.5 else value_for(shape.inner, chance))
        return True
    if isinstance(shape, Table) and isinstance(value, dict):
        value[chance.choice(IDS)] = value_for(shape.inner, chance)
        return True
    if isinstance(shape, Record) and shape.cls is Inner and value is not None:
        value.xs = [*value.xs, chance.choice(PLAIN["double"])][-3:]
        return True
    return False


def put(s: State, shape: Record) -> None:
    entries, its, id = some_map(s)
    record = its.cls(**{f.name: value_for(f.shape, s.chance) for f in its.fields})
    entries.put(id, record)
    if s.chance.random() < 0.4:  # the same object under two ids, and changed afterwards
        entries.put(s.chance.choice(IDS), record)
        for f in its.fields:
            change(getattr(record, f.name), f.shape, s.chance)


def share(s: State, shape: Record) -> None:
    """One object in the value and in an entry, or in the event and in the value."""
    entries, its, id = some_map(s)
    entry = entries.get(id)
    for f in shape.fields:
        if f.shape == Array(Plain("string")) and s.event is not None:
            setattr(s.held, f.name, s.event.words)
        for other in its.fields if entry is not None else []:
            if other.shape == f.shape:
                setattr(s.held, f.name, getattr(entry, other.name))


def change_entry(s: State, shape: Record) -> None:
    entries, its, id = some_map(s)
    entry = entries.get(id)
    if entry is not None:
        for f in its.fields:
            change(getattr(entry, f.name), f.shape, s.chance)


def delete(s: State, shape: Record) -> None:
    entries, _, id = some_map(s)
    entries.delete(id)


def look(s: State, shape: Record) -> None:
    entries, _, id = some_map(s)
    s.seen.append(repr((id in entries, exact_form(entries.get(id)), entries.ids(s.chance.choice(["", "a"])))))
    s.seen.append(repr(exact_form(s.held)))


def look_at_all(s: State, shape: Record) -> None:
    for entries, _ in s.maps:
        s.seen.append(repr([(id, exact_form(entry)) for id, entry in entries.items()]))


def count(s: State, shape: Record) -> None:
    calls: list[tuple[str, Any]] = [("n", 2), ("é", -1), ("é", 2**53 - 1)]
    if s.chance.random() < WRONG:
        calls = [("n", 2**53), ("", 1), ("n", 1.0)]
    s.ctx.count(*s.chance.choice(calls))


def end(s: State, shape: Record) -> None:
    """Rolls the step back, or forgets everything."""
    chosen = s.chance.randrange(9)
    if chosen == 0:
        raise ms.Reject(s.chance.choice(["not_now", "é", "\ud800", "r" * 1_001]), "\ud800")
    if chosen == 1:
        s.ctx.forget()
    if chosen == 2:
        s.ctx.dead_letter(s.chance.choice(["odd", "\ud800", ""]), "why")
    if chosen == 3:
        raise ArithmeticError("a step that fails")


Op = Callable[[State, Record], None]
OPS: Final[list[Op]] = [
    set_field, set_field, change_in_place, put, put, share, change_entry, delete, look, look, look_at_all, count, end,
]  # fmt: skip


# Services


@lru_cache(KINDS)
def kind(number: int) -> Kind:
    """The service of a number: the same in every run."""
    chance = random.Random(number)
    event_type = make_dataclass(
        "Event", [("key", str), ("seed", int), ("words", list[str]), ("at", ms.Millis)], frozen=True
    )
    shown_type = make_dataclass("Shown", [("key", str), ("text", str)], frozen=True)
    held_type = record_type("Held", chance, frozen=False)
    copy_type = make_dataclass("Copy", [("key", str), ("held", held_type)])
    map_types = [record_type(f"Entry{n}", chance, frozen=chance.random() < 0.5) for n in range(2)]
    service: Any = ms.Service("program")
    unique = {"unique": "seed", "within_ms": chance.choice([1, 300])} if chance.random() < 0.3 else {}
    events = service.input("events", event_type, key="key", time="at", **unique)
    shown = service.output("shown", shown_type, key="key")
    copies = service.output("copies", copy_type, key="key", format=chance.choice(["avro", "json"]))
    ttl: Any = lambda: chance.choice([None, None, 1, 40, 300])  # noqa: E731
    held = service.value("held", held_type, ttl_ms=ttl())
    maps = [service.map(f"entries{n}", cls, ttl_ms=ttl()) for n, cls in enumerate(map_types)]
    due, due_entry = service.timer("due"), service.timer("due_entry", maps[0])
    chance_of_index = chance.random() < 0.3  # to index a field of any type
    if chance.random() < 0.4:
        service.index("by", held, lambda record: record.f0 if chance_of_index else str(record.f0)[:9])
    shapes: list[Any] = []

    def run(ctx: Any, seed: str, e: Any, value: Any, entries: tuple[Any, ...]) -> None:
        its = random.Random(seed)
        s = State(ctx, its, e, value, list(zip(entries, shapes[1:], strict=True)), [repr(exact_form(value))])
        for op in its.choices(OPS, k=its.randint(1, 5)):
            op(s, shapes[0])
        if e is not None or its.random() < 0.3:
            after = its.choice([1, 5, 30, 100, 1_000]) if its.random() > WRONG else its.choice([2**61, 1.0, None])
            if its.random() < 0.5:
                ctx.at(due, (ctx.now + after) if after else after)
            else:
                ctx.at(due_entry, (ctx.now + after) if after else after, its.choice(IDS))
        ctx.emit(shown, shown_type(ctx.key, " ".join(s.seen)))
        if its.random() < 0.3:
            ctx.emit(copies, copy_type(ctx.key, value))
            change_in_place(s, shapes[0])

    def on_event(ctx: Any, e: Any, value: Any, first: Any, second: Any) -> None:
        run(ctx, f"{e.seed}", e, value, (first, second))

    def on_due(ctx: Any, value: Any, first: Any, second: Any) -> None:
        run(ctx, f"due {ctx.now}", None, value, (first, second))

    def on_due_entry(ctx: Any, id: str, value: Any, first: Any, second: Any) -> None:
        run(ctx, f"{id} {ctx.now}", None, value, (first, second))

    service.on(events, held, *maps)(on_event)
    service.on(due, held, *maps)(on_due)
    service.on(due_entry, held, *maps)(on_due_entry)
    bench = Bench(service, bound_ms=BOUND_MS, cuts="one", dead_letter_errors=True, key_groups=1)
    shapes += [bench.plan.kinds[name].codec.record for name in ("held", "entries0", "entries1")]
    return Kind(bench, event_type, JsonTopic(bench.plan, "copies") if copies.format == "json" else None)


PROGRAMS: Final = st.tuples(st.integers(0, KINDS - 1), st.integers(0, 2**62))


def events_of(its: Kind, seed: int) -> list[Any]:
    """The events of a program, in the order in which they are sent."""
    chance = random.Random(seed)
    events = []
    for n in range(chance.randint(2, 7)):
        words = chance.choices(["z", "y", "a"], k=chance.randrange(3))
        event_time_ms = START_MS + 10 * n - chance.choice([0, 0, 5, 60]) + chance.choice([0, 0, 0, 400])
        events.append(its.event(chance.choice("kkl"), chance.randrange(2**40), words, event_time_ms))
    return events


class Result(NamedTuple):
    """What a program leaves."""

    outputs: list[Output]
    entries: dict[bytes, bytes]
    counts: dict[str, int]


def run(its: Kind, batches: list[list[Any]]) -> Result:
    """Runs the events of a program in batches, in one key group. If there is one, also compares each record that a step
    leaves with the record that a later batch reads."""
    plan, state = its.bench.plan, MemoryState()
    codec = next(iter(plan.inputs[0].values())).codec
    differences: list[str] = []
    outputs: list[Output] = []
    offset = 0
    for events in [*batches, []]:
        order = RangeOrder(BOUND_MS)
        block = Block(0, 1, NO_TIME if events else END_OF_TIME, [])
        for e in events:
            time = order.observe(e.at)
            block.items.append((time, 0, 0, 0, 0, offset, e.at, e.key.encode(), codec.encode(e)))
            offset += 1
        block.marks.append((0, 0, order.high, 1, NO_TIME))
        processor = ServiceProcessor(plan, dead_letter_errors=True)
        if len(batches) == 1:
            processor.changes.on_settled = lambda cell: differences.extend(difference_of_cell(cell))
        outputs += run_batch(block, state, processor, {0: BOUND_MS}).outputs
    assert not differences, differences[0]
    entries = {key: value for key, value in state.entries.items() if not is_engines(key)}
    return Result(outputs, entries, clock.decode(state.entries[clock.KEY]).counts)


@target("service.programs", PROGRAMS, (379, 924169))
def check_program(program: tuple[int, int]) -> None:
    """One batch, and a batch for each event."""
    number, seed = program
    its = kind(number)
    events = events_of(its, seed)
    one, each = run(its, [events]), run(its, [[e] for e in events])
    for name, here, there in zip(Result._fields, one, each, strict=True):
        assert here == there, f"{name} differ: {here} in one batch, {there} in a batch for each event"
    if its.topic is not None:  # the sink can write what the steps have emitted
        copies = its.bench.plan.streams.index("copies")
        for stream, _, value, _ in one.outputs:
            if stream == copies and value is not None:
                its.topic.from_canonical(value)


def fresh(template: Bench, seed: int) -> Bench:
    """A bench that shares the plan, which takes most of the time to make."""
    bench = copy.copy(template)
    bench.random = random.Random(seed)
    bench.members = bench._members(bench.random, 1, 1)
    bench.first = bench.members[0]
    bench.latest = None
    return bench


@target("service.batches", PROGRAMS, share=0.1)
def check_in_bench(program: tuple[int, int]) -> None:
    """The same with intake, several key groups, random batches, and indices."""
    number, seed = program
    its = kind(number)
    bench = fresh(its.bench, seed)
    bench.send(*events_of(its, seed))
    bench._settle()
    bench.cuts = random.Random(seed).choice(["each", "random"])
    bench.end()

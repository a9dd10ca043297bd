"""The limits of what a step emits, stores, sets and counts (docs/services.md, "Limits"): the last value is taken, the
next one is refused in the step, and nothing that reads it later refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

import moneystate as ms
from moneystate.engine import clock
from moneystate.engine.items import END_OF_TIME, MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.engine.limits import MAX_DURATION_MS
from moneystate.errors import ServiceError, StepError
from moneystate.runtime.json_topic import JsonTopic
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing import Bench

ENTRY = 1_000_000 - 64 - len("m\x05notes\x00\x01kid")  # of a text in an entry of the map `notes`
RECORD = 1_000_000 - 1_024 - len("k") - 10  # of a text in an output record under the key `k`


@dataclass(frozen=True)
class Event:
    keys: list[str]
    n: int
    at: ms.Millis


@dataclass(frozen=True)
class Shown:
    key: str
    text: str = ""
    mean: float = 0.0
    at: ms.Millis = 0
    n: int = 0


@dataclass(frozen=True)
class Removed:
    key: str


@dataclass
class Held:
    n: int = 0
    amount: ms.Decimal = Decimal(0)
    text: str = ""
    numbers: list[int] = field(default_factory=list)


@dataclass
class Note:
    text: str = ""


def by_numbers(held: Held) -> Any:
    """One number: itself, to the power of two. Several: a tuple of texts."""
    if len(held.numbers) > 1:
        return tuple("x" * n for n in held.numbers)
    return (1 << held.numbers[0]) - 1 if held.numbers else held.text


Effect = Callable[[Any], object]  # of the context and the handles


def service_of(effects: list[Effect]) -> ms.Service[None]:
    """Its step for event `n` runs effect `n`."""
    service = ms.Service("limited")
    events = service.input("events", Event, key=lambda e: e.keys, time="at", format="json")
    shown = service.output("shown", Shown, key="key")
    in_json = service.output("shown-json", Shown, key="key", format="json")
    listed = service.output("listed", Event, key=lambda e: [f"{n}" for n in range(e.n)])
    removed = service.output("removed", Removed, key="key", compacted=True)
    held, notes = service.value("held", Held), service.map("notes", Note)
    due, due_note = service.timer("due"), service.timer("due_note", notes)
    service.index("by_numbers", held, by_numbers)
    service.index("by_text", notes, lambda note: note.text)

    @service.on(events, held, notes)
    def run(ctx: ms.Context[None], e: Event, held: Held, notes: ms.Entries[Note]) -> None:
        if e.n < len(effects):
            effects[e.n](
                SimpleNamespace(
                    ctx=ctx, held=held, notes=notes, shown=shown, in_json=in_json, removed=removed, listed=listed,
                    due=due, due_note=due_note,
                )
            )  # fmt: skip

    @service.on(due)
    def ring(ctx: ms.Context[None]) -> None: ...

    @service.on(due_note)
    def ring_note(ctx: ms.Context[None], id: str) -> None: ...

    return service


def count(name: Any, n: Any) -> Effect:
    return lambda s: s.ctx.count(name, n)


def emit(**fields: Any) -> Effect:
    return lambda s: s.ctx.emit(s.shown, Shown(**{"key": "k", **fields}))


def emit_json(**fields: Any) -> Effect:
    return lambda s: s.ctx.emit(s.in_json, Shown(**{"key": "k", **fields}))


def put(id: str, text: str = "x") -> Effect:
    return lambda s: s.notes.put(id, Note(text))


def hold(**fields: Any) -> Effect:
    return lambda s: vars(s.held).update(fields)


def reject(reason: Any, detail: str = "") -> Effect:
    def effect(s: Any) -> None:
        raise ms.Reject(reason, detail)

    return effect


LIMITS: dict[str, tuple[Effect, Effect]] = {  # the last that is taken, the first that is refused
    "int": (hold(n=2**63 - 1), hold(n=2**63)),
    "int below": (hold(n=-(2**63)), hold(n=-(2**63) - 1)),
    "decimal digits": (hold(amount=Decimal("9" * 16 + ".9999")), hold(amount=Decimal("1" + "0" * 16))),
    "decimal places": (hold(amount=Decimal("0.0001")), hold(amount=Decimal("0.00001"))),
    "emitted int": (emit(n=2**63 - 1), emit(n=2**63)),
    "double": (emit(mean=float("inf")), emit(mean=10**400)),
    "double in JSON": (emit_json(mean=1.7e308), emit_json(mean=float("inf"))),
    "nan in JSON": (emit_json(mean=-0.0), emit_json(mean=float("nan"))),
    "time in JSON": (emit_json(at=MAX_EVENT_TIME), emit_json(at=MAX_EVENT_TIME + 1)),
    "time below in JSON": (emit_json(at=MIN_EVENT_TIME), emit_json(at=MIN_EVENT_TIME - 1)),
    "time": (emit(at=2**63 - 1), emit(at=2**63)),
    "record": (emit(text="x" * (RECORD - 28)), emit(text="x" * (RECORD - 10))),
    "record in JSON": (emit_json(text="\x01" * 166_300), emit_json(text="\x01" * 166_600)),
    "entry": (put("id", "x" * (ENTRY - 10)), put("id", "x" * ENTRY)),
    "key": (emit(key="k" * 65_535), emit(key="k" * 65_536)),
    "removed key": (lambda s: s.ctx.remove(s.removed, "k" * 65_535), lambda s: s.ctx.remove(s.removed, "k" * 65_536)),
    "keys": (
        lambda s: s.ctx.emit(s.listed, Event([], 1_000, 0)),
        lambda s: s.ctx.emit(s.listed, Event([], 1_001, 0)),
    ),
    "key as UTF-8": (emit(key="é"), emit(key="\ud800")),
    "id": (put("i" * 65_535), put("i" * 65_536)),
    "id as UTF-8": (put("é"), put("\ud800")),
    "id of a timer": (
        lambda s: s.ctx.at(s.due_note, 1, "i" * 65_535),
        lambda s: s.ctx.at(s.due_note, 1, "i" * 65_536),
    ),
    "timer": (lambda s: s.ctx.at(s.due, END_OF_TIME - 1), lambda s: s.ctx.at(s.due, END_OF_TIME)),
    "timer in whole ms": (lambda s: s.ctx.at(s.due, 1), lambda s: s.ctx.at(s.due, 1.0)),
    "timer below": (lambda s: s.ctx.at(s.due, 0), lambda s: s.ctx.at(s.due, -1)),
    "number of an index": (hold(numbers=[127 * 8]), hold(numbers=[127 * 8 + 1])),
    "parts of an index": (hold(numbers=[4_000] * 16), hold(numbers=[4_000] * 17)),
    "text of an index": (put("id", "x" * 300_000), lambda s: put("id", 7)(s)),  # type: ignore[arg-type]
    "count": (count("n", 2**53 - 1), count("n", 2**53)),
    "count below": (count("n", -(2**53) + 1), count("n", -(2**53))),
    "count in whole numbers": (count("n", 0), count("n", 1.5)),
    "name of a count": (count("n" * 1_000, 1), count("n" * 1_001, 1)),
    "name of a count as UTF-8": (count("é" * 500, 1), count("é" * 501, 1)),
    "no name of a count": (count("n", 1), count("", 1)),
    "half a character in a count": (count("é", 1), count("\ud800", 1)),
    "reason": (lambda s: s.ctx.dead_letter("r" * 1_000), lambda s: s.ctx.dead_letter("r" * 1_001)),
    "half a character in a reason": (lambda s: s.ctx.dead_letter("é"), lambda s: s.ctx.dead_letter("\ud800")),
    "reason to reject": (reject("r" * 1_000), reject("r" * 1_001)),
    "half a character to reject": (reject("é", "\ud800"), reject("\ud800")),
}
WRITTEN_ANYWAY = ("reason", "half a character in a reason", "reason to reject", "half a character to reject")


@pytest.mark.parametrize("name", LIMITS)
def test_the_last_value_is_taken_and_the_next_one_is_a_dead_letter(name: str) -> None:
    taken, refused = LIMITS[name]
    for cuts in ("one", "each"):
        bench = Bench(service_of([taken, refused]), bound_ms=0, cuts=cuts, dead_letter_errors=True)
        bench.send(Event(["k"], 0, 1_000), Event(["k"], 1, 1_001), Event(["k"], 2, 1_002))
        letters = bench.dead_letters()
        assert letters[-1:] == ["exception"], (name, cuts)
        assert len(letters) == (2 if name in WRITTEN_ANYWAY else 1)
        bench.run.check_indices()
        for state in bench.run.sim.states:  # the next batch can read what this one wrote
            clock.decode(state.entries.get(clock.KEY))
        topic = JsonTopic(bench.plan, "shown-json")
        for stream, _, value, _ in bench.run.sim.outputs:
            if stream == bench.plan.streams.index("shown-json") and value is not None:
                topic.from_canonical(value)


@pytest.mark.parametrize("name", LIMITS)
def test_the_error_names_the_record(name: str) -> None:
    bench = Bench(service_of([LIMITS[name][1]]), bound_ms=0)
    bench.send(Event(["k"], 5, 1_000), Event(["k"], 0, 1_001), Event(["k"], 5, 1_002))
    with pytest.raises(StepError, match=r"^events, partition 0, offset 1: run"):
        bench.dead_letters()


def test_a_counter_stops_at_the_largest_number_instead_of_ending_the_job() -> None:
    many = lambda s: [s.ctx.count("n", 2**53 - 1) for _ in range(1_025)]  # noqa: E731
    bench = Bench(service_of([many]), bound_ms=0, key_groups=1)
    for n in range(2):
        bench.send(Event(["k"], 0, 1_000 + n))
        assert bench.dead_letters() == []
        assert clock.decode(bench.run.sim.states[0].entries[clock.KEY]).counts["n"] == 2**63 - 1


@pytest.mark.parametrize(
    ("keys", "size", "letters"),
    [
        (1_000, 1, []),
        (1_001, 1, ["too_many_keys"]),
        (400, 40_000, []),
        (420, 40_000, ["too_many_keys"]),
    ],
)
def test_the_keys_of_one_record_are_bounded(keys: int, size: int, letters: list[str]) -> None:
    service = ms.Service("many")
    events = service.input("events", Event, key=lambda e: [f"{n:05}" for n in range(e.n)], time="at")

    @service.on(events)
    def run(ctx: ms.Context[None], e: Event) -> None:
        ctx.count("runs")

    bench = Bench(service, bound_ms=0)
    bench.send(Event(["x" * size], keys, 1_000))
    assert bench.dead_letters() == letters
    assert bench.count("runs") == (0 if letters else keys)


def test_records_of_a_declared_size_are_taken() -> None:
    service = service_of([emit(text="x" * RECORD * 2), put("id", "x" * RECORD * 2)])
    service.holding(16)
    bench = Bench(service, bound_ms=0)
    bench.send(Event(["k"], 0, 1_000), Event(["k"], 1, 1_001))
    assert bench.dead_letters() == []


@pytest.mark.parametrize("ttl_ms", [1, MAX_DURATION_MS, lambda rules: MAX_DURATION_MS, lambda rules: 0, None])
def test_durations_that_are_taken(ttl_ms: Any) -> None:
    bench = Bench(with_ttl(ttl_ms), bound_ms=0)
    bench.send(Event(["k"], 0, MIN_EVENT_TIME), Event(["k"], 0, MAX_EVENT_TIME - 86_400_000))
    assert bench.dead_letters() == []
    bench.end()


@pytest.mark.parametrize(
    ("ttl_ms", "line"),
    [
        (0, "value 'held': expected a ttl_ms of 1 or more, found 0. Do: leave ttl_ms out"),
        (MAX_DURATION_MS + 1, "value 'held', ttl_ms: expected a duration of at most 1,152,921,504,606,846,976 ms"),
        (2**63 - 1, "value 'held', ttl_ms: expected a duration of at most"),
        (-1, "value 'held', ttl_ms: expected a duration in ms, found -1"),
        (1.5, "value 'held', ttl_ms: expected a duration in ms, found 1.5"),
        (lambda rules: rules.keep, "value 'held', ttl_ms: its function raised AttributeError at test_limits.py:"),
        (lambda rules: 2**62, "value 'held', ttl_ms: expected a duration of at most"),
    ],
)
def test_durations_that_are_refused(ttl_ms: Any, line: str) -> None:
    with pytest.raises(ServiceError) as refused:
        Bench(with_ttl(ttl_ms), bound_ms=0)
    assert line in str(refused.value)


def with_ttl(ttl_ms: Any) -> ms.Service[None]:
    service = ms.Service("kept")
    events = service.input("events", Event, key=lambda e: e.keys, time="at")
    held = service.value("held", Held, ttl_ms=ttl_ms)

    @service.on(events, held)
    def run(ctx: ms.Context[None], e: Event, held: Held) -> None:
        held.n += 1

    return service


def test_formats_of_the_run_decide_what_an_output_takes() -> None:
    plan = Bench(service_of([]), bound_ms=0).plan
    assert ServiceProcessor(plan).current.emission.in_json == {"shown-json"}
    assert ServiceProcessor(plan, formats={"shown": "json", "shown-json": "avro"}).current.emission.in_json == {"shown"}

"""What a new version of a service, or a rule, no longer declares may still be in its state, and is handled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import moneystate as ms
from moneystate.api.handles import MapTimer, Timer
from moneystate.engine.deadletter import PREFIX
from moneystate.job.state_checks import unreadable
from moneystate.ports.service import STATE_SCHEMAS
from moneystate.runtime import layout
from moneystate.runtime.cells import TimerKind
from moneystate.runtime.job import job_spec
from moneystate.runtime.processor import ServiceProcessor
from moneystate.runtime.state_model import ServiceState
from moneystate.testing import Bench
from tests.api.handover import handed_over, stored

S = 1_000
REFERENCE = "tests.api.test_removed_declarations:made"


@dataclass(frozen=True)
class Config:
    """What is declared, besides the input `a`."""

    b: bool = True
    function_of_b: bool = True
    timer: bool = True
    of_map: bool = True
    unique: bool = True
    parts: bool = True
    forgets: bool = False  # whether an event of `b` forgets its key


@dataclass(frozen=True)
class A:
    k: str
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class B:
    k: str
    at: ms.Millis


@dataclass(frozen=True)
class Told:
    k: str
    what: str


@dataclass
class Part:
    n: int = 0


def made(config: Config) -> ms.Service[Config]:
    """An event of `a` puts an entry with a TTL, and sets a timer; one of `b` is told."""
    service = ms.Service("made", rules=config)
    unique = {"unique": "id", "within_ms": 20 * S} if config.unique else {}
    a = service.input("a", A, key="k", time="at", **unique)  # type: ignore[arg-type]
    told = service.output("told", Told, key="k")
    others = service.map("others", Part)
    parts = service.map("parts", Part, ttl_ms=20 * S) if config.parts else others
    timer: Timer | MapTimer[Part] | None = None
    if config.timer:
        timer = service.timer("timer", of=others) if config.of_map else service.timer("timer")

    @service.on(a, parts)
    def take(ctx: ms.Context[Config], e: A, parts: ms.Entries[Part]) -> None:
        parts.put(e.id, Part(1))
        ctx.emit(told, Told(e.k, e.id))
        if isinstance(timer, MapTimer):
            ctx.at(timer, ctx.now + 20 * S, e.id)
        elif timer is not None:
            ctx.at(timer, ctx.now + 20 * S)

    if isinstance(timer, MapTimer):

        @service.on(timer)
        def due_for(ctx: ms.Context[Config], id: str) -> None:
            ctx.emit(told, Told(ctx.key, f"due {id}"))

    elif timer is not None:

        @service.on(timer)
        def due(ctx: ms.Context[Config]) -> None:
            ctx.emit(told, Told(ctx.key, "due"))

    if config.b:
        b = service.input("b", B, key="k", time="at")
        if config.function_of_b:

            @service.on(b)
            def tell(ctx: ms.Context[Config], e: B) -> None:
                ctx.emit(told, Told(e.k, "b"))
                if config.forgets:
                    ctx.forget()

    return service


def out(bench: Bench) -> list[str]:
    (told,) = bench.service.outputs
    return [one.what for one in bench.out(told)]


@pytest.mark.parametrize("config", [Config(b=False), Config(function_of_b=False)])
def test_a_buffered_record_of_a_removed_input_is_a_dead_letter(config: Config) -> None:
    before = Bench(made(Config()), bound_ms=10 * S, key_groups=1)
    before.send(A("x", "1", S), B("x", S))
    after = handed_over(before, made(config), settled=False, bound_ms=10 * S)
    after.send(A("x", "2", 40 * S))
    assert out(after) == ["1", "due 1", "2"]
    assert after.dead_letters() == ["removed_input"]
    stream = after.plan.dead_letter_stream
    (letter,) = [output for output in after.run.sim.outputs if output[0] == stream]
    assert after.plan.codecs[B].decode(letter[2] or b"") == B("x", S) if config.b else letter[2]
    assert (PREFIX + "topic", b"b") in letter[3]


@pytest.mark.parametrize("config", [Config(timer=False), Config(of_map=False)])
def test_a_removed_timer_that_is_due_is_counted_and_removed(config: Config) -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S))
    after = handed_over(before, made(config), bound_ms=0, cuts="one")
    after.send(B("x", 40 * S))
    assert out(after) == ["b"]
    assert stored(after, b"t") == {}
    assert (after.dead_letters(), after.count("removed_timers")) == ([], 1)


def test_a_timer_that_is_removed_and_declared_again_still_runs() -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S))
    without = handed_over(before, made(Config(timer=False)), bound_ms=0)
    without.send(B("x", 2 * S))
    again = handed_over(without, made(Config()), bound_ms=0)
    again.send(B("x", 40 * S))
    assert out(again) == ["due 1", "b"]


def test_ids_of_a_removed_unique_are_swept() -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S))
    after = handed_over(before, made(Config(unique=False)), bound_ms=0)
    after.send(B("x", 60 * S))
    assert stored(after, b"u") == {}
    assert out(after) == ["due 1", "b"]


def test_entries_of_a_removed_map_stay_and_can_be_declared_again() -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S))
    entries = stored(before, b"m")
    after = handed_over(before, made(Config(parts=False)), bound_ms=0)
    after.send(B("x", 60 * S))
    assert out(after) == ["due 1", "b"]
    assert {key: value for key, value in stored(after, b"m").items() if key in entries} == entries


def test_tools_read_timers_and_seen_ids_that_are_not_declared() -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S))
    removed = json.dumps({"timer": False, "unique": False}, separators=(",", ":"))
    state = ServiceState(f"{REFERENCE} {removed}", before.plan.codes)
    entries = stored(before, b"tu")
    assert {layout.place_of(key).kind for key in entries} == {b"t", b"u"}  # type: ignore[union-attr]
    assert {state.owner_of(key) for key in entries} == {b"x"}
    facts = [fact.kind for key, value in entries.items() for fact in state.facts(key, value, 0, {})]
    assert sorted(facts) == ["seen a", "timer timer"]
    assert state.view(entries.items(), 0, {})["named-timers"] == [{"name": "timer", "id": "1", "due": 21 * S}]


def test_tools_say_of_a_buffered_record_that_it_is_not_declared() -> None:
    record = Bench(made(Config())).plan.codec(B, "").encode(B("x", S))
    state = ServiceState(f'{REFERENCE} {{"b":false}}', {"a": 0, "b": 1})
    assert state.event_view(record) == {"undeclared": record[2:10].hex()}


def test_forgetting_a_key_reaches_what_is_no_longer_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Bench(made(Config()), bound_ms=0, key_groups=1)
    before.send(A("x", "1", S), A("y", "1", S))
    assert {key[:1] for key in stored(before)} == {b"m", b"t", b"u"}
    monkeypatch.setattr("moneystate.testing.run.ServiceProcessor", partial(ServiceProcessor, timers=("timer",)))
    after = handed_over(before, made(Config(timer=False, unique=False, forgets=True)), bound_ms=0)
    after.send(B("x", 2 * S))
    assert {layout.owner_of(key) for key in stored(after)} == {b"y"}
    after.send(B("y", 60 * S))
    assert (stored(after), after.dead_letters(), after.count("removed_timers")) == ({}, [], 1)


def test_a_job_knows_the_timers_that_were_declared_before() -> None:
    before = job_spec(REFERENCE, {}).rules
    assert "timer timer" in before[STATE_SCHEMAS]
    job = job_spec(f'{REFERENCE} {{"timer":false}}', {STATE_SCHEMAS: before[STATE_SCHEMAS]})
    processor: Any = job.make()
    assert [kind.name for kind in processor.current.kinds if isinstance(kind, TimerKind)] == ["timer"]
    assert job.rules[STATE_SCHEMAS] == before[STATE_SCHEMAS]
    assert unreadable(job, before) == []

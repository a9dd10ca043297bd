"""An error in any code of a service names the record. With `--on-error dead-letter` it makes a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import StepError
from moneystate.testing import Bench

BAD = 13  # the number of the record for which code fails


def fails(n: int) -> int:
    if n == BAD:
        raise RuntimeError("of the service")
    return n


@dataclass(frozen=True)
class Event:
    key: str
    n: int
    at: ms.Millis


@dataclass(frozen=True)
class Checked:
    key: str
    n: int
    at: ms.Millis

    def __post_init__(self) -> None:
        fails(self.n)


@dataclass(frozen=True)
class Odd:
    """Its constructor leaves a value that Avro does not have."""

    key: str
    n: int
    at: ms.Millis
    note: ms.Json | None = None

    def __post_init__(self) -> None:
        if self.n == BAD:
            object.__setattr__(self, "n", 2**63)


@dataclass(frozen=True)
class Shown:
    key: str
    n: int


@dataclass
class Held:
    n: int = 0


def take(message: ms.Message) -> Event:
    n = int(message.value or b"")
    return Event("k", fails(n), 1_000 + n)


def key_of(e: Event) -> str:
    if e.n == BAD:
        raise ms.Reject("no_key_of_ours")
    return "k"


def service_of(
    record: type[Any] = Event, key: Any = "key", time: Any = "at", ids: Any = None, by: Any = None, out: Any = "key",
    format: str = "json", **more: Any,
) -> ms.Service[None]:  # fmt: skip
    service = ms.Service("failing")
    events = service.input("events", record, key=key, time=time, format=format, **more)
    shown = service.output("shown", Shown, key=out)
    held, notes = service.value("held", Held), service.map("notes", Held)
    if by is not None:
        service.index("by", held, by)

    def step(ctx: ms.Context[None], e: Any, held: Held, notes: ms.Entries[Held]) -> None:
        held.n = e.n
        notes.put(f"{e.n}", Held(e.n))
        ctx.emit(shown, Shown(e.key, e.n))

    service.on(events, held, notes if ids is None else notes.at(ids))(step)
    return service


def json_value(n: int) -> bytes:
    return f'{{"key":"k","n":{n},"at":{1_000 + n}}}'.encode()


Make = Callable[[], ms.Service[None]]
CODE: dict[str, tuple[Make, str]] = {  # the service, and what the error names
    "constructor of an event": (lambda: service_of(Checked), "of the service"),
    "constructor that leaves a wrong value": (lambda: service_of(Odd), "Odd.n"),
    "key": (lambda: service_of(key=lambda e: str(fails(e.n))), "of the service"),
    "time": (lambda: service_of(time=lambda e: 1_000 + fails(e.n)), "of the service"),
    "decode": (lambda: service_of(decode=take), "of the service"),
    "fallback": (lambda: service_of(Checked, fallback=take), "of the service"),
    "map.at": (lambda: service_of(ids=lambda e: [str(fails(e.n))]), "step at"),
    "map.at as UTF-8": (lambda: service_of(ids=lambda e: ["\ud800" if e.n == BAD else "a"]), "step"),
    "index": (lambda: service_of(by=lambda held: fails(held.n)), "step at"),
    "index of a wrong type": (lambda: service_of(by=lambda held: 0.5 if held.n == BAD else 1), "'by'"),
    "key of an output": (lambda: service_of(out=lambda shown: str(fails(shown.n))), "step at"),
}


@pytest.mark.parametrize("name", CODE)
def test_any_code_of_a_service_can_make_a_dead_letter(name: str) -> None:
    make, _ = CODE[name]
    for cuts in ("one", "each"):
        bench = Bench(make(), bound_ms=0, cuts=cuts, dead_letter_errors=True)
        send(bench, name)
        assert bench.dead_letters() == ["exception"]
        assert [shown.n for shown in bench.out(bench.service.outputs[0])] == [1, 2]
        bench.end()


@pytest.mark.parametrize("name", CODE)
def test_any_error_of_a_services_code_names_the_record(name: str) -> None:
    make, where = CODE[name]
    bench = Bench(make(), bound_ms=0)
    send(bench, name)
    with pytest.raises(StepError, match=rf"events, partition 0, offset 1: .*{where}"):
        bench.dead_letters()


def send(bench: Bench, name: str) -> None:
    for n in (1, BAD, 2):
        bench.send_raw("events", f"{n}" if name == "decode" else json_value(n))


def test_a_key_function_can_reject_a_record() -> None:
    bench = Bench(service_of(key=key_of), bound_ms=0)
    send(bench, "key")
    assert bench.dead_letters() == ["no_key_of_ours"]


@dataclass(frozen=True)
class EventV1:
    key: str
    amount: int
    at: ms.Millis


EventV1.__name__ = EventV1.__qualname__ = "Event"


@ms.upgrade
def with_n(old: EventV1) -> Event:
    return Event(old.key, fails(old.amount), old.at)


@pytest.mark.parametrize("letters", [True, False])
def test_an_upgrade_of_a_buffered_event_can_make_a_dead_letter(letters: bool) -> None:
    before = Bench(service_of(EventV1, format="avro"), bound_ms=60_000, key_groups=1)
    before.send(EventV1("k", 1, 5_000), EventV1("k", BAD, 5_001), EventV1("k", 2, 5_002))
    before._batches()  # they wait for the watermark
    bench = Bench(service_of(format="avro"), bound_ms=0, key_groups=1, dead_letter_errors=letters)
    bench.run.sim.states[0].entries.update(before.run.sim.states[0].entries)
    bench.run.order.update(before.run.order)
    bench.send(Event("k", 3, 6_000))
    if letters:
        assert bench.dead_letters() == ["exception"]
        assert [shown.n for shown in bench.out(bench.service.outputs[0])] == [1, 2, 3]
    else:
        with pytest.raises(StepError, match=r"events, partition 0, offset 1: step at test_errors_of_code.py"):
            bench.dead_letters()

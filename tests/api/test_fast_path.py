"""A fast path gives what the function beside it gives, or declines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moneystate as ms
from moneystate.api.fast_path import FastEvent
from moneystate.engine.avro import HEADER_BYTES, read_bytes, read_long
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from moneystate.testing.simulation import Simulation
from services.enrichment import service as enrichment
from services.enrichment.fast_path import MoneyFastPath
from tests.api.handover import handed_over
from tests.budget import examples
from tests.enrichment.harness import any_cuts, cut, interleaved, simulation
from tests.enrichment.test_equals_model import SLOW_IS_FINE
from tests.reference.strategies import Case, cases

S = 1_000


@dataclass(frozen=True)
class Asked:
    key: str
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Noted:
    text: str


@dataclass
class Told:
    key: str
    id: str
    text: str


@dataclass
class Sum:
    n: int = 0


class Tells:
    """The fast path of `told`: it answers what is noted."""

    def __init__(self, header: bytes) -> None:
        self.header = header
        self.seen: list[tuple[bytes, int, list[bytes | None]]] = []

    def read(self, value: bytes) -> FastEvent | None:
        _, end = read_bytes(value, HEADER_BYTES)
        id, pos = read_bytes(value, end)
        return None if id == b"declined" else (id, [id], value[HEADER_BYTES:pos])

    def answer(self, parts: Any, now: int, states: Sequence[bytes | None]) -> bytes | None:
        self.seen.append((parts, now, list(states)))
        noted = states[1]
        return None if noted is None else self.header + parts + noted


@dataclass(frozen=True)
class Rules:
    keep_ms: int = 60 * S


def keep(rules: Rules) -> int:
    return rules.keep_ms


def made(format: str = "avro") -> tuple[ms.Service[Rules], list[Tells], ms.Output[Told], list[str]]:
    """A service, its fast paths, its output, and the ids that its function saw."""
    service = ms.Service("telling", rules=Rules())
    asked = service.input("asked", Asked, key="key", time="at", unique="id", within_ms=5 * S)
    told = service.output("told", Told, key="key", format=format)
    sums = service.value("sums", Sum)
    notes = service.map("notes", Noted, ttl_ms=keep)
    paths: list[Tells] = []
    called: list[str] = []

    @service.on(asked, sums, notes.at("id"))
    def tell(ctx: ms.Context[Rules], e: Asked, total: Sum, notes: ms.Entries[Noted]) -> None:
        called.append(e.id)
        note = notes.get(e.id)
        if note is None:
            total.n += 1
            notes.put(e.id, Noted(f"note {total.n}"))
            note = notes[e.id]
        ctx.emit(told, Told(e.key, e.id, note.text))

    def path(header: bytes) -> Tells:
        paths.append(Tells(header))
        return paths[-1]

    service.fast_path(asked, told, path)
    return service, paths, told, called


def test_it_answers_what_it_can_and_the_function_the_rest() -> None:
    service, paths, told, called = made()
    bench = Bench(service, bound_ms=0)
    for at in (0, 10, 20):
        bench.send(Asked("a", "x", at * S))
        bench.send(Asked("a", "declined", at * S))
    bench.advance(1 * S)
    assert [record.text for record in bench.out(told)] == ["note 1", "note 2"] * 3
    assert called == ["x", "declined", "declined", "declined"]
    (path,) = [path for path in paths if path.seen]
    assert [now for _, now, _ in path.seen] == [0, 10 * S, 20 * S]
    assert path.seen[0][2] == [b"\x00", None]  # the default of the value; there is no entry
    assert path.seen[1][2] == [b"\x04", b"\x0cnote 1"]


def test_a_duplicate_is_dropped_before_it() -> None:
    service, _, told, _ = made()
    bench = Bench(service, bound_ms=0)
    for at in (0, 1, 6):
        bench.send(Asked("a", "x", at * S))
    bench.advance(1 * S)
    assert len(bench.out(told)) == 2


def test_an_expired_entry_is_none() -> None:
    service, paths, told, called = made()
    bench = Bench(service, bound_ms=0)
    bench.send(Asked("a", "x", 0))
    bench.send(Asked("a", "x", 60 * S))
    bench.advance(1 * S)
    assert [record.text for record in bench.out(told)] == ["note 1", "note 2"]
    assert called == ["x", "x"]
    (path,) = [path for path in paths if path.seen]
    assert path.seen[1][2][1] is None


@pytest.mark.parametrize("later", [10, 60])
def test_an_entry_without_a_sweep_takes_the_function(later: int) -> None:
    """It schedules the sweep, or removes the entry."""
    service, paths, told, called = made()
    before = Bench(service, rules=Rules(keep_ms=0), bound_ms=0, key_groups=1)
    before.send(Asked("a", "x", 0))
    bench = handed_over(before, service, bound_ms=0)
    bench.send(Asked("a", "x", later * S))
    bench.advance(1 * S)
    assert [record.text for record in bench.out(told)] == (["note 1"] if later < 60 else ["note 2"])
    assert called == ["x", "x"]
    assert [len(path.seen) for path in paths if path.seen] == [1]  # the event before


def test_a_json_output_takes_the_function() -> None:
    service, _, told, called = made("json")
    bench = Bench(service, bound_ms=0)
    for at in (0, 10):
        bench.send(Asked("a", "x", at * S))
    bench.advance(1 * S)
    assert [record.text for record in bench.out(told)] == ["note 1", "note 1"]
    assert called == ["x", "x"]


def test_wrong_declarations_are_refused() -> None:
    service = ms.Service("telling")
    asked = service.input("asked", Asked, key="key", time="at")
    told = service.output("told", Told, key="key")
    timed = service.output("timed", Told, key="key", timed=True)
    with pytest.raises(ServiceError, match="no function runs on"):
        service.fast_path(asked, told, Tells)

    @service.on(asked)
    def tell(ctx: ms.Context[None], e: Asked) -> None:
        return

    with pytest.raises(ServiceError, match="has times of its own"):
        service.fast_path(asked, timed, Tells)
    with pytest.raises(ServiceError, match="belongs to the service"):
        ms.Service("other").fast_path(asked, told, Tells)


@settings(SLOW_IS_FINE, max_examples=examples(150))
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_the_enrichment_is_the_same_without_it(case: Case, seed: int, ends: list[int], drain: bool) -> None:
    records = interleaved(case, seed)
    replies = [("session-lookup-results", r.partition) for r in case.replies]
    places = [*case.partitions, *dict.fromkeys(replies)]
    sims = [simulation(case.rules, places, with_fast_path=given) for given in (True, False)]
    for sim in sims:
        for batch in cut(records, [end % (len(records) + 1) for end in ends]):
            sim.batch(batch)
        if drain:
            sim.batch([], drain=True)
    fast, slow = sims
    assert fast.outputs == slow.outputs
    assert entries(fast) == entries(slow)


def entries(sim: Simulation) -> list[dict[bytes, bytes]]:
    return [dict(state.entries) for state in sim.states]


# The body of a payment: texts and bytes, two of them as they are varied, and three fields that are copied.
def payment(id: bytes = b"\x02i", session: bytes = b"\x02\x02s", at: bytes = b"\x02", old: bytes = b"\x00") -> bytes:
    fields = [id, b"\x02u", session, at, b"\x02\x01", b"\x06EUR", b"\x02\x02", b"\x02\x03", b"\x06AAA", b"\x02x", old]
    return bytes(HEADER_BYTES) + b"".join(fields)


USER = b"\x00\x02\x06AAA\x00\x00"
SESSION = b"\x04UY\xe8\x07\x02s"  # until 500


def test_money_with_a_session_is_joined() -> None:
    path = MoneyFastPath(b"HEADER----")
    event = path.read(payment())
    assert event is not None
    id, ids, parts = event
    assert (id, ids) == (b"i", [b"s"])
    out = path.answer(parts, 499, [USER, SESSION])
    money = b"\x02i\x02u\x02\x02s\x02\x02\x01\x06EUR\x02\x03\x06AAA\x00"
    assert out == b"HEADER----" + money + b"\x00" + b"\x02\x04UY" + b"\x00\x00"
    assert path.answer(parts, 500, [USER, SESSION]) is None
    assert path.answer(parts, 499, [USER, None]) is None
    assert path.answer(parts, 499, [b"\x00\x02\x06BBB\x00\x00", SESSION]) is None  # the first of its type


def test_money_that_is_old_or_long_or_badly_encoded_is_declined() -> None:
    path = MoneyFastPath(b"")
    assert path.read(payment(old=b"\x01")) is None
    assert path.read(payment(id=b"\x80\x01" + b"i" * 64)) is None
    assert path.read(payment(id=b"\x82\x00i")) is None  # a length of two bytes where one is enough
    assert path.read(payment(at=b"\x82\x00")) is None
    assert path.read(payment(session=b"\x80\x00")) is None
    assert read_long(b"\x82\x00", 0) == (1, 2)  # which a reader accepts
    assert path.read(payment(session=b"\x00")) is not None


def test_the_plan_of_the_enrichment_has_it() -> None:
    plan = Plan(enrichment.service)
    fast = [i.topic for by_header in plan.inputs.values() for i in by_header.values() if i.fast is not None]
    assert fast == ["wallet-events", "wallet-events"]

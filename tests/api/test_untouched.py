"""A record that a step has only read is found without encoding it, and nothing else is taken for one."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import moneystate as ms
from moneystate.records.codec import Codec
from moneystate.records.shapes import Shapes
from moneystate.records.untouched import Noted, fields_of
from moneystate.testing import Bench

S = 1_000


@dataclass(frozen=True)
class Fixed:
    n: int = 0


@dataclass
class Inner:
    n: int = 0


@dataclass
class Held:
    name: str = ""
    n: int = 0
    part: float | None = None
    fixed: Fixed | None = None
    names: list[str] = field(default_factory=list)
    parts: list[Fixed] = field(default_factory=list)


@dataclass
class WithTable:
    table: dict[str, int] = field(default_factory=dict)


@dataclass
class WithInner:
    inner: Inner = field(default_factory=Inner)


@dataclass
class WithLists:
    lists: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    n: int = 0


def codec(cls: type) -> Codec:
    return Codec(Shapes("shop").record(cls, "the test"))


CODEC = codec(Held)
BODY = CODEC.write_body(Held("é", 300, 0.5, Fixed(1), ["a", "bb", "c"], [Fixed(2), Fixed(2)]))

CHANGES: list[Callable[[Any], object]] = [
    lambda r: setattr(r, "name", "other"),
    lambda r: setattr(r, "n", r.n + 1),
    lambda r: setattr(r, "n", float(r.n)),
    lambda r: setattr(r, "part", None),
    lambda r: setattr(r, "fixed", Fixed(2)),
    lambda r: setattr(r, "names", list(r.names)),
    lambda r: r.names.append("c"),
    lambda r: r.names.pop(),
    lambda r: r.names.reverse(),
    lambda r: r.names.__setitem__(0, "z"),
    lambda r: r.parts.__setitem__(0, Fixed(9)),
    lambda r: delattr(r, "n"),
    lambda r: setattr(r, "more", 1),
]


def read() -> Any:
    return CODEC.read_own_body(BODY, 0)[0]


def noted(record: Any) -> Noted:
    fields = fields_of(CODEC.record)
    assert fields is not None
    return Noted(fields, record)


def test_a_record_that_was_only_read_holds() -> None:
    record = read()
    before = noted(record)
    assert [record.name, *record.names, record.parts[0].n, copy.deepcopy(record)]
    assert before.holds(record)
    assert not before.holds(read())


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_was_changed_does_not_hold(change: Callable[[Any], object]) -> None:
    record = read()
    before = noted(record)
    change(record)
    assert not before.holds(record)


@pytest.mark.parametrize("cls", [WithTable, WithInner, WithLists, Slotted])
def test_what_can_be_changed_inside_is_always_encoded(cls: type) -> None:
    assert fields_of(codec(cls).record) is None


@dataclass(frozen=True)
class Come:
    key: str
    what: int
    at: ms.Millis


def test_steps_that_read_and_steps_that_change_are_told_apart_in_any_batches() -> None:
    service = ms.Service("held")
    come = service.input("come", Come, key="key", time="at")
    out = service.output("out", Come, key="key")
    held = service.value("held", Held)

    @service.on(come, held)
    def step(ctx: ms.Context[None], e: Come, held: Held) -> None:
        ctx.emit(out, Come(e.key, held.n + len(held.names) + len(held.parts), e.at))
        if e.what == 1:
            held.n += 1
        elif e.what == 2:
            held.names.append("a")
        elif e.what == 3:
            held.parts[:] = [*held.parts, Fixed(held.n)]
        elif e.what == 4:
            held.names.append("rejected")
            raise ms.Reject("no")

    chance = random.Random(1)
    bench = Bench(service, bound_ms=0)
    sent = [Come("a", chance.randrange(10), S + n) for n in range(200)]
    bench.send(*sent)
    n, expected = 0, []
    for one in sent:
        if one.what != 4:
            expected.append(Come("a", n, one.at))
        n += one.what in (1, 2, 3)
    assert bench.out(out) == expected
    bench.end()

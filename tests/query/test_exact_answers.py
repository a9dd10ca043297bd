"""What is exact in the state is shown exactly by every question of `moneystate ask`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import moneystate as ms
from moneystate.cli import ask as asking
from moneystate.cli.checkpoint_view import print_key
from moneystate.records import exact_json
from moneystate.runtime.state_model import ServiceState
from moneystate.testing import Bench
from tests.query.in_memory import Served

EXACT, NOTE = "1234567890123456.7891", '{"f":1.10,"n":9007199254740993,"s":-0,"x":1e400}'
LATER, LATER_NOTE = "1234567890123456.7892", '{"f":1.1,"n":9007199254740993,"s":-0,"x":1e400}'


@dataclass(frozen=True)
class Booked:
    account: str
    amount: ms.Decimal
    note: ms.Json
    time: ms.Millis


@dataclass
class Account:
    amount: ms.Decimal = ms.Decimal(0)  # noqa: RUF009
    note: ms.Json = field(default_factory=lambda: ms.Json("null"))
    flag: ms.Json = field(default_factory=lambda: ms.Json("1"))


service = ms.Service("book", rules=None)
booked = service.input("booked", Booked, key="account", time="time", format="json")
account = service.value("account", Account)
lines = service.map("lines", Account)
by_amount = service.index("by_amount", account, lambda a: "all")


@service.on(booked, account, lines)
def book(ctx: ms.Context[None], e: Booked, a: Account, lines: ms.Entries[Account]) -> None:
    a.amount, a.note = e.amount, e.note
    a.flag = ms.Json("true") if e.time > 1 else ms.Json("1")
    lines.put(str(e.time), Account(e.amount, e.note))


@service.query
def over(view: ms.View, amount: ms.Decimal) -> list[Account]:
    return [a for _, a in view.find(by_amount, "all") if a.amount > amount]


@pytest.fixture
def served() -> Iterator[Served]:
    bench = Bench(service, bound_ms=0)
    bench.send(Booked("a", ms.Decimal(EXACT), ms.Json(NOTE), 1))
    with Served(bench) as one:
        bench.send(Booked("a", ms.Decimal(LATER), ms.Json(LATER_NOTE), 2))
        one.update()
        yield one


def asked(served: Served, capsys: pytest.CaptureFixture[str], *words: str, **flags: Any) -> str:
    question, *arguments = words
    asking.ask(served, asking.QuestionFlags(**flags), "book", question, arguments)  # type: ignore[arg-type]
    return capsys.readouterr().out


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("json_lines", [False, True], ids=["table", "json"])
@pytest.mark.parametrize(
    "words",
    [("get", "a"), ("list", "account"), ("list", "by_amount"), ("entries", "lines", "a"), ("over", EXACT)],
    ids=lambda words: words[0],
)
def test_numbers_are_those_of_the_state(
    served: Served, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], json_lines: bool
) -> None:
    out = asked(served, capsys, *words, json=json_lines)
    assert LATER in out
    assert LATER_NOTE in squeezed(out)


@pytest.mark.parametrize("json_lines", [False, True], ids=["table", "json"])
@pytest.mark.parametrize("words", [("diff",), ("explain", "account", "a")], ids=lambda words: words[0])
def test_both_sides_of_a_change_are_those_of_the_state(
    served: Served, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], json_lines: bool
) -> None:
    out = asked(served, capsys, *words, json=json_lines, **({"since": "e/0"} if words == ("diff",) else {}))
    for number in (EXACT, LATER):
        assert number in out
    for note in (NOTE, LATER_NOTE):
        assert note in squeezed(out).replace("\\", "")


def test_values_that_python_takes_for_equal_are_a_difference(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [line.split() for line in asked(served, capsys, "diff", since="e/0").splitlines()]
    assert ["account", "a", "flag", "1", "true"] in rows
    assert [row[2] for row in rows if row[:2] == ["account", "a"]] == ["amount", "note", "flag"]


def test_an_argument_is_the_number_that_was_written(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(served, capsys, "over", LATER, json=True).strip() == "[]"
    assert len(json.loads(asked(served, capsys, "over", f"amount={EXACT}", json=True))) == 1


def test_a_checkpoint_shows_the_numbers_of_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(service, bound_ms=0)
    bench.send(Booked("a", ms.Decimal(EXACT), ms.Json(NOTE), 1))
    state = ServiceState("tests.query.test_exact_answers:service")
    row = state.view([entry for entry in bench.entries() if state.owner_of(entry[0]) == b"a"], 1, {})
    event = bench.plan.codecs[Booked].encode(Booked("a", ms.Decimal(EXACT), ms.Json(NOTE), 1))
    row = {"state": row, "buffered": [{"event": state.event_view(event)}], "timers": []}
    printed = exact_json.dumps(row)
    assert printed.count(EXACT) == 3
    assert squeezed(printed).count(NOTE) == 3
    print_key({"key": "a", "watermark": None, **row})
    shown = capsys.readouterr().out
    assert shown.count(EXACT) == 3
    assert squeezed(shown).count(NOTE) == 3

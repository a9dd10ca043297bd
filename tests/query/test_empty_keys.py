"""The empty text is a key, an id and an index value like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.cli import ask as asking
from moneystate.runtime.state_model import ServiceState
from moneystate.savepoint.view import owner_view
from moneystate.serving.failures import Failure
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.query.in_memory import Served


@dataclass(frozen=True)
class Counted:
    key: str
    id: str
    time: ms.Millis


@dataclass(frozen=True)
class Paired:
    one: str
    other: str
    time: ms.Millis


@dataclass
class Count:
    n: int = 0
    text: str = ""


service = ms.Service("empties")
counted = service.input("counted", Counted, key="key", time="time")
paired = service.input("paired", Paired, key=("one", "other"), time="time")
count = service.value("count", Count)
counts = service.map("counts", Count)
by_text = service.index("by_text", counts, lambda c: c.text)
by_both = service.index("by_both", counts, lambda c: (c.text, c.text))
reminder = service.timer("reminder", of=counts)


@service.on(counted, count, counts)
def take(ctx: ms.Context[None], e: Counted, c: Count, counts: ms.Entries[Count]) -> None:
    c.n += 1
    counts.put(e.id, Count(c.n, e.id))
    ctx.at(reminder, e.time + 1_000, e.id)


@service.on(paired, count)
def pair(ctx: ms.Context[None], e: Paired, c: Count) -> None:
    c.n += 1


@service.on(reminder, counts)
def remind(ctx: ms.Context[None], id: str, counts: ms.Entries[Count]) -> None: ...


@service.query
def of_key(view: ms.View, key: str, id: str) -> int:
    entry = view.entry(counts, key, id)
    return 0 if entry is None else entry.n


def bench() -> Bench:
    made = Bench(service, bound_ms=0)
    made.send(Counted("", "", 1), Counted("", "x", 2), Counted("a", "", 3), Paired("", "", 4), Paired("", "b", 5))
    return made


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    one = Bench(service, bound_ms=0)
    one.send(Counted("z", "z", 0))
    with Served(one) as there:
        there.bench = bench()
        there.update()
        yield there


def named(state: str, key: str, id: str = "") -> s.RecordName:
    return s.RecordName(state=state, key=key, id=id)


def record(served: Served, state: str, key: str, id: str = "") -> Any:
    (one,) = served.call("Get", s.GetRequest(name=named(state, key, id))).records
    return json.loads(one.json)["n"]


def test_get_and_batch_get(served: Served) -> None:
    assert [record(served, "count", key) for key in ("", "a")] == [2, 1]
    assert [record(served, "counts", *name) for name in (("", ""), ("", "x"), ("a", ""))] == [1, 2, 1]
    names = [named("count", ""), named("counts", "", ""), named("counts", "a", "")]
    answer = served.call("BatchGet", s.BatchGetRequest(names=names))
    assert [json.loads(r.json)["n"] for r in answer.records] == [2, 1, 1]
    whole = served.call("Get", s.GetRequest(name=s.RecordName(key="")))
    assert ([r.name.state for r in whole.records], list(whole.maps)) == (["count"], ["counts"])


def test_a_composite_key_of_empty_parts(served: Served) -> None:
    listed = served.call("List", s.ListRequest(state="count")).records
    keys = [r.name.key for r in listed]
    assert len(keys) == len(set(keys)) == 4
    for key in keys:
        assert record(served, "count", key) >= 1


def test_listings(served: Served) -> None:
    entries = served.call("ListEntries", s.ListEntriesRequest(map="counts", key="")).records
    assert [r.name.id for r in entries] == ["", "x"]
    empty = s.IndexValue(parts=[s.Part(text="")])
    for index, value in (("by_text", empty), ("by_both", s.IndexValue(parts=[s.Part(text=""), s.Part(text="")]))):
        matches = served.call("List", s.ListRequest(index=index, equals=value)).records
        assert [(r.name.key, r.name.id) for r in matches] == [("", ""), ("a", "")]
    first = served.call("List", s.ListRequest(state="counts", page_size=1))
    assert [(r.name.key, r.name.id) for r in first.records] == [("", "")]
    rest = served.call("List", s.ListRequest(state="counts", page_token=first.next_page_token)).records
    assert [(r.name.key, r.name.id) for r in rest] == [("", "x"), ("a", "")]


def test_history_and_timers(served: Served) -> None:
    answer = served.call("Explain", s.ExplainRequest(name=named("counts", "", "")))
    assert json.loads(answer.steps[0].record.json)["n"] == 1
    assert [timer.id for timer in answer.timers] == ["", "x"]


def test_a_watch_of_the_empty_key_is_not_one_of_all(served: Served) -> None:
    def keys(key: str | None) -> set[str]:
        return {r.name.key for answer in served.watched(after=0, key=key) for r in answer.changes}

    assert keys("") == {""}
    assert keys("a") == {"a"}
    assert {"", "a"} < keys(None)


def test_calls_and_the_command_line(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = served
    flags = asking.QuestionFlags(json=True)
    for words in (["of_key", "", ""], ["of_key", "key=", "id="], ["call", "of_key", "", ""]):
        asking.ask(client, flags, "empties", words[0], words[1:])
    for verb, *more in (["get", "", "counts", ""], ["list", "by_text", ""], ["entries", "counts", ""]):
        asking.ask(client, flags, "empties", verb, more)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == [1, 1, 1]
    assert {line["key"] for line in lines[3:]} == {"", "a"}


def test_a_checkpoint_shows_the_empty_key() -> None:
    state = ServiceState("tests.query.test_empty_keys:service")
    shown = owner_view(state, b"", bench().entries(), {})
    assert shown is not None
    assert [row["id"] for row in shown["state"]["counts"]] == ["", "x"]
    assert shown["state"]["count"] == [{"n": 2, "text": ""}]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (named("count", "nobody"), "NOT_FOUND"),
        (named("counts", "nobody"), "NOT_FOUND"),
        (named("count", "a", "x"), "MALFORMED"),
        (named("", "a", "x"), "MALFORMED"),
        (named("count", "x" * 70_000), "MALFORMED"),
    ],
    ids=lambda value: str(value)[:30].replace("\n", " "),
)
def test_what_is_not_there_or_not_named_is_an_error(served: Served, name: s.RecordName, reason: str) -> None:
    with pytest.raises(Failure) as refused:
        served.call("Get", s.GetRequest(name=name))
    assert refused.value.reason == reason

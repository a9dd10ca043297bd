"""Clients with default options read every answer: none has more than 4 MiB, and what cannot fit is an error by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.serving.calls import MAX_ANSWER_BYTES
from moneystate.serving.failures import Failure
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.query.in_memory import Served

SINCE: dict[str, Any] = {"from": {"version": {"epoch": "e", "batch": 0}}}
DEFAULT_BYTES = 4 << 20  # what clients of gRPC accept
LARGE, KEYS, HUGE = 700_000, 12, 4_100_000


@dataclass(frozen=True)
class Put:
    key: str
    id: str
    size: int
    time: ms.Millis


@dataclass
class Text:
    text: str = ""
    time: int = 0


service = ms.Service("texts")
service.holding(64)
put = service.input("put", Put, key="key", time="time")
text = service.value("text", Text)
texts = service.map("texts", Text)
by_size = service.index("by_size", texts, lambda t: len(t.text))


@service.on(put, text, texts)
def take(ctx: ms.Context[None], e: Put, t: Text, texts: ms.Entries[Text]) -> None:
    if e.id:
        texts.put(e.id, Text("x" * e.size, e.time))
    else:
        t.text, t.time = "x" * e.size, e.time


@service.query
def whole(view: ms.View, key: str) -> str:
    return view.get(text, key).text


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Ten megabytes under each of a few ways to ask; one key has a record that no answer holds."""
    bench = Bench(service, bound_ms=0)
    bench.send(Put("a", "", 1, 1))
    with Served(bench) as one:
        for n in range(KEYS):
            bench.send(Put(f"k{n:02d}", "", LARGE, 2 + n))
            bench.send(Put("a", f"i{n:02d}", LARGE, 2 + n))
        one.update()
        for n in range(KEYS):
            bench.send(Put("a", "", LARGE, 100 + n))
            one.update()
        yield one


@pytest.fixture(scope="module")
def huge() -> Iterator[Served]:
    bench = Bench(service, bound_ms=0)
    bench.send(Put("a", "", 1, 1), Put("z", "", 1, 1), Put("m", "", 1, 1))
    with Served(bench) as one:
        bench.send(Put("m", "", HUGE, 2), Put("m", "i", HUGE, 2))
        one.update()
        yield one


def pages(served: Served, name: str, request: Any, items: str) -> list[Any]:
    listed: list[Any] = []
    while True:
        answer = served.call(name, request)
        assert answer.ByteSize() <= MAX_ANSWER_BYTES < DEFAULT_BYTES
        listed += getattr(answer, items)
        if not answer.next_page_token:
            return listed
        request.page_token = answer.next_page_token


@pytest.mark.parametrize(
    ("name", "request_", "items"),
    [
        ("List", s.ListRequest(state="text", keys=s.KeyRange(prefix="k")), "records"),
        ("List", s.ListRequest(state="texts"), "records"),
        ("List", s.ListRequest(index="by_size"), "records"),
        ("ListEntries", s.ListEntriesRequest(map="texts", key="a"), "records"),
    ],
    ids=["values", "map", "index", "entries"],
)
def test_pages_are_cut_and_have_everything(served: Served, name: str, request_: Any, items: str) -> None:
    assert len({(r.name.key, r.name.id) for r in pages(served, name, request_, items)}) == KEYS


def test_pages_of_differences_are_cut(served: Served) -> None:
    request = s.DiffRequest(**SINCE)
    assert len(pages(served, "Diff", request, "changes")) == 2 * KEYS + 1


def test_a_batch_is_cut_and_says_what_is_missing(served: Served) -> None:
    names = [s.RecordName(state="text", key=f"k{n:02d}") for n in range(KEYS)]
    answered = 0
    while names:
        answer = served.call("BatchGet", s.BatchGetRequest(names=names))
        assert answer.ByteSize() <= MAX_ANSWER_BYTES
        assert answer.records
        answered += len(answer.records)
        names = list(answer.unanswered)
    assert answered == KEYS


def test_messages_of_a_watch_are_cut(served: Served) -> None:
    answers = served.watched(after=0)
    assert all(answer.ByteSize() <= MAX_ANSWER_BYTES for answer in answers)
    assert len({(r.name.key, r.name.id) for answer in answers for r in answer.changes}) == 2 * KEYS + 1


def test_an_explanation_is_cut_and_says_so(served: Served) -> None:
    answer = served.call("Explain", s.ExplainRequest(name=s.RecordName(state="text", key="a")))
    assert answer.ByteSize() <= MAX_ANSWER_BYTES
    assert answer.more
    before = answer.steps[-1].header.version
    earlier = served.call("Explain", s.ExplainRequest(name=s.RecordName(state="text", key="a"), at={"version": before}))
    assert earlier.steps[0].header.version == before
    assert len(earlier.steps) > 1


@pytest.mark.parametrize(
    ("name", "request_", "title"),
    [
        ("Get", s.GetRequest(name=s.RecordName(state="text", key="m")), "text m"),
        ("BatchGet", s.BatchGetRequest(names=[s.RecordName(state="text", key="m")]), "text m"),
        ("List", s.ListRequest(state="text", keys=s.KeyRange(start="m")), "text m"),
        ("ListEntries", s.ListEntriesRequest(map="texts", key="m"), "texts m i"),
        ("Diff", s.DiffRequest(**SINCE), "texts m i"),
        ("Explain", s.ExplainRequest(name=s.RecordName(state="text", key="m")), "text m"),
        ("Call", s.CallRequest(query="whole", arguments='{"key": "m"}'), "the result of whole"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_that_no_answer_holds_is_an_error_that_names_it(
    huge: Served, name: str, request_: Any, title: str
) -> None:
    with pytest.raises(Failure) as refused:
        huge.call(name, request_)
    assert refused.value.reason == "TOO_BIG"
    assert refused.value.message.startswith(f"{title}: expected at most {MAX_ANSWER_BYTES:,} bytes, found 4,1")


def test_a_watch_of_a_record_that_no_answer_holds_ends_with_its_name(huge: Served) -> None:
    with pytest.raises(Failure, match=r"texts? m.*: expected at most") as refused:
        huge.watched(after=0)
    assert refused.value.reason == "TOO_BIG"


def test_what_comes_before_and_after_it_can_be_read(huge: Served) -> None:
    before = huge.call("List", s.ListRequest(state="text", keys=s.KeyRange(end="m")))
    after = huge.call("List", s.ListRequest(state="text", keys=s.KeyRange(start="n")))
    assert [r.name.key for r in [*before.records, *after.records]] == ["a", "z"]

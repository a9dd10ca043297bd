"""No answer of `moneystate.state.v1` has a personal value for callers who may not read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

import moneystate as ms
from moneystate.serving.failures import Failure
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.query.in_memory import Served

Email = Annotated[str, ms.personal]
SECRET = "eve@x.org"


@dataclass
class Contact:
    kind: str = ""
    mail: Email = ""


@dataclass(frozen=True)
class Set:
    id: str
    mail: str
    time: ms.Millis


@dataclass
class Person:
    mail: Email = ""
    mails: list[Email] = field(default_factory=list)
    by_kind: dict[str, Email] = field(default_factory=dict)
    old: list[Email] | None = None
    lists: list[list[Email]] = field(default_factory=list)
    perhaps: list[Email | None] = field(default_factory=list)
    contact: Contact | None = None
    contacts: dict[str, list[Contact]] = field(default_factory=dict)
    whole: list[Annotated[Contact, ms.personal]] = field(default_factory=list)
    n: int = 0


service = ms.Service("people")
given = service.input("given", Set, key="id", time="time")
person = service.value("person", Person)
others = service.map("others", Person)
by_n = service.index("by_n", person, lambda p: p.n)
by_mails = service.index("by_mails", person, lambda p: p.mails)


@service.on(given, person, others)
def give(ctx: ms.Context[None], e: Set, p: Person, others: ms.Entries[Person]) -> None:
    made = Person(
        e.mail, [e.mail], {"home": e.mail}, [e.mail], [[e.mail]], [e.mail, None], Contact("k", e.mail),
        {"k": [Contact("k", e.mail)]}, [Contact("k", e.mail)], e.time,
    )  # fmt: skip
    vars(p).update(vars(made))
    others.put("other", made)


@service.query
def numbered(view: ms.View, n: int) -> list[Person]:
    return [p for _, p in view.find(by_n, n)]


@service.query
def with_mail(view: ms.View, mail: str) -> list[Person]:
    return [p for _, p in view.find(by_mails, mail)]


NAMED = s.RecordName(state="person", key="a")
SINCE: dict[str, Any] = {"from": {"version": {"epoch": "e", "batch": 0}}}
CALLS: list[tuple[str, Any]] = [
    ("Get", s.GetRequest(name=NAMED)),
    ("Get", s.GetRequest(name=NAMED, encoding=s.ENCODING_AVRO)),
    ("Get", s.GetRequest(name=s.RecordName(key="a"))),
    ("BatchGet", s.BatchGetRequest(names=[NAMED])),
    ("List", s.ListRequest(state="person")),
    ("List", s.ListRequest(index="by_n")),
    ("ListEntries", s.ListEntriesRequest(map="others", key="a")),
    ("Diff", s.DiffRequest(**SINCE)),
    ("Explain", s.ExplainRequest(name=NAMED)),
    ("Call", s.CallRequest(query="numbered", arguments='{"n": 2}')),
]
PATHS = [
    "mail", "mails[]", "byKind[]", "old[]", "lists[][]", "perhaps[]", "contact.mail", "contacts[][].mail", "whole[]",
]  # fmt: skip


def served(*, personal: bool) -> Served:
    bench = Bench(service, bound_ms=0)
    bench.send(Set("a", f"old {SECRET}", 1))
    one = Served(bench, personal=personal)
    bench.send(Set("a", SECRET, 2))
    one.update()
    return one


@pytest.fixture(scope="module")
def stranger() -> Iterator[Served]:
    with served(personal=False) as one:
        yield one


@pytest.fixture(scope="module")
def trusted() -> Iterator[Served]:
    with served(personal=True) as one:
        yield one


@pytest.mark.parametrize(("name", "request_"), CALLS, ids=[f"{n}-{name}" for n, (name, _) in enumerate(CALLS)])
def test_personal_values_are_masked_where_they_are(stranger: Served, trusted: Served, name: str, request_: Any) -> None:
    assert SECRET.encode() in trusted.call(name, request_).SerializeToString()
    answer = stranger.call(name, request_)
    assert SECRET.encode() not in answer.SerializeToString()
    assert PATHS[-1].encode() in answer.SerializeToString()


def test_a_watch_is_masked(stranger: Served, trusted: Served) -> None:
    assert SECRET in str(trusted.watched(after=0))
    assert SECRET not in str(stranger.watched(after=0))


def test_what_is_not_personal_stays(stranger: Served) -> None:
    (record,) = stranger.call("Get", s.GetRequest(name=NAMED)).records
    assert list(record.masked) == PATHS
    assert json.loads(record.json) == {
        "type": "Person", "mail": "", "mails": [""], "byKind": {"home": ""}, "old": [""], "lists": [[""]],
        "perhaps": [None, None], "contact": {"kind": "k", "mail": ""}, "contacts": {"k": [{"kind": "k", "mail": ""}]},
        "whole": [{"kind": "", "mail": ""}], "n": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("List", s.ListRequest(index="by_mails")),
        ("Call", s.CallRequest(query="with_mail", arguments=f'{{"mail": "{SECRET}"}}')),
    ],
    ids=["index", "query"],
)
def test_neither_order_nor_existence_tells_a_personal_value(
    stranger: Served, trusted: Served, name: str, request_: Any
) -> None:
    assert SECRET in str(trusted.call(name, request_))
    with pytest.raises(Failure) as refused:
        stranger.call(name, request_)
    assert (refused.value.reason, SECRET in refused.value.message) == ("SCOPE_MISSING", False)


def test_the_schema_marks_items_and_says_what_needs_the_scope(stranger: Served) -> None:
    schema = stranger.call("GetSchema", s.GetSchemaRequest())
    assert {index.name: index.personal for index in schema.indices} == {"by_n": False, "by_mails": True}
    assert {query.name: query.personal for query in schema.queries} == {"numbered": False, "with_mail": True}
    fields = {f["name"]: f for f in json.loads(schema.states[0].record.avro)["fields"]}
    assert fields["mails"]["type"] == {"type": "array", "items": "string", "personal": True}
    assert fields["byKind"]["type"] == {"type": "map", "values": "string", "personal": True}
    assert "personal" not in fields["mails"]


def test_the_audit_names_what_a_trusted_caller_read(trusted: Served) -> None:
    trusted.call("Call", s.CallRequest(query="with_mail", arguments=f'{{"mail": "{SECRET}"}}'))
    assert trusted.calls[-1].touched == ["query with_mail"]
    trusted.call("List", s.ListRequest(index="by_mails"))
    assert trusted.calls[-1].touched == ["a"]

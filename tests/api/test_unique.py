"""`unique` drops repetitions within its time, whatever the ids, their number and the batches. Its ids are packed in
pages, which follow the number of the ids."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moneystate as ms
from moneystate.engine.items import NO_TIME
from moneystate.job.state_checks import unreadable
from moneystate.ports.service import STATE_SCHEMAS, TOPICS, UNIQUE_STATE
from moneystate.runtime import layout
from moneystate.runtime.job import job_spec
from moneystate.runtime.seen_page import EMPTY, MOST_TEXT, id_text, pack_id
from moneystate.runtime.state_model import ServiceState
from moneystate.testing import Bench
from tests.api.handover import handed_over, stored
from tests.budget import examples

S = 1_000
MANY = 1_000  # ids of one key: several pages


@dataclass(frozen=True)
class Paid:
    key: str
    id: str
    at: ms.Millis


@dataclass(frozen=True)
class Rules:
    within_ms: int = 10 * S


def within(rules: Rules) -> int:
    return rules.within_ms


def made(rules: Rules | None = None) -> ms.Service[Rules]:
    """A service that forgets a key, or rejects a record, where the id says so."""
    service = ms.Service("paying", rules=rules or Rules())
    paid = service.input("paid", Paid, key="key", time="at", unique="id", within_ms=within)
    out = service.output("out", Paid, key="key")

    @service.on(paid)
    def pay(ctx: ms.Context[Rules], e: Paid) -> None:
        if e.id.startswith("reject"):
            raise ms.Reject("rejected")
        if e.id.startswith("forget"):
            ctx.forget()
        ctx.emit(out, e)

    return service


service = made()
REFERENCE = f"{__name__}:service"


def expected(events: list[Paid], within_ms: int) -> list[Paid]:
    seen: dict[tuple[str, str], int] = {}
    new = []
    for e in events:
        if e.at < seen.get((e.key, e.id), NO_TIME) + within_ms:
            continue
        seen[e.key, e.id] = e.at
        new.append(e)
    return new


def told(bench: Bench) -> list[Paid]:
    (out,) = bench.service.outputs
    return bench.out(out)


def entries(bench: Bench) -> int:
    return len(stored(bench, b"u"))


events = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 4 * S)), max_size=40)


@settings(max_examples=examples(150), deadline=None)
@given(events, st.sampled_from([1, 3 * S, 20 * S]))
def test_what_repeats_an_id_within_the_time_is_dropped(steps: list[tuple[str, int, int]], within_ms: int) -> None:
    time_ms, sent = S, []
    for key, id, pause_ms in steps:
        time_ms += pause_ms
        sent.append(Paid(key, str(id), time_ms))
    bench = Bench(made(Rules(within_ms)), bound_ms=0, key_groups=1)
    bench.send(*sent)
    assert sorted(told(bench), key=lambda e: e.at) == expected(sent, within_ms)
    bench.end()
    assert entries(bench) == 0


def many(key: str = "a", seed: int = 1, step_ms: int = 5) -> list[Paid]:
    """Many ids, some of them twice."""
    chance = random.Random(seed)
    return [Paid(key, f"id {chance.randrange(MANY)}", S + n * step_ms) for n in range(MANY)]


def test_many_ids_of_a_key_are_in_pages_until_they_expire() -> None:
    sent = many()
    bench = Bench(made(), bound_ms=0)
    bench.send(*sent, Paid("b", "1", S + 5 * MANY))
    assert told(bench) == [*expected(sent, 10 * S), Paid("b", "1", S + 5 * MANY)]
    sizes = [len(value) for value in stored(bench, b"u").values()]
    assert len(sizes) > 4
    assert max(sizes) < 128 * 32
    bench.send(Paid("a", "last", 60 * S))
    told(bench)
    assert entries(bench) == 1
    bench.end()
    assert entries(bench) == 0


def test_a_hundred_ids_are_one_entry() -> None:
    bench = Bench(made(), bound_ms=0)
    bench.send(*[Paid("a", str(uuid.UUID(int=n)), S + n) for n in range(100)])
    told(bench)
    assert entries(bench) == 1


def test_the_id_of_a_rejected_record_is_not_seen_also_where_its_pages_were_split() -> None:
    sent = [e for n, one in enumerate(many()) for e in (one, Paid("a", f"reject {n}", one.at))]
    bench = Bench(made(), bound_ms=0)
    bench.send(*sent)
    assert told(bench) == expected(many(), 10 * S)
    assert bench.dead_letters() == ["rejected"] * MANY


def test_forgetting_a_key_forgets_all_pages() -> None:
    bench = Bench(made(), bound_ms=0)
    bench.send(*many(), *many("b"), Paid("a", "forget", 7 * S))
    told(bench)
    assert {layout.owner_of(key) for key in stored(bench, b"u")} == {b"b"}


@pytest.mark.parametrize("then_ms", [2 * S, 40 * S])
def test_the_time_may_be_changed_by_a_rule(then_ms: int) -> None:
    before = Bench(made(), bound_ms=0, key_groups=1)
    before.send(Paid("a", "1", S))
    after = handed_over(before, made(Rules(then_ms)), bound_ms=0)
    again = [Paid("a", "1", 4 * S), Paid("a", "1", 5 * S)]
    after.send(*again)
    assert told(after) == (again[:1] if then_ms < 3 * S else [])
    after.send(Paid("b", "1", 200 * S))
    told(after)
    assert {layout.owner_of(key) for key in stored(after, b"u")} == {b"b"}


def test_facts_are_ids_and_not_pages() -> None:
    sent = many()
    bench = Bench(made(), bound_ms=0)
    bench.send(*sent)
    assert told(bench)
    state = ServiceState(REFERENCE, bench.plan.codes)
    facts = [f for key, value in stored(bench, b"u").items() for f in state.facts(key, value, 6 * S, {})]
    assert {(f.key, *f.id, *f.content) for f in facts} == {
        (b"a", e.id.encode(), e.at) for e in expected(sent, 10 * S) if e.at + 10 * S > 6 * S
    }
    rows = state.view(stored(bench, b"u").items(), 6 * S, {})["seen-ids"]
    assert len(rows) == len(facts)
    assert rows[0]["topic"] == "paid"


@given(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), st.uuids().map(str)))
def test_an_id_is_packed_without_a_loss_or_as_a_digest(text: str) -> None:
    packed = pack_id(text.encode())
    page = EMPTY.with_id(pack_id(b"other"), 1).with_id(packed, 2).with_id(pack_id(b""), 3)
    if len(text.encode()) > MOST_TEXT:
        assert id_text(packed).startswith("sha256:")
        assert len(packed) == 34
    else:
        assert id_text(packed) == text
    if text not in ("other", ""):
        assert page.seen_at(packed) == 2
    assert page.seen_at(pack_id(text.encode() + b"!")) == NO_TIME
    assert page.after(2).seen_at(pack_id(b"other")) == NO_TIME


@pytest.mark.parametrize(
    "text", [str(uuid.UUID(int=0xAB << 90)).upper(), "0" * 36, "é" * 18, "0000000g-0000-0000-0000-000000000000"]
)
def test_what_only_looks_like_a_uuid_stays_text(text: str) -> None:
    assert id_text(pack_id(text.encode())) == text
    assert len(pack_id(text.encode())) == 37


def test_a_checkpoint_with_ids_of_an_earlier_program_is_refused() -> None:
    spec = job_spec(REFERENCE, {})
    assert unreadable(spec, spec.rules) == []
    earlier = {name: its for name, its in spec.rules[STATE_SCHEMAS].items() if not name.startswith(UNIQUE_STATE)}
    (refused,) = unreadable(spec, {**spec.rules, STATE_SCHEMAS: earlier})
    assert refused.state == "unique paid"
    assert unreadable(spec, {**spec.rules, STATE_SCHEMAS: earlier, TOPICS: {}}) == []

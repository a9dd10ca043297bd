"""The enrichment as a plain service gives what the reference model gives, whatever the batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine.processor import Rejected
from moneystate.runtime import layout
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from moneystate.testing.simulation import Simulation
from services.enrichment import fingerprints as fp
from services.enrichment import service as enrichment
from services.enrichment.records import (
    ForgetUserRequested,
    KnownSession,
    PaymentEvent,
    SessionInfo,
    UserSessionCreatedEvent,
)
from tests.budget import examples
from tests.enrichment.harness import PLAIN_CODES, cut, dead_letters, inputs, plain_leftovers, plain_simulation
from tests.enrichment.test_equals_model import any_cuts
from tests.reference import model
from tests.reference.codec import encode
from tests.reference.strategies import Case, cases

PAYMENT = {
    "id": "m1", "userId": "ann", "userSessionId": None, "processedAt": 0, "amount": b"\x01", "currency": "EUR",
    "openingBalance": b"\x01", "closingBalance": b"\x01", "moneyType": "AAA", "paymentRelatedThing": "x",
    "isOldMoneyEvent": False,
}  # fmt: skip
MANY = settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))


def without_lookups(case: Case) -> Case:
    return case._replace(rules=replace(case.rules, lookup=False), replies=[])


def run_case(case: Case, seed: int, ends: list[int], drain: bool, key_groups: int = 4) -> Simulation:
    of_replies = {(r.topic, r.partition) for r in case.replies}
    sim = plain_simulation(case.rules, [*case.partitions, *sorted(of_replies)], key_groups)
    records = inputs(interleaved(case.records + case.replies, seed), PLAIN_CODES)
    for batch in cut(records, [end % (len(records) + 1) for end in ends]):
        sim.batch(batch)
    if drain:
        sim.batch([], drain=True)
    return sim


def interleaved(records: list[model.LogRecord], seed: int) -> list[model.LogRecord]:
    """Partitions in their own order, mixed at random."""
    queues: dict[model.Partition, list[model.LogRecord]] = {}
    for record in records:
        queues.setdefault((record.topic, record.partition), []).append(record)
    chance = random.Random(seed)
    mixed = []
    while queues:
        place = chance.choice(sorted(queues))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def requests_of(sim: Simulation) -> list[bytes]:
    return sorted(value or b"" for stream, _, value, _ in sim.outputs if stream == 1)


def by_user(sim: Simulation) -> dict[bytes, list[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for stream, key, value, _ in sim.outputs:
        if stream == 0:
            values.setdefault(key or b"", []).append(value or b"")
    return values


def reasons(letters: Iterable[Any]) -> Counter[tuple[str, int, int, str]]:
    return Counter(letters)


@MANY
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_any_batches_give_the_models_records(case: Case, seed: int, ends: list[int], drain: bool) -> None:
    case = without_lookups(case)
    sim, want = run_case(case, seed, ends, drain), model.run(case.records, case.partitions, case.rules, drain)
    expected: dict[bytes, list[bytes]] = {}
    for out in want.enriched:
        expected.setdefault(out.user_id.encode(), []).append(out.encoded)
    assert by_user(sim) == expected
    assert reasons(letters_of(sim).elements()) == reasons(want.dead_letters)
    assert sim.counts.get("duplicates", 0) == want.duplicates
    assert sim.buffered == want.buffered


@MANY
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_any_batches_with_replies_anywhere_give_the_models_records(
    case: Case, seed: int, ends: list[int], drain: bool
) -> None:
    case = case._replace(rules=replace(case.rules, lookup=True))
    sim, want = (
        run_case(case, seed, ends, drain),
        model.run(case.records, case.partitions, case.rules, drain, case.replies),
    )
    expected: dict[bytes, Counter[bytes]] = {}
    for out in want.enriched:
        expected.setdefault(out.user_id.encode(), Counter())[out.encoded] += 1
    assert {user: Counter(values) for user, values in by_user(sim).items()} == expected
    assert requests_of(sim) == sorted(encode("SessionLookupRequested", r) for r in want.requests)
    assert reasons(letters_of(sim).elements()) == reasons(want.dead_letters)
    counts = {name: sim.counts.get(name, 0) for name in ("waiting", "looking_up", "duplicates")}
    assert counts == {"waiting": want.waiting, "looking_up": want.looking_up, "duplicates": want.duplicates}


def letters_of(sim: Simulation) -> Counter[tuple[str, int, int, str]]:
    stream = sim.dead_letter_stream
    sim.outputs = [(2 if s == stream else s, k, v, h) for s, k, v, h in sim.outputs]
    return dead_letters(sim)


@MANY
@given(cases(least_ms=1), any_cuts)
def test_after_a_drain_nothing_is_left_but_users_and_open_lookups(case: Case, ends: list[int]) -> None:
    case = case._replace(rules=replace(case.rules, lookup=True))
    sim = run_case(case, 0, ends, True)
    left = plain_leftovers(sim)
    assert left.pop("lookups", 0) == sim.counts.get("looking_up", 0)
    assert left == {}


def test_its_records_are_those_of_the_schemas() -> None:
    plan = Plan(enrichment.service)
    headers = {input.codec.header for inputs in plan.inputs.values() for input in inputs.values()}
    assert {fp.PAYMENT_EVENT, fp.TRANSACTION_EVENT, fp.USER_SESSION_CREATED_EVENT, fp.FORGET_USER_REQUESTED} < headers
    assert plan.outputs[enrichment.enriched].codec.header == fp.MONEY_ENRICHED
    assert plan.heartbeat.header == fp.HEARTBEAT


def payment(user: str, at: int, session: str | None, id: str = "m1", old: bool = False) -> PaymentEvent:
    return PaymentEvent(id, user, session, at, b"\x01", "EUR", b"", b"", "AAA", "thing", old)


def test_money_that_waits_can_be_asked_for_oldest_first() -> None:
    bench = Bench(enrichment.service, rules=enrichment.Rules(session_lookup="topic"), bound_ms=0)
    bench.send(payment("bob", 1_000, "s2", old=True), payment("ann", 2_000, "s1"), payment("ann", 3_000, None, id="m2"))
    pending = bench.ask(enrichment.pending)
    assert [(p.user_id, p.money_id, p.since, p.requested_at, p.reason) for p in pending] == [
        ("bob", "m1", 1_000, 1_000, "OLD"), ("ann", "m1", 2_000, None, None),
    ]  # fmt: skip
    assert bench.ask(enrichment.oldest_wait) == 1_000
    assert bench.ask(enrichment.pending_of, "ann") == pending[1:]
    bench.reply(enrichment.lookups, {"clientCountryCode": "UY"})
    assert bench.ask(enrichment.oldest_wait) == 2_000
    bench.send(UserSessionCreatedEvent("s1", "ann", 4_000, "FI"))
    assert bench.ask(enrichment.pending) == []
    assert bench.ask(enrichment.oldest_wait) is None
    assert [(m.session_status, m.session_info) for m in bench.out(enrichment.enriched)] == [
        ("LOOKED_UP", SessionInfo("UY")), ("NO_SESSION", None), ("JOINED", SessionInfo("FI")),
    ]  # fmt: skip
    bench.end()


def test_money_that_waits_is_listed_by_reason_and_in_pages() -> None:
    bench = Bench(enrichment.service, rules=enrichment.Rules(session_lookup="topic"), bound_ms=0)
    for n in range(6):
        bench.send(payment(f"u{5 - n}", 1_000 * (1 + n // 3), f"s{n}", id=f"m{n}", old=n % 2 == 0))
    everything = bench.ask(enrichment.pending)
    assert [p.money_id for p in everything] == [f"m{n}" for n in range(6)]
    for reason, wanted in (("OLD", ["m0", "m2", "m4"]), ("WAITING", ["m1", "m3", "m5"]), ("LATE", [])):
        assert [p.money_id for p in bench.ask(enrichment.pending, reason=reason)] == wanted
    page = bench.ask(enrichment.pending, limit=2)
    while len(page) < 6:
        last = page[-1]
        page += bench.ask(enrichment.pending, limit=2, after_ms=last.since, after_id=last.money_id)
    assert page == everything
    bench.end()


def test_a_session_is_shown_by_its_id_and_personal_fields_are_marked() -> None:
    bench = Bench(enrichment.service, bound_ms=0)
    bench.send(UserSessionCreatedEvent("s1", "ann", 4_000, "FI"))
    ttl_ms = enrichment.Rules().session_ttl_ms
    assert bench.ask(enrichment.session, "s1") == [KnownSession("s1", "ann", "FI", 4_000 + ttl_ms)]
    assert bench.ask(enrichment.session, "s2") == []
    kinds = Plan(enrichment.service).kinds
    assert kinds["sessions"].codec.personal == ("country",)
    assert kinds["user"].codec.personal == ("info.birthYear", "info.residentCountryCode")
    bench.end()


def test_a_forgotten_user_leaves_a_proof_and_open_lookups() -> None:
    bench = Bench(enrichment.service, rules=enrichment.Rules(session_lookup="topic"), bound_ms=0)
    bench.send(payment("ann", 1_000, "s1", old=True), payment("ann", 2_000, "s2", id="m2"))
    bench.send(ForgetUserRequested("r1", "ann", 3_000, "eve"))
    assert [m.session_status for m in bench.out(enrichment.enriched)] == ["LOOKUP_FAILED"]
    proof = bench.state(enrichment.forgotten, "ann")
    assert (proof.at, proof.request_id, proof.requested_by) == (3_000, "r1", "eve")
    assert [p.money_id for p in bench.ask(enrichment.pending_of, "ann")] == ["m1"]
    bench.reply(enrichment.lookups)
    places = [layout.place_of(key) for key, _ in bench.entries()]
    assert [place.name for place in places if place is not None] == ["forgotten"]
    bench.end()


@pytest.mark.parametrize("topic", ["wallet-events", "user-events"])
@pytest.mark.parametrize("name", ["PaymentEvent", "Heartbeat"])
def test_a_wrong_time_takes_precedence_over_bytes_behind_the_body(topic: str, name: str) -> None:
    record = {**PAYMENT, "processedAt": model.LAST_TIME_MS + 1}
    value = encode(name, record if name == "PaymentEvent" else {"processedAt": record["processedAt"]})
    decoder = ServiceDecoder(Plan(enrichment.service))
    for more in (b"", b"\x00"):
        with pytest.raises(Rejected) as refused:
            decoder.decode(PLAIN_CODES[topic], value + more)
        assert refused.value.reason == "malformed"

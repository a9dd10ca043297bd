"""What the enrichment declares: its records, its queries, and what it forgets."""

from __future__ import annotations

import dataclasses

import pytest

from moneystate.engine.processor import Rejected
from moneystate.errors import StepError
from moneystate.runtime import layout
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from services.enrichment import service as enrichment
from services.enrichment.records import (
    ForgetUserRequested,
    KnownSession,
    PaymentEvent,
    SessionInfo,
    SessionLookupCompleted,
    UserSessionCreatedEvent,
)
from tests.enrichment import topics
from tests.reference import model
from tests.reference.codec import HEADER, encode

PAYMENT = {
    "id": "m1", "userId": "ann", "userSessionId": None, "processedAt": 0, "amount": b"\x01", "currency": "EUR",
    "openingBalance": b"\x01", "closingBalance": b"\x01", "moneyType": "AAA", "paymentRelatedThing": "x",
    "isOldMoneyEvent": False,
}  # fmt: skip


def test_its_records_are_those_of_the_schemas() -> None:
    plan = Plan(enrichment.service)
    headers = {input.codec.header for inputs in plan.inputs.values() for input in inputs.values()}
    names = ["PaymentEvent", "TransactionEvent", "UserSessionCreatedEvent", "ForgetUserRequested"]
    assert {HEADER[name] for name in names} < headers
    assert plan.outputs[enrichment.enriched].codec.header == HEADER["MoneyEnriched"]
    assert plan.heartbeat.header == HEADER["Heartbeat"]


def payment(user: str, time_ms: int, session: str | None, id: str = "m1", old: bool = False) -> PaymentEvent:
    return PaymentEvent(id, user, time_ms, b"\x01", "EUR", b"", b"", "AAA", "thing", old, user_session_id=session)


def test_money_that_waits_can_be_asked_for_oldest_first() -> None:
    bench = Bench(enrichment.service, rules=enrichment.Rules(session_lookup="topic"), bound_ms=0)
    bench.send(payment("bob", 1_000, "s2", old=True), payment("ann", 2_000, "s1"), payment("ann", 3_000, None, id="m2"))
    pending = bench.ask(enrichment.pending)
    assert [(p.user_id, p.money_id, p.since, p.requested_at, p.reason) for p in pending] == [
        ("bob", "m1", 1_000, 1_000, "OLD"), ("ann", "m1", 2_000, None, None),
    ]  # fmt: skip
    assert bench.ask(enrichment.oldest_wait) == 1_000
    assert bench.ask(enrichment.pending_of, "ann") == pending[1:]
    assert bench.ask(enrichment.pending_money, "m1") == [pending[1], pending[0]]
    assert bench.ask(enrichment.pending_money, "m2") == []
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
    late = UserSessionCreatedEvent("s2", "ann", 4_000, "FI")
    bench.send(payment("bob", 2_000 + ttl_ms, None), late)
    assert [s.user_id for s in bench.ask(enrichment.session, "s2")] == ["ann"]
    bench.send(payment("bob", 5_000 + ttl_ms, None, id="m2"))
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
            decoder.decode(topics.CODES[topic], value + more)
        assert refused.value.reason == "malformed"


def test_a_number_of_more_than_32_bits_is_not_written_as_int() -> None:
    codec = Plan(enrichment.service).lookups[enrichment.lookups].reply
    reply = SessionLookupCompleted("m", "u", "s", 0, "FAILED", 2**31, 0)
    with pytest.raises(StepError, match="at most 32 bits"):
        codec.encode(reply)
    assert codec.decode(codec.encode(dataclasses.replace(reply, attempts=2**31 - 1))).attempts == 2**31 - 1

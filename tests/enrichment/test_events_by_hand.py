"""Events as the processor takes them apart that is written by hand."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings

from services.enrichment import events, topics
from services.enrichment.source import encode_source
from tests.budget import examples
from tests.enrichment.test_events import (
    MONEY_TYPES,
    SETTINGS,
    WALLET_EVENTS,
    canonical_money,
    encoded,
    mutated,
    number_positions,
    payment,
    verdict_by_hand,
)
from tests.reference import codec


@settings(SETTINGS, max_examples=examples(1_000))
@given(mutated(MONEY_TYPES))
@example(payment(id="x" * 64, userSessionId="", amount=b""))
@example(payment(currency="x" * 64))
@example(payment(moneyType="x" * 64, closingBalance=b"x" * 64))
@example(payment(processedAt=0))
@example(payment()[:-1] + b"\x02")
def test_money_that_is_taken_goes_out_as_the_canonical_bytes_of_its_fields(value: bytes) -> None:
    if verdict_by_hand(WALLET_EVENTS, value)[0] != "taken" or codec.TYPE_OF_HEADER[value[:10]] not in MONEY_TYPES:
        return
    _, fields = codec.decode(value)
    money = events.parse_money(value)
    assert money.body == canonical_money(fields)
    session = fields["userSessionId"]
    assert (money.id, money.money_type, money.old) == (
        fields["id"].encode(),
        fields["moneyType"].encode(),
        fields["isOldMoneyEvent"],
    )
    assert money.session == (None if session is None else session.encode())


@pytest.mark.parametrize("session", [None, "", "s1"])
@pytest.mark.parametrize("number", range(11))
def test_a_padded_number_anywhere_goes_out_as_short_as_can_be(number: int, session: str | None) -> None:
    value = payment(userSessionId=session)
    places = number_positions(value)
    if number >= len(places):
        return
    pos = places[number]
    end = codec.read_number(value, pos, 64)[1]
    padded = value[: end - 1] + bytes([value[end - 1] | 0x80, 0x80, 0]) + value[end:]
    assert codec.decode(padded) == codec.decode(value)
    assert events.decode(topics.WALLET_EVENTS, padded) == events.decode(topics.WALLET_EVENTS, value)
    assert events.parse_money(padded).body == events.parse_money(value).body


PARSED = [
    "UserSessionCreatedEvent", "ChangeAddressEvent", "ChangeBirthDateEvent", "ForgetUserRequested",
    "SessionLookupCompleted",
]  # fmt: skip


@SETTINGS
@given(encoded(PARSED))
def test_the_parts_that_the_step_needs_are_the_references(value: bytes) -> None:
    name, fields = codec.decode(value)
    if name == "UserSessionCreatedEvent":
        assert events.parse_session(value) == (fields["id"].encode(), fields["clientCountryCode"].encode())
    elif name == "ChangeAddressEvent":
        assert events.parse_address(value) == fields["residentCountryCode"].encode()
    elif name == "ChangeBirthDateEvent":
        assert events.parse_birth_date(value) == fields["birthYear"].encode()
    elif name == "ForgetUserRequested":
        assert events.parse_forget(value) == (fields["id"].encode(), fields["requestedBy"].encode())
    else:
        reply, country = events.parse_reply(value, 3, 7), fields["clientCountryCode"]
        assert reply.source == encode_source(0, 3, 7, fields["requestedAt"])
        assert reply.money_id == fields["moneyId"].encode()
        assert (reply.requested_at, ["FOUND", "NOT_FOUND", "FAILED"][reply.outcome]) == (
            fields["requestedAt"],
            fields["outcome"],
        )
        assert reply.country == (None if country is None else country.encode())

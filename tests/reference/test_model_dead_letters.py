"""The reference model's dead letters and codec (docs/model.md sections 2 to 4)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.reference.builder import LogBuilder, asked, ms, reasons
from tests.reference.codec import HEADER, READER
from tests.reference.model import (
    LOOKUP_RESULTS,
    TIMED_TOPICS,
    USER,
    WALLET,
    Rules,
    decode,
    encode,
    from_json,
)
from tests.reference.strategies import DAMAGE

# --- dead letters ---


MALFORMED = [
    "no body",
    "cut",
    "negative length",
    "huge length",
    "not utf-8",
    "length too wide",
    "branch -1",
    "branch 2",
]
UNKNOWN = ["empty", "text", "no magic", "short header", "unknown fingerprint"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("null", "null_value"),
        *((damage, "unknown_schema") for damage in UNKNOWN),
        *((damage, "malformed") for damage in MALFORMED),
        ("left over", "trailing_bytes"),
    ],
)
def test_damage_makes_a_dead_letter_of_its_reason(damage: str, reason: str) -> None:
    log = LogBuilder()
    log.put(WALLET, None)
    log.money("m1", at=10, session="s")
    value = log.records.pop().value
    assert value is not None
    log.put(WALLET, DAMAGE[damage](value))
    result = log.run(Rules(), drain=True)
    assert result.dead_letters[1:] == [(WALLET, 0, 2, reason)]
    assert (result.enriched, result.waiting, result.looking_up, result.requests) == ([], 0, 0, [])


@pytest.mark.parametrize("damage", ["padded length", "boolean 2"])
def test_an_odd_but_valid_body_is_an_event_and_is_put_out_canonically(damage: str) -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    value = log.records.pop().value
    assert value is not None
    log.put(WALLET, DAMAGE[damage](value))
    record = log.run(Rules(), drain=True).enriched[0]
    assert record.value["money"]["isOldMoneyEvent"] == (damage == "boolean 2")
    assert record.encoded == encode("MoneyEnriched", record.value)


@pytest.mark.parametrize("year", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_a_time_beyond_what_a_timestamp_can_express_is_malformed(year: str) -> None:
    _, fields = from_json({"type": "Heartbeat", "processedAt": year})
    beyond = -1 if year.startswith("0001") else 1
    log = LogBuilder()
    log.put(USER, encode("Heartbeat", fields))
    log.put(USER, encode("Heartbeat", {"processedAt": fields["processedAt"] + beyond}))
    assert reasons(log.run(Rules())) == ["malformed"]


def test_a_known_type_on_a_topic_that_it_does_not_belong_to_is_a_dead_letter() -> None:
    log = LogBuilder()
    fields = {"id": "s", "userId": "ann", "clientCountryCode": "CA"}
    for topic in (*TIMED_TOPICS, LOOKUP_RESULTS):
        log.event(topic, "UserSessionCreatedEvent", 10, fields)
    result = log.run(Rules())
    assert {(letter.topic, letter.reason) for letter in result.dead_letters} == {
        (topic, "wrong_topic") for topic in (WALLET, USER, LOOKUP_RESULTS)
    }


def test_a_reply_on_an_event_topic_has_no_event_time() -> None:
    log = LogBuilder()
    log.reply("m1", 10, "FAILED")
    log.put(WALLET, log.records[-1].value)
    assert log.run(Rules()).dead_letters == [(WALLET, 0, 0, "no_event_time")]


def test_too_far_ahead_of_the_kafka_timestamp_is_a_dead_letter_that_does_not_advance_time() -> None:
    log = LogBuilder()
    beat = encode("Heartbeat", {"processedAt": ms(700)})
    log.put(WALLET, beat, timestamp_ms=ms(100) - 1)
    log.money("m1", at=10, session="s")
    result = log.run(Rules(), drain=True)
    assert (reasons(result), asked(result)) == (["too_far_ahead"], [("m1", 70, "SESSION_MISSING")])


def test_exactly_as_far_ahead_as_allowed_or_without_a_timestamp_is_no_dead_letter() -> None:
    log = LogBuilder()
    beat = encode("Heartbeat", {"processedAt": ms(700)})
    log.put(WALLET, beat, timestamp_ms=ms(100))
    log.put(USER, beat)
    assert log.run(Rules()).dead_letters == []


def test_dead_letters_are_reported_even_while_nothing_is_released() -> None:
    log = LogBuilder()
    log.put(WALLET, None)
    assert log.run(Rules()).dead_letter_counts == {"null_value": 1}


# --- the codec ---


def test_the_json_form_gives_the_bytes_that_fastavro_writes_of_the_same_decimals() -> None:
    event = {"type": "ChangeAddressEvent", "id": "a", "userId": "u", "processedAt": "1970-01-01T00:00:01.5Z"}
    assert (
        from_json({**event, "address": "x", "residentCountryCode": "ES", "postalCode": "1"})[1]["processedAt"] == 1500
    )
    money = {
        "id": "m",
        "userId": "u",
        "processedAt": 0,
        "currency": "EUR",
        "moneyType": "A",
        "paymentRelatedThing": "x",
    }
    for number in ("0", "100", "-1", "99.9999", "-0.0128", "0.0128", "-9999999999999999.9999"):
        balances = dict.fromkeys(("amount", "openingBalance", "closingBalance"), Decimal(number))
        _, fields = from_json({"type": "PaymentEvent", **money, **balances, "processedAt": "1970-01-01T00:00:00Z"})
        assert encode("PaymentEvent", fields) == encode("PaymentEvent", {**money, **balances})


def test_what_is_encoded_is_decoded() -> None:
    event = {"id": "s", "userId": "ü", "processedAt": -1, "clientCountryCode": ""}
    assert decode(encode("UserSessionCreatedEvent", event)) == ("UserSessionCreatedEvent", event)
    assert len(HEADER) == len(READER) == 13

"""The format json: exact both ways, and strict in what it takes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.records import iso_time
from moneystate.records.avro_parts import Unencodable, unscaled
from tests.budget import examples
from tests.formats.values import (
    BY_NAME,
    JSON,
    LONG,
    NAMES,
    PAYMENT,
    SET,
    any_datum,
    canonical,
    payment,
    reason,
    shortest,
)

SETTINGS = settings(max_examples=examples(60), database=None)
TEXT = (
    '{"type":"PaymentEvent","id":"m-1","userId":"u-1","userSessionId":null,"processedAt":"2020-12-16T00:00:00.123Z",'
    '"amount":12.5000,"currency":"EUR","openingBalance":100.0000,"closingBalance":-0.0001,"moneyType":"CARD",'
    '"paymentRelatedThing":"käse ✓","isOldMoneyEvent":false}'
)


def changed(**fields: str) -> bytes:
    """The payment with members replaced by JSON text; an empty text takes the member away."""
    members = {name: json.dumps(value) for name, value in json.loads(TEXT).items()} | fields
    return ("{" + ",".join(f'"{name}":{text}' for name, text in members.items() if text) + "}").encode()


def test_a_payment_in_json() -> None:
    value = payment(SET)
    assert JSON.from_canonical(value).decode() == TEXT
    assert JSON.to_canonical(TEXT.encode()) == value


def test_nested_records_and_enums_in_json() -> None:
    enriched = {
        "money": {name: PAYMENT[name] for name in ("id", "userId", "processedAt", "amount", "currency", "moneyType")}
        | {"userSessionId": "s-1", "closingBalance": Decimal(0), "isOldMoneyEvent": True},
        "userInfo": {"birthYear": "1990", "residentCountryCode": None},
        "sessionInfo": None,
        "firstOccurrence": True,
        "sessionStatus": "LOOKED_UP",
    }
    assert JSON.from_canonical(canonical(BY_NAME["MoneyEnriched"], enriched)).decode() == (
        '{"type":"MoneyEnriched","money":{"id":"m-1","userId":"u-1","userSessionId":"s-1",'
        '"processedAt":"2020-12-16T00:00:00.123Z","amount":12.5000,"currency":"EUR","closingBalance":0.0000,'
        '"moneyType":"CARD","isOldMoneyEvent":true},"userInfo":{"birthYear":"1990","residentCountryCode":null},'
        '"sessionInfo":null,"firstOccurrence":true,"sessionStatus":"LOOKED_UP"}'
    )


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(data=st.data())
def test_canonical_to_json_and_back_is_identical(name: str, data: st.DataObject) -> None:
    type_schema = BY_NAME[name]
    value = canonical(type_schema, data.draw(any_datum(type_schema)))
    text = JSON.from_canonical(value)
    assert next(iter(json.loads(text))) == "type"
    assert JSON.to_canonical(text) == value


@pytest.mark.parametrize(
    ("text", "unscaled"),
    [
        ("0", 0),
        ("-0.0", 0),
        ("0e99999999", 0),
        ("0.00000000000000000000000000000000", 0),
        ("1.5", 15000),
        ("1.50000", 15000),
        ("15e-1", 15000),
        ("1.5E+2", 1500000),
        ("0.0001", 1),
        ("1e-4", 1),
        ("10e-5", 1),
        ("-0.0001", -1),
        ("0.1", 1000),
        ("0.0127", 127),
        ("0.0128", 128),
        ("-0.0128", -128),
        ("-0.0129", -129),
        ("-3.2768", -32768),
        ("100", 1000000),
        ("9007199254740993.0001", 90071992547409930001),  # no double holds it
        ("9999999999999999.9999", 10**20 - 1),
        ("-9999999999999999.9999", -(10**20) + 1),
        ("9999999999999999", 10**20 - 10**4),
        ("1" + "0" * 15, 10**19),
    ],
)
def test_decimals_are_exact(text: str, unscaled: int) -> None:
    assert JSON.to_canonical(changed(amount=text)) == payment(SET, amount=shortest(unscaled))


def test_decimals_come_back_in_the_fewest_bytes() -> None:
    """fastavro writes -128 as FF 80, Java as 80: the same number."""
    longer, shorter = (payment(SET, amount=amount) for amount in (Decimal("-0.0128"), b"\x80"))
    assert len(longer) == len(shorter) + 1
    assert JSON.from_canonical(longer) == JSON.from_canonical(shorter)
    assert JSON.to_canonical(JSON.from_canonical(longer)) == shorter


@pytest.mark.parametrize(
    "text",
    [
        "0.00001",
        "1.50001",
        "1e-5",
        "15e-5",
        "1e-999999999",
        "10000000000000000",
        "1e16",
        "99999999999999999.9999",
        "1e999999999",
        "1e99999999999999999999",
        "1" * 5000,
        '"1.5"',
        "null",
        "true",
        "[1]",
    ],
)
def test_what_a_decimal_cannot_hold_exactly_is_malformed(text: str) -> None:
    assert reason(JSON.to_canonical, changed(amount=text)) == "malformed"


@SETTINGS
@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_decimals_agree_with_exact_arithmetic(number: Decimal, scale: int) -> None:
    numerator, denominator = number.as_integer_ratio() if abs(number.adjusted()) < 100 else (1, 10**99)
    scaled, rest = divmod(numerator * 10**scale, denominator)
    if rest or abs(scaled) >= 10**20:
        with pytest.raises(Unencodable):
            unscaled(number, 20, scale)
    else:
        assert unscaled(number, 20, scale) == scaled


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2020-12-16T00:00:00.000Z", 1_608_076_800_000),
        ("2020-12-16T00:00Z", 1_608_076_800_000),
        ("2020-12-16T00:00:00.1Z", 1_608_076_800_100),
        ("2020-12-16T01:30:00+01:30", 1_608_076_800_000),
        ("2020-12-15T19:00:00.5-0500", 1_608_076_800_500),
        ("2020-12-15T19:00:00-05", 1_608_076_800_000),
        ("2020-12-16T00:00:00.123999Z", 1_608_076_800_123),  # cut, never rounded
        ("2020-12-16T00:00:00.999999999Z", 1_608_076_800_999),
        ("2020-12-16T00:00:00." + "9" * 40 + "Z", 1_608_076_800_999),
        ("2020-12-16t00:00:00z", 1_608_076_800_000),
        ("2020-12-16T00:00:00.0000000001-00:00", 1_608_076_800_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),  # a leap second is the next second
        ("2016-12-31T15:59:60.5-08:00", 1_483_228_800_500),
        ("1969-12-31T23:59:59.0004Z", -1_000),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("2020-02-29T00:00:00Z", 1_582_934_400_000),
        ("0000-02-29T00:00:00Z", -62_162_121_600_000),
        ("+10000-01-01T00:00:00Z", 253_402_300_800_000),
        ("-292275055-05-16T16:47:04.192Z", -(2**63)),
        ("+292278994-08-17T07:12:55.807Z", 2**63 - 1),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert JSON.to_canonical(changed(processedAt=f'"{text}"')) == payment(SET, processedAt=ms)


@pytest.mark.parametrize(
    "text",
    [
        "1608076800.5",
        "null",
        '"1608076800000"',
        '"2020-12-16"',
        '"2020-12-16T00:00:00"',
        '"2020-12-16 00:00:00Z"',
        '"2020-12-16T00:00:00,5Z"',
        '"2020-12-16T00:00:00.Z"',
        '"2020-12-16T24:00:00Z"',
        '"2020-12-16T00:60:00Z"',
        '"2016-12-31T23:59:61Z"',
        '"2016-12-31T23:58:60Z"',
        '"2016-12-31T23:59:60+01:00"',
        '"2016-12-31T23:60:60Z"',
        '"2020-12-16T00:00:00+24:00"',
        '"2020-12-16T00:00:00+01:60"',
        '"2021-02-29T00:00:00Z"',
        '"2020-13-01T00:00:00Z"',
        '"2020-00-01T00:00:00Z"',
        '"+292278994-08-17T07:12:55.808Z"',
        '"2020-12-16T00:00:00Z "',
        '"٢٠٢٠-12-16T00:00:00Z"',
    ],
)
def test_what_is_no_time_is_malformed(text: str) -> None:
    assert reason(JSON.to_canonical, changed(processedAt=text)) == "malformed"


@SETTINGS
@given(LONG)
def test_every_long_is_a_time_in_text(ms: int) -> None:
    assert iso_time.to_ms(iso_time.from_ms(ms)) == ms


@SETTINGS
@given(st.datetimes(timezones=st.just(UTC)))
def test_times_agree_with_datetime(time: datetime) -> None:
    ms = iso_time.to_ms(time.isoformat())
    assert iso_time.from_ms(ms) == time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", *PAYMENT]), inner),
    max_leaves=12,
)


@SETTINGS
@given(st.binary(max_size=40) | ANY_JSON.map(json.dumps).map(str.encode))
def test_arbitrary_values_are_accepted_or_refused_and_nothing_else(value: bytes) -> None:
    assert reason(JSON.to_canonical, value) in ("", "malformed", "trailing_bytes", "unknown_schema")


@SETTINGS
@given(st.sampled_from([*PAYMENT, "more"]), ANY_JSON)
def test_an_arbitrary_member_is_accepted_or_malformed(name: str, member: object) -> None:
    assert reason(JSON.to_canonical, changed(**{name: json.dumps(member)})) in ("", "malformed")


def test_absent_fields_take_their_defaults() -> None:
    assert JSON.to_canonical(changed(userSessionId="", isOldMoneyEvent="")) == payment(SET)


def test_fields_that_the_schema_does_not_name_are_ignored() -> None:
    assert JSON.to_canonical(changed(discount="1e-7", tags='[{"a":null}]')) == payment(SET)


def test_white_space_around_and_within_is_allowed() -> None:
    assert JSON.to_canonical(b" \r\n\t" + json.dumps(json.loads(TEXT), indent=2).encode() + b"\n") == payment(SET)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "malformed"),
        (b"null", "malformed"),
        (b"[]", "malformed"),
        (b"{}", "malformed"),
        (b'{"type":7}', "malformed"),
        (b'{"type":null}', "malformed"),
        (b'{"type":"Nothing"}', "unknown_schema"),
        (b'{"type":"Money"}', "unknown_schema"),
        (b'{"type":"moneystate.events.Heartbeat"}', "unknown_schema"),
        (TEXT.encode()[:-1], "malformed"),
        (TEXT.encode() + b" x", "malformed"),
        (TEXT.encode() + b"}", "malformed"),
        (TEXT.encode() * 2, "malformed"),
        (TEXT.encode() + b"\x00", "malformed"),
        (TEXT.encode() + b"\xc2\xa0", "malformed"),
        (TEXT.encode().replace(b"m-1", b"m-\xff"), "malformed"),
        (TEXT.encode().replace(b"m-1", b"m-\xed\xa0\x80"), "malformed"),
        (TEXT.encode().replace(b"m-1", b"m-\n"), "malformed"),
        (TEXT.encode("utf-16"), "malformed"),
        (b"\xef\xbb\xbf\xef\xbb\xbf" + TEXT.encode(), "malformed"),
        (b"[" * 100_000, "malformed"),
        (changed(id=r'"\ud800"'), "malformed"),
        (changed(id="NaN"), "malformed"),
        (changed(amount="NaN"), "malformed"),
        (changed(amount="Infinity"), "malformed"),
        (changed(amount="-Infinity"), "malformed"),
        (changed(amount="01"), "malformed"),
        (changed(amount=".5"), "malformed"),
        (changed(more="NaN"), "malformed"),
        (changed(more='{"a":1,"a":1}'), "malformed"),
        (changed(more='1,"more":1'), "malformed"),
        (changed(id='"m-1","id":"m-1"'), "malformed"),
        (changed(id=""), "malformed"),
        (changed(amount=""), "malformed"),
        (changed(id="null"), "malformed"),
        (changed(id="1"), "malformed"),
        (changed(userSessionId="1"), "malformed"),
        (changed(isOldMoneyEvent="null"), "malformed"),
        (changed(isOldMoneyEvent="0"), "malformed"),
        (changed(isOldMoneyEvent='"false"'), "malformed"),
    ],
)
def test_refusals(value: bytes | None, expected: str) -> None:
    assert reason(JSON.to_canonical, value) == expected


def completed(**fields: Any) -> bytes:
    members = {"type": "SessionLookupCompleted", "moneyId": "m", "userId": "u", "userSessionId": "s"}
    times = {"requestedAt": "1970-01-01T00:00:00Z", "completedAt": "1970-01-01T00:00:00Z"}
    return json.dumps(members | times | {"outcome": "FOUND", "attempts": 1} | fields).encode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"attempts": 2**31 - 1}, ""),
        ({"attempts": -(2**31)}, ""),
        ({"attempts": 2**31}, "malformed"),
        ({"attempts": True}, "malformed"),
        ({"attempts": 1.0}, "malformed"),
        ({"attempts": "1"}, "malformed"),
        ({"outcome": "found"}, "malformed"),
        ({"outcome": 0}, "malformed"),
        ({"outcome": None}, "malformed"),
        ({"outcome": ["FOUND"]}, "malformed"),
    ],
)
def test_ints_and_enums(fields: dict[str, Any], expected: str) -> None:
    assert reason(JSON.to_canonical, completed(**fields)) == expected


@pytest.mark.parametrize("part", ['"money":7', '"money":{"id":1}', '"money":[]'])
def test_nested_records_are_as_strict(part: str) -> None:
    assert reason(JSON.to_canonical, b'{"type":"MoneyEnriched",' + part.encode() + b"}") == "malformed"


def test_writing_takes_canonical_values_only() -> None:
    assert reason(JSON.from_canonical, b"\xc3\x01" + bytes(8)) == "unknown_schema"

"""Events as bytes: the same verdict as the reference codec's on whatever comes, and money whose bytes are copied."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.processor import Rejected
from services.enrichment.fast_path import MoneyFastPath
from tests.budget import examples
from tests.enrichment import topics
from tests.enrichment.jobs import DECODER
from tests.reference import codec, model
from tests.reference.builder import MONEY, START_MS

NAMES = sorted(topics.CODES)
WALLET_EVENTS, LOOKUP_RESULTS = "wallet-events", "session-lookup-results"
SETTINGS = settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))

texts = st.sampled_from(["", "a", "käse", "x" * 63, "x" * 64, "x" * 200]) | st.text(max_size=10)
times = st.sampled_from([START_MS, 0, -1, model.FIRST_TIME_MS, model.LAST_TIME_MS]) | st.integers(
    model.FIRST_TIME_MS - 2, model.LAST_TIME_MS + 2
)
request_times = times | st.sampled_from([NO_TIME, NO_TIME + 1, END_OF_TIME - 1, END_OF_TIME, 2**63 - 1])
ints = st.integers(0, 5) | st.sampled_from([-(2**31), 2**31 - 1])


def datums(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of([datums(part) for part in schema])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return st.fixed_dictionaries(
            {f["name"]: request_times if f["name"] == "requestedAt" else datums(f["type"]) for f in schema["fields"]}
        )
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if isinstance(kind, dict | list):
        return datums(kind)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(), "string": texts, "bytes": st.binary(max_size=140), "boolean": st.booleans(),
        "int": ints, "long": times,
    }  # fmt: skip
    return simple[kind]


@st.composite
def encoded(draw: st.DrawFn, names: list[str]) -> bytes:
    name = draw(st.sampled_from(names))
    out = BytesIO()
    out.write(codec.HEADER[name])
    fastavro.schemaless_writer(out, codec.READER[name], draw(datums(codec.RAW[name])))
    return out.getvalue()


@st.composite
def mutated(draw: st.DrawFn, names: list[str]) -> bytes:
    """A value with bytes changed, put in, taken out or cut off; mostly in the body."""
    value = bytearray(draw(encoded(names)))
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, len(value)) | st.integers(min(10, len(value)), len(value)))
        how = draw(st.sampled_from(["set", "insert", "delete", "cut", "pad"]))
        byte = draw(st.sampled_from([0, 1, 2, 4, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        if how == "insert":
            value.insert(index, byte)
        elif how == "cut":
            del value[index:]
        elif index < len(value):
            if how == "set":
                value[index] = byte
            elif how == "delete":
                del value[index]
            elif value[index] < 0x80:  # the same number, if it is one, in a wider form
                value[index : index + 1] = bytes([value[index] | 0x80, *[0x80] * (byte % 9), 0])
    return bytes(value)


Verdict = tuple[str, int, bytes | None]


def verdict(topic: str, value: bytes) -> Verdict:
    try:
        _, time, user = DECODER.decode(topics.CODES[topic], value)
    except Rejected as why:
        return (why.reason, 0, None)
    assert not isinstance(user, list)
    return ("taken", time, user)


def reference_verdict(topic: str, value: bytes) -> Verdict:
    record = model.LogRecord(topic, 0, 0, None, None, value)
    try:
        name, fields = model._decode_record(record, model.Rules())
    except model._Reason as why:
        return (str(why), 0, None)
    time = fields["requestedAt"] if name == "SessionLookupCompleted" else fields["processedAt"]
    keyed = name in model.RANK_OF_TYPE or name == "SessionLookupCompleted"
    return ("taken", time, fields["userId"].encode() if keyed else None)


OF_ORDERED_TOPICS = [
    n for n in codec.HEADER if n not in ("MoneyEnriched", "SessionLookupRequested", "SessionLookupCompleted")
]


@SETTINGS
@given(st.sampled_from(NAMES), mutated(OF_ORDERED_TOPICS))
def test_decode_gives_the_references_verdict_time_and_user(topic: str, value: bytes) -> None:
    assert verdict(topic, value) == reference_verdict(topic, value)


@SETTINGS
@given(st.sampled_from(NAMES), mutated(["SessionLookupCompleted"]))
def test_decode_gives_the_references_verdict_on_replies(topic: str, value: bytes) -> None:
    ours, theirs = verdict(topic, value), reference_verdict(topic, value)
    if theirs[0] in ("taken", "no_event_time", "trailing_bytes") and not NO_TIME < _requested_at(value) < END_OF_TIME:
        assert ours[0] == "malformed"  # no request has such a time; the reference model takes it
    elif theirs[0] == "malformed" and ours != theirs:
        assert _has_padded_ints(value)
    else:
        assert ours == theirs


# A 32-bit number padded with zeros to more than five bytes: its value is what counts here, its width in the reference.
REPLY_OF_LONGS = {
    **codec.RAW["SessionLookupCompleted"],
    "fields": [
        {**f, "type": "long"} if f["name"] in ("outcome", "attempts") else f
        for f in codec.RAW["SessionLookupCompleted"]["fields"]
    ],
}
REPLY_READER = fastavro.parse_schema(codec._without_logical_types(REPLY_OF_LONGS), named_schemas={})


def _has_padded_ints(value: bytes) -> bool:
    codec.body_end(REPLY_OF_LONGS, value, codec.HEADER_BYTES)
    reply: Any = fastavro.schemaless_reader(BytesIO(value[codec.HEADER_BYTES :]), REPLY_READER, None)
    return reply["outcome"] in range(3) and reply["attempts"] in range(-(2**31), 2**31)


def _requested_at(value: bytes) -> int:
    fields, _ = codec.read_body("SessionLookupCompleted", value)
    return int(fields["requestedAt"])


@SETTINGS
@given(st.sampled_from(NAMES), mutated(["MoneyEnriched", "SessionLookupRequested"]))
def test_what_is_no_input_is_a_dead_letter_on_every_topic(topic: str, value: bytes) -> None:
    """Its body is not looked at: the reference model has a finer reason where that is damaged, too."""
    ours, theirs = verdict(topic, value)[0], reference_verdict(topic, value)[0]
    assert ours != "taken"
    assert theirs != "taken"
    if ours != theirs:
        assert (ours, theirs) in {("no_event_time", "malformed"), ("no_event_time", "trailing_bytes")}


@SETTINGS
@given(st.sampled_from(NAMES), st.binary(max_size=60))
def test_any_bytes_have_a_verdict(topic: str, value: bytes) -> None:
    assert verdict(topic, value) == reference_verdict(topic, value)


REPLY = {
    "moneyId": "m", "userId": "u", "userSessionId": "s", "requestedAt": START_MS, "outcome": "FOUND",
    "clientCountryCode": None, "attempts": 0, "completedAt": START_MS,
}  # fmt: skip


def reply_after(attempts: int) -> bytes:
    """A reply with so many attempts, though they be too many for an Avro int."""
    value = codec.encode("SessionLookupCompleted", REPLY)
    tail = len(value) - len(_long(START_MS)) - 1
    return value[:tail] + _long(attempts) + value[tail + 1 :]


def _long(n: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", n)
    return out.getvalue()


@pytest.mark.parametrize("attempts", [2**31, -(2**31) - 1, 2**62])
def test_an_int_of_more_than_32_bits_is_malformed(attempts: int) -> None:
    value = reply_after(attempts)
    assert reference_verdict(LOOKUP_RESULTS, value)[0] == "malformed"
    assert verdict(LOOKUP_RESULTS, value)[0] == "malformed"


@pytest.mark.parametrize("attempts", [2**31 - 1, -(2**31)])
def test_an_int_of_32_bits_is_taken(attempts: int) -> None:
    value = reply_after(attempts)
    assert verdict(LOOKUP_RESULTS, value) == reference_verdict(LOOKUP_RESULTS, value)
    assert verdict(LOOKUP_RESULTS, value)[0] == "taken"


@pytest.mark.parametrize("requested_at", [NO_TIME + 1, model.LAST_TIME_MS + 1, END_OF_TIME - 1])
def test_a_reply_may_name_a_time_that_no_event_has(requested_at: int) -> None:
    """A request is made at an order time plus the session wait."""
    value = codec.encode("SessionLookupCompleted", REPLY | {"requestedAt": requested_at})
    assert verdict(LOOKUP_RESULTS, value) == ("taken", requested_at, b"u")
    assert reference_verdict(LOOKUP_RESULTS, value) == ("taken", requested_at, b"u")


@pytest.mark.parametrize("requested_at", [-(2**63), NO_TIME, END_OF_TIME, 2**63 - 1])
def test_a_reply_to_a_time_that_no_request_can_have_is_malformed(requested_at: int) -> None:
    value = codec.encode("SessionLookupCompleted", REPLY | {"requestedAt": requested_at})
    assert verdict(LOOKUP_RESULTS, value)[0] == "malformed"


# Money


PATH = MoneyFastPath(b"")
MONEY_TYPES = ["PaymentEvent", "TransactionEvent"]
MONEY_SCHEMA = fastavro.parse_schema(
    codec._without_logical_types(next(f["type"] for f in codec.RAW["MoneyEnriched"]["fields"] if f["name"] == "money"))
)


def canonical_money(fields: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, MONEY_SCHEMA, {name: fields[name] for name in model.MONEY_FIELDS})
    return out.getvalue()


def payment(**fields: Any) -> bytes:
    return codec.encode("PaymentEvent", {**MONEY, "paymentRelatedThing": "x", "processedAt": START_MS, **fields})


def copied(value: bytes) -> bytes | None:
    """The bytes of the money that the fast path copies from an event. None: it declines the event."""
    event = PATH.read(value)
    return None if event is None else event[2].before + event[2].after + b"\x00"


@settings(SETTINGS, max_examples=examples(1_000))
@given(mutated(MONEY_TYPES))
@example(payment(id="x" * 63, userSessionId="", amount=b""))
@example(payment(currency="x" * 64))
@example(payment(moneyType="x" * 63, closingBalance=b"x" * 63))
@example(payment(processedAt=0))
@example(payment()[:-1] + b"\x02")
def test_money_that_is_copied_has_the_canonical_bytes_of_its_fields(value: bytes) -> None:
    if verdict(WALLET_EVENTS, value)[0] != "taken" or codec.TYPE_OF_HEADER[value[:10]] not in MONEY_TYPES:
        return
    _, fields = codec.decode(value)
    money = copied(value)
    if money is None:
        return
    assert money == canonical_money(fields)
    event = PATH.read(value)
    assert event is not None
    id, (session,), parts = event
    assert (id, session, parts.has_session) == (
        fields["id"].encode(),
        (fields["userSessionId"] or "").encode(),
        fields["userSessionId"] is not None,
    )


def number_positions(value: bytes) -> list[int]:
    """Where the numbers of a payment begin: lengths, the union's branch and the time."""
    positions, pos = [], 10
    for field in codec.RAW["PaymentEvent"]["fields"][:-1]:
        positions.append(pos)
        number, pos = codec.read_number(value, pos, 64)
        if field["name"] == "userSessionId" and number == 1:
            positions.append(pos)
            number, pos = codec.read_number(value, pos, 64)
            pos += number
        elif field["name"] not in ("processedAt", "userSessionId"):
            pos += number
    return positions


@pytest.mark.parametrize("session", [None, "", "s1"])
@pytest.mark.parametrize("number", range(11))
def test_a_padded_number_anywhere_is_not_copied(number: int, session: str | None) -> None:
    value = payment(userSessionId=session)
    assert copied(value) is not None
    places = number_positions(value)
    if number >= len(places):
        return
    pos = places[number]
    end = codec.read_number(value, pos, 64)[1]
    padded = value[: end - 1] + bytes([value[end - 1] | 0x80, 0x80, 0]) + value[end:]
    assert codec.decode(padded) == codec.decode(value)
    assert verdict(WALLET_EVENTS, padded) == verdict(WALLET_EVENTS, value)
    assert copied(padded) in (None, copied(value))

"""Decodes events: checks records, and extracts user, time and the fields that the step needs.

Records have canonical form: single-object encoding with one of the schemas under `avro/events` and `avro/lookups`. An
Avro record is a sequence of fields. So one pass over the fields checks a record, and the fields that money shares with
the output are copied as bytes.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine.avro import HEADER_BYTES, Malformed, read_bytes, read_long, skip_bytes, write_bytes, write_long
from moneystate.engine.items import END_OF_TIME, MAX_EVENT_TIME, MIN_EVENT_TIME, NO_TIME
from moneystate.engine.processor import Rejected
from services.enrichment import fingerprints as fp
from services.enrichment.source import encode_source
from services.enrichment.topics import LOOKUP_RESULTS, SESSION_EVENTS, USER_EVENTS, WALLET_EVENTS

# Kinds of fields. USER is the key of an event, TIME its event time.
TEXT: Final = 0
LONG: Final = 1
BYTES: Final = 2
BOOLEAN: Final = 3
OPTIONAL_TEXT: Final = 4
OUTCOME: Final = 5
USER: Final = 6
TIME: Final = 7
INT: Final = 8
REQUESTED_AT: Final = 9  # an order time plus a wait; may be later than the last event time
KEPT_TEXT: Final = 10  # an id, a type or a code; the state stores it, as it does USER and OPTIONAL_TEXT

# The limit of stored texts. A page of state has dozens of them and must fit into a Kafka message. It also limits
# amounts, because formatting a number as text takes quadratic time.
MAX_KEPT_BYTES: Final = 1024

MONEY_FIELDS: Final = [KEPT_TEXT, USER, OPTIONAL_TEXT, TIME, BYTES, TEXT, BYTES, BYTES, KEPT_TEXT, TEXT, BOOLEAN]
NOT_IN_MONEY: Final = [6, 9]  # openingBalance; paymentRelatedThing, transactionRelatedThing
ANYWHERE: Final = -1

PAYMENT: Final = 0
TRANSACTION: Final = 1
ADDRESS: Final = 2
BIRTH_DATE: Final = 3
SESSION_CREATED: Final = 4
LOOKUP_COMPLETED: Final = 5
FORGET: Final = 6
IGNORED: Final = 7
HEARTBEAT: Final = 8


class EventType:
    """A type of event."""

    def __init__(self, kind: int, topic: int, fields: list[int]) -> None:
        self.kind = kind
        self.topic = topic  # the topic of such events; ANYWHERE: a heartbeat
        self.fields = fields


TYPES: Final[dict[bytes, EventType]] = {
    fp.PAYMENT_EVENT: EventType(PAYMENT, WALLET_EVENTS, MONEY_FIELDS),
    fp.TRANSACTION_EVENT: EventType(TRANSACTION, WALLET_EVENTS, MONEY_FIELDS),
    fp.KIND_OF_WALLET_EVENT: EventType(IGNORED, WALLET_EVENTS, [TEXT, USER, TIME, TEXT]),
    fp.CHANGE_ADDRESS_EVENT: EventType(ADDRESS, USER_EVENTS, [TEXT, USER, TIME, TEXT, KEPT_TEXT, TEXT]),
    fp.CHANGE_BIRTH_DATE_EVENT: EventType(BIRTH_DATE, USER_EVENTS, [TEXT, USER, TIME, KEPT_TEXT, TEXT]),
    fp.FORGET_USER_REQUESTED: EventType(FORGET, USER_EVENTS, [KEPT_TEXT, USER, TIME, KEPT_TEXT]),
    fp.OTHER_USER_EVENT: EventType(IGNORED, USER_EVENTS, [TEXT, USER, TIME, TEXT]),
    fp.USER_SESSION_CREATED_EVENT: EventType(SESSION_CREATED, SESSION_EVENTS, [KEPT_TEXT, USER, TIME, KEPT_TEXT]),
    fp.USER_SESSION_CLOSED_EVENT: EventType(IGNORED, SESSION_EVENTS, [TEXT, USER, TIME, TEXT]),
    fp.HEARTBEAT: EventType(HEARTBEAT, ANYWHERE, [TIME]),
    fp.SESSION_LOOKUP_COMPLETED: EventType(
        LOOKUP_COMPLETED, LOOKUP_RESULTS, [KEPT_TEXT, USER, TEXT, REQUESTED_AT, OUTCOME, OPTIONAL_TEXT, INT, LONG]
    ),
}
# Known schemas of outputs: they have no event time (docs/model.md section 4).
NO_INPUT: Final = [fp.MONEY_ENRICHED, fp.SESSION_LOOKUP_REQUESTED]


def decode(topic: int, value: bytes) -> tuple[int, bytes | None]:
    """The event time (ms; for a lookup reply its `requestedAt`) and user of a record. User None: the type is ignored.

    Checks the whole body. Raises Rejected, with the reason, if the record is a dead letter (section 3).
    """
    event_type = TYPES.get(value[:HEADER_BYTES])
    if event_type is None:
        if value[:HEADER_BYTES] in NO_INPUT:
            raise Rejected("no_event_time", "a known type without the field processedAt")
        raise Rejected("unknown_schema", "no known schema has this fingerprint")
    try:
        time, user, end, longest = check_body(event_type.fields, value)
    except Malformed as e:
        raise Rejected("malformed", str(e)) from None
    if end != len(value):
        raise Rejected("trailing_bytes", f"{len(value) - end} bytes after the body")
    if event_type.kind == LOOKUP_COMPLETED and topic != LOOKUP_RESULTS:
        raise Rejected("no_event_time", "a known type without the field processedAt")
    if event_type.topic != topic and event_type.topic != ANYWHERE:
        raise Rejected("wrong_topic", "the type belongs to another topic")
    if event_type.kind >= IGNORED:
        return time, None
    if longest > MAX_KEPT_BYTES:
        raise Rejected("too_large", f"an id, code or amount of {longest} bytes, the limit is {MAX_KEPT_BYTES}")
    return time, user


def check_body(fields: list[int], value: bytes) -> tuple[int, bytes, int, int]:
    """Checks a body. Returns its event time, its user, its end, and the length of its longest part that
    `MAX_KEPT_BYTES` limits. Raises Malformed."""
    pos = HEADER_BYTES
    time = 0
    longest = 0
    user = b""
    for field in fields:
        if field in (TEXT, KEPT_TEXT):
            start, pos = skip_bytes(value, pos)
            _check_text(value[start:pos])
            if field == KEPT_TEXT and pos - start > longest:
                longest = pos - start
        elif field == BYTES:
            start, pos = skip_bytes(value, pos)
            if pos - start > longest:
                longest = pos - start
        elif field == USER:
            user, pos = read_bytes(value, pos)
            _check_text(user)
            if len(user) > longest:
                longest = len(user)
        elif field == TIME:
            time, pos = read_long(value, pos)
            if time < MIN_EVENT_TIME or time > MAX_EVENT_TIME:
                raise Malformed("a time outside the years 1 to 9999")
        elif field == REQUESTED_AT:
            time, pos = read_long(value, pos)
            if time <= NO_TIME or time >= END_OF_TIME:
                raise Malformed("a time that no request can have")
        elif field == LONG:
            _, pos = read_long(value, pos)
        elif field == INT:
            number, pos = read_long(value, pos)
            if number < -(1 << 31) or number >= 1 << 31:
                raise Malformed("an int of more than 32 bits")
        elif field == OPTIONAL_TEXT:
            branch, pos = read_long(value, pos)
            if branch == 1:
                start, pos = skip_bytes(value, pos)
                _check_text(value[start:pos])
                if pos - start > longest:
                    longest = pos - start
            elif branch != 0:
                raise Malformed("a union branch that the schema does not have")
        elif field == BOOLEAN:
            if pos >= len(value):
                raise Malformed("a boolean is cut off")
            pos += 1
        else:
            outcome, pos = read_long(value, pos)
            if outcome < 0 or outcome > 2:
                raise Malformed("an enum symbol that the schema does not have")
    return time, user, pos, longest


def _check_text(text: bytes) -> None:
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None


class Money:
    """The parts of a payment or transaction that the step needs."""

    def __init__(self, id: bytes, session: bytes | None, money_type: bytes, old: bool, body: bytes) -> None:
        self.id = id
        self.session = session
        self.money_type = money_type
        self.old = old
        self.body = body  # encoded Money record of MoneyEnriched


def parse_money(value: bytes) -> Money:
    id, id_end = read_bytes(value, HEADER_BYTES)
    user_start, user_end = skip_bytes(value, id_end)
    branch, pos = read_long(value, user_end)
    session: bytes | None = None
    if branch == 1:
        session, pos = read_bytes(value, pos)
    _, time_end = read_long(value, pos)
    _, amount_end = skip_bytes(value, time_end)
    _, currency_end = skip_bytes(value, amount_end)
    _, opening_end = skip_bytes(value, currency_end)
    _, closing_end = skip_bytes(value, opening_end)
    money_type, type_end = read_bytes(value, closing_end)
    old = value[len(value) - 1] != 0
    body = value[HEADER_BYTES:currency_end] + value[opening_end:type_end] + (b"\x01" if old else b"\x00")
    if (
        not _one_byte_lengths(value, len(id), user_end - user_start, session, pos, time_end)
        or (value[time_end] | value[amount_end] | value[opening_end] | value[closing_end]) > 127
    ):
        body = _encode_money(value)
    return Money(id, session, money_type, old, body)


def _one_byte_lengths(
    value: bytes, id_length: int, user_length: int, session: bytes | None, time_start: int, time_end: int
) -> bool:
    """Whether all numbers before the amount surely have their shortest encoding.

    Avro also allows a number to be padded with zeros. No known writer does this. Output is canonical, so money with
    such a number must be encoded again.
    """
    texts = id_length + user_length + (0 if session is None else len(session) + 1)
    padded_time = time_end - time_start > 1 and value[time_end - 1] == 0
    return HEADER_BYTES + 3 + texts == time_start and not padded_time


def _encode_money(value: bytes) -> bytes:
    """Encodes the Money record of a payment or transaction from its decoded fields."""
    out = bytearray()
    pos = HEADER_BYTES
    for number, field in enumerate(MONEY_FIELDS):
        body = bytearray()
        if field == TIME:
            time, pos = read_long(value, pos)
            write_long(body, time)
        elif field == OPTIONAL_TEXT:
            branch, pos = read_long(value, pos)
            write_long(body, branch)
            if branch == 1:
                text, pos = read_bytes(value, pos)
                write_bytes(body, text)
        elif field == BOOLEAN:
            body.append(1 if value[pos] else 0)
            pos += 1
        else:
            text, pos = read_bytes(value, pos)
            write_bytes(body, text)
        if number not in NOT_IN_MONEY:
            out += body
    return bytes(out)


def kind_of(value: bytes) -> int:
    return TYPES[value[:HEADER_BYTES]].kind


def parse_address(value: bytes) -> bytes:
    """The country of residence."""
    pos = HEADER_BYTES
    for _ in range(2):
        _, pos = skip_bytes(value, pos)
    _, pos = read_long(value, pos)
    _, pos = skip_bytes(value, pos)
    country, _ = read_bytes(value, pos)
    return country


def parse_birth_date(value: bytes) -> bytes:
    """The year of birth."""
    pos = HEADER_BYTES
    for _ in range(2):
        _, pos = skip_bytes(value, pos)
    _, pos = read_long(value, pos)
    year, _ = read_bytes(value, pos)
    return year


def parse_session(value: bytes) -> tuple[bytes, bytes]:
    """Session id and the client's country."""
    session, pos = read_bytes(value, HEADER_BYTES)
    _, pos = skip_bytes(value, pos)
    _, pos = read_long(value, pos)
    country, _ = read_bytes(value, pos)
    return session, country


def parse_forget(value: bytes) -> tuple[bytes, bytes]:
    """The request's id and who requested it."""
    request, pos = read_bytes(value, HEADER_BYTES)
    _, pos = skip_bytes(value, pos)
    _, pos = read_long(value, pos)
    requested_by, _ = read_bytes(value, pos)
    return request, requested_by


class Reply:
    """A SessionLookupCompleted. The money that it resolves is found by `money_id` and `requested_at`, not by
    session."""

    def __init__(self, money_id: bytes, requested_at: int, outcome: int, country: bytes | None, source: bytes) -> None:
        self.money_id = money_id
        self.requested_at = requested_at
        self.outcome = outcome  # index of FOUND, NOT_FOUND, FAILED
        self.country = country
        self.source = source  # see `services.enrichment.source`


def parse_reply(value: bytes, partition: int, offset: int) -> Reply:
    money_id, pos = read_bytes(value, HEADER_BYTES)
    _, pos = skip_bytes(value, pos)
    _, pos = skip_bytes(value, pos)
    requested_at, pos = read_long(value, pos)
    outcome, pos = read_long(value, pos)
    branch, pos = read_long(value, pos)
    country: bytes | None = None
    if branch == 1:
        country, pos = read_bytes(value, pos)
    return Reply(
        money_id, requested_at, outcome, country, encode_source(LOOKUP_RESULTS, partition, offset, requested_at)
    )

"""A user's state as bytes: what fastavro reads, and the golden bytes of every released version."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine import clock as clocks
from moneystate.engine import slots
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.clock import Clock
from moneystate.engine.items import NO_TIME, Item
from moneystate.engine.slots import Slot
from services.enrichment import events
from services.enrichment.emit import NO_SOURCES
from services.enrichment.events import Reply
from services.enrichment.money_ids import pack_id
from services.enrichment.page import Page, split_positions
from services.enrichment.source import decode_source, encode_source, optional
from services.enrichment.state import (
    Forgotten,
    User,
    WaitingMoney,
    decode_forgotten,
    decode_page_entry,
    decode_user,
    decode_waiting,
    encode_forgotten,
    encode_page_entry,
    encode_user,
    encode_waiting,
    page_key,
    position_of,
    split_head,
    user_key,
    waiting_key,
)
from tests.reference import codec
from tests.reference.builder import MONEY, START_MS

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
OUTCOMES = ["FOUND", "NOT_FOUND", "FAILED"]


def schema(name: str) -> Any:
    versions = (ROOT / "avro" / "state" / name).glob("v*.avsc")
    newest = max(versions, key=lambda path: int(path.stem[1:]))
    return fastavro.parse_schema(codec._without_logical_types(json.loads(newest.read_text())), named_schemas={})


SCHEMAS = {path.name: schema(path.name) for path in (ROOT / "avro" / "state").iterdir()}


def read(name: str, entry: bytes) -> Any:
    """The entry as fastavro reads it; nothing may be left over."""
    body = BytesIO(entry[HEADER_BYTES:])
    value = fastavro.schemaless_reader(body, SCHEMAS[name], None)
    assert body.read() == b""
    return value


def page_as_avro(page: Page) -> dict[str, Any]:
    """What we put into a page, in the schema's words."""
    return {
        "moneyTypes": [{"type": t.decode(), "from": source_as_avro(source)} for t, source in page.each_type()],
        "moneyIds": [
            {"id": id_as_avro(money_id), "seenAt": seen_at, "from": source_as_avro(source)}
            for money_id, seen_at, source in page.each_id()
        ],
        "sessions": [
            {
                "id": id.decode(),
                "clientCountryCode": country.decode(),
                "expires": expires,
                "from": source_as_avro(source),
            }
            for id, (expires, country, source) in page.sessions.items()
        ],
        "waiting": [{"sessionId": id.decode(), "positions": positions} for id, positions in page.waiting.items()],
        "lookups": [
            {"moneyId": money_id.decode(), "requestedAt": requested_at, "position": position}
            for money_id, requested_at, position in page.lookups
        ],
        "replies": [reply_as_avro(reply) for reply in page.replies],
    }


def reply_as_avro(reply: Reply) -> dict[str, Any]:
    return {
        "moneyId": reply.money_id.decode(),
        "requestedAt": reply.requested_at,
        "outcome": OUTCOMES[reply.outcome],
        "clientCountryCode": None if reply.country is None else reply.country.decode(),
        "from": source_as_avro(reply.source),
    }


def source_as_avro(source: bytes) -> dict[str, int] | None:
    known = decode_source(source)
    if known is None:
        return None
    return {
        "topic": known.topic,
        "partition": known.partition,
        "offset": known.offset,
        "eventTime": known.event_time,
    }


def id_as_avro(money_id: bytes) -> str | bytes:
    """Canonical UUIDs are packed, whatever else came is text."""
    text = money_id.decode()
    try:
        return uuid.UUID(text).bytes if str(uuid.UUID(text)) == text else text
    except ValueError:
        return text


numbers = st.integers(NO_TIME + 1, 2**61)
names = (st.text(max_size=9) | st.sampled_from(["", "x" * 63, "x" * 64, "x" * 300])).map(str.encode)
position = st.binary(min_size=13, max_size=13)
positions = st.lists(position, min_size=1, max_size=4).map(b"".join)
sources = st.just(b"") | st.builds(
    encode_source, st.integers(0, 3), st.integers(0, 2**31 - 1), st.integers(0, 2**62), numbers
)
uuids = st.uuids().map(lambda one: str(one).encode())
money_ids = names | uuids | uuids.map(bytes.upper) | uuids.map(lambda one: one.replace(b"-", b"_"))
replies = st.builds(Reply, names, numbers, st.integers(0, 2), st.none() | names, sources)


@st.composite
def pages(draw: st.DrawFn) -> Page:
    page = Page()
    for money_type in draw(st.lists(names, max_size=4, unique=True)):
        page.add_type(money_type, draw(sources))
    for money_id, seen_at in zip(
        draw(st.lists(money_ids, max_size=6)), sorted(draw(st.lists(numbers, max_size=6))), strict=False
    ):
        page.add_id(pack_id(money_id), seen_at, draw(sources))
    page.sessions = draw(st.dictionaries(names, st.tuples(numbers, names, sources), max_size=4))
    page.waiting = draw(st.dictionaries(names, positions, max_size=3))
    page.lookups = draw(st.lists(st.tuples(names, numbers, position), max_size=3))
    page.replies = draw(st.lists(replies, max_size=3))
    return page


@given(pages())
def test_a_page_is_what_fastavro_reads_and_comes_back(page: Page) -> None:
    entry = encode_page_entry(page)
    assert read("UserPage", entry) == page_as_avro(page)
    back = decode_page_entry(entry)
    assert page_as_avro(back) == page_as_avro(page)
    assert (back.items(), back.counted, back.stored) == (page.items(), page.items(), True)
    assert encode_page_entry(back) == entry


@given(pages(), st.none() | names, st.none() | names, sources, numbers, st.integers(0, 2**40), st.integers(0, 16))
def test_a_user_is_what_fastavro_reads_and_comes_back(
    page: Page, year: bytes | None, country: bytes | None, source: bytes, sweep_at: int, items: int, depth: int
) -> None:
    user = User(b"ann")
    user.birth_year_source = source
    user.birth_year, user.country, user.sweep_at, user.items, user.depth = year, country, sweep_at, items, depth
    user.pages[0] = page
    entry = encode_user(user)
    assert read("UserState", entry) == {
        "birthYear": None if year is None else year.decode(),
        "birthYearFrom": source_as_avro(source),
        "residentCountryCode": None if country is None else country.decode(),
        "residentCountryCodeFrom": None,
        "sweepAt": sweep_at,
        "items": items,
        "depth": depth,
        "page": None if depth else page_as_avro(page),
    }
    back = decode_user(b"ann", entry)
    assert (back.birth_year, back.country, back.sweep_at, back.items, back.depth) == (
        year,
        country,
        sweep_at,
        items,
        depth,
    )
    assert list(back.pages) == ([] if depth else [0])
    if depth == 0:
        assert encode_user(back) == entry


def head_of(session: str | None = "s", info: bytes = b"\x00", **fields: Any) -> bytes:
    event = {**MONEY, "paymentRelatedThing": "x", "processedAt": START_MS, "userSessionId": session, **fields}
    return events.parse_money(codec.encode("PaymentEvent", event)).body + info


@given(names, names, numbers, st.none() | numbers, st.integers(0, 2), st.booleans(), st.booleans(), sources)
def test_waiting_money_is_what_fastavro_reads_and_comes_back(
    money_id: bytes, session: bytes, order_time: int, requested_at: int | None, reason: int, first: bool, known: bool,
    source: bytes,
) -> None:  # fmt: skip
    info = b"\x02\x00\x02\x04CA" if known else b"\x00"
    head = head_of(session.decode(), info, id=money_id.decode())
    waiting = WaitingMoney(order_time, first, head, money_id, session, b"\x00\x00" + optional(source))
    if requested_at is not None:
        waiting.requested_at, waiting.reason = requested_at, reason
    entry = encode_waiting(waiting)
    value = read("WaitingMoney", entry)
    assert (value["orderTime"], value["requestedAt"], value["firstOccurrence"]) == (order_time, requested_at, first)
    assert value["reason"] == (None if requested_at is None else ["LATE", "OLD", "SESSION_MISSING"][reason])
    assert (value["money"]["id"].encode(), value["money"]["userSessionId"].encode()) == (money_id, session)
    assert (value["firstFrom"], value["residentCountryCodeFrom"]) == (None, source_as_avro(source))
    assert split_head(waiting.head) == (waiting.head[: -len(info)], START_MS)
    assert value["userInfo"] == ({"birthYear": None, "residentCountryCode": "CA"} if known else None)
    back = decode_waiting(entry)
    assert (back.money_id, back.session, back.order_time, back.first) == (money_id, session, order_time, first)
    assert back.requested_at == (NO_TIME if requested_at is None else requested_at)
    assert encode_waiting(back) == entry


@pytest.mark.parametrize("depth", [0, 3])
def test_a_foreign_schema_is_refused(depth: int) -> None:
    foreign = b"\xc3\x01" + bytes(8 + depth)
    with pytest.raises(Malformed):
        decode_user(b"u", foreign)
    with pytest.raises(Malformed):
        decode_page_entry(foreign)
    with pytest.raises(Malformed):
        decode_waiting(foreign)


def test_what_is_no_entry_is_a_new_user_with_an_empty_page() -> None:
    assert decode_user(b"u", None).pages[0].items() == 0
    assert decode_page_entry(None).stored is False


# One page


def test_an_id_is_found_only_where_an_item_begins() -> None:
    page = Page()
    page.add_id(pack_id(b"x\x00\x04ab"), 5, b"")  # has the bytes of the id `ab` in its middle
    assert page.seen_at(pack_id(b"ab")) == NO_TIME
    page.add_type(b"y\x02z", b"")
    assert (page.type_source(b"z"), page.type_source(b"y\x02z")) == (None, b"")


@given(st.lists(st.tuples(money_ids, st.integers(0, 50))), st.integers(0, 50))
def test_ids_are_dropped_up_to_a_time_and_the_last_sight_counts(seen: list[tuple[bytes, int]], until: int) -> None:
    page = Page()
    seen.sort(key=lambda one: one[1])
    for money_id, seen_at in seen:
        page.add_id(pack_id(money_id), seen_at, b"")
    page.drop_ids(until)
    left = {money_id: seen_at for money_id, seen_at in seen if seen_at > until}
    assert page.ids_n == sum(1 for _, seen_at in seen if seen_at > until)
    assert all(page.seen_at(pack_id(money_id)) == left.get(money_id, NO_TIME) for money_id, _ in seen)
    if left:
        assert page.first_seen() == min(seen_at for _, seen_at in seen if seen_at > until)


def test_waiting_positions_are_added_and_dropped_in_order() -> None:
    page = Page()
    places = [position_of((0, 2, 0, 3, 1, offset, 0, b"", b"")) for offset in (5, 9, 2**40)]
    for place in places:
        page.add_waiting(b"s", place)
    page.drop_waiting(b"s", places[1])
    assert split_positions(page.waiting[b"s"]) == [places[0], places[2]]
    page.drop_waiting(b"s", places[0])
    page.drop_waiting(b"s", places[2])
    assert page.waiting == {}


def test_a_position_across_two_others_does_not_wait() -> None:
    page = Page()
    first, second = bytes(range(13)), bytes(range(13, 26))
    across = first[5:] + second[:5]
    page.add_waiting(b"s", first)
    page.add_waiting(b"s", second)
    assert (page.is_waiting(b"s", second), page.is_waiting(b"s", across), page.is_waiting(b"t", first)) == (
        True,
        False,
        False,
    )
    page.add_waiting(b"s", across)
    assert page.is_waiting(b"s", across)
    page.drop_waiting(b"s", across)
    assert split_positions(page.waiting[b"s"]) == [first, second]


def test_lookups_are_open_by_their_pair_and_closed_by_their_position() -> None:
    page = Page()
    places = [bytes([n]) * 13 for n in range(4)]
    page.lookups = [(b"m1", 5, places[0]), (b"m1", 6, places[1]), (b"m2", 5, places[2]), (b"m1", 5, places[3])]
    assert page.open_lookups(b"m1", 5) == [places[0], places[3]]
    page.close_lookup(places[0])
    assert page.changed
    assert page.open_lookups(b"m1", 5) == [places[3]]
    assert (page.open_lookups(b"m2", 5), page.open_lookups(b"m1", 7), page.items()) == ([places[2]], [], 3)


def test_positions_sort_as_the_log_does() -> None:
    places = [(1, 0, 7), (3, 0, 255), (3, 0, 256), (3, 1, 0), (3, 256, 0)]
    encoded = [position_of((0, 2, 0, t, p, o, 0, b"", b"")) for t, p, o in places]
    assert encoded == sorted(encoded)
    assert {len(position) for position in encoded} == {13}


@given(names, names, st.integers(0, 65_535), st.binary(min_size=13, max_size=13))
def test_no_two_entries_share_a_key(one: bytes, other: bytes, number: int, position: bytes) -> None:
    keys = {user_key(one), page_key(one, number), waiting_key(one, position), user_key(other), page_key(other, number)}
    assert len(keys) == (3 if one == other else 5)


@given(names, names, numbers, sources.filter(bool))
def test_the_proof_of_a_forgotten_user_comes_back(request: bytes, by: bytes, time_ms: int, source: bytes) -> None:
    entry = encode_forgotten(Forgotten(request, by, time_ms, source))
    assert read("ForgottenUser", entry) == {
        "requestId": request.decode(),
        "requestedBy": by.decode(),
        "forgottenAt": time_ms,
        "from": source_as_avro(source),
    }
    back = decode_forgotten(entry)
    assert (back.request, back.requested_by, back.forgotten_at, back.source) == (request, by, time_ms, source)


# Golden bytes: tests/golden/v<N> holds what state version N wrote. They never change; a new version gets a folder of
# its own.

UUID = b"0f8fad5b-d9cb-469f-a165-70867728950e"
FROM = encode_source(3, 1, 41, START_MS)


def golden_page() -> Page:
    page = Page()
    page.add_type(b"CARD", FROM)
    page.add_type("käse".encode(), b"")
    page.add_id(pack_id(b"m1"), START_MS, FROM)
    page.add_id(pack_id(b""), START_MS + 1, b"")
    page.add_id(pack_id(UUID), START_MS + 1, FROM)
    page.sessions = {
        b"s1": (START_MS + 86_400_000, b"CA", encode_source(2, 0, 7, START_MS)),
        b"": (0, b"", b""),
    }
    page.waiting = {b"s2": position_of((0, 2, 0, 3, 1, 42, 0, b"", b"")) * 2}
    page.lookups = [(b"m1", START_MS + 60_005, position_of((0, 2, 0, 3, 1, 41, 0, b"", b"")))]
    page.replies = [
        Reply(b"m9", START_MS, 0, b"ES", encode_source(0, 0, 3, START_MS)),
        Reply(b"m8", -1, 2, None, b""),
    ]
    return page


def golden_user(depth: int) -> User:
    user = User(b"ann")
    user.country, user.sweep_at, user.items, user.depth = b"FI", START_MS + 450_000, 10, depth
    user.country_source = encode_source(1, 2, 2**40, START_MS)
    user.birth_year = b"1990" if depth else None
    user.pages[0] = golden_page()
    return user


def golden_waiting(asked: bool) -> WaitingMoney:
    known = b"\x00" + optional(encode_source(1, 0, 5, START_MS)) + b"\x00"
    waiting = WaitingMoney(
        START_MS + 5, not asked, head_of("s2", b"\x02\x02\x081990\x00"), b"m1", b"s2", NO_SOURCES if asked else known
    )
    if asked:
        waiting.requested_at, waiting.reason = START_MS + 60_005, 2
    return waiting


ITEMS: list[Item] = [
    (START_MS, 2, 0, 3, 1, 42, START_MS - 5, b"ann", bytes(range(20))),
    (START_MS + 9, 8, START_MS, 3, 1, 42, 0, b"ann", b"\x04s2"),
    (-1, 9, -2, 0, 0, 0, 0, b"", b""),
]


def golden_chunk() -> bytes:
    out = bytearray()
    for item in ITEMS:
        slots.encode_item(out, item)
    return slots.encode_chunk(len(ITEMS), bytes(out))


def golden_clock() -> Clock:
    clock = Clock()
    clock.watermark = START_MS
    clock.highs = {(3, 0): START_MS + 20_000, (1, 10): NO_TIME, (1, 2): 0}
    clock.slots = {START_MS: Slot(3, 1, 200), -2_500: Slot(1, 1, 0)}
    clock.counts = {"waiting": 4, "dead_letters.malformed": 1}
    clock.ages = {START_MS: 4, START_MS - 10_000: 1}
    return clock


WRITTEN: dict[str, Callable[[], bytes]] = {
    "v1/BufferChunk": golden_chunk,
    "v1/ForgottenUser": lambda: encode_forgotten(Forgotten(b"r1", b"ops", START_MS, FROM)),
    "v2/KeyGroupClock": lambda: clocks.encode(golden_clock()),
    "v2/UserPage": lambda: encode_page_entry(golden_page()),
    "v2/UserState": lambda: encode_user(golden_user(0)),
    "v2/UserState-paged": lambda: encode_user(golden_user(2)),
    "v2/WaitingMoney": lambda: encode_waiting(golden_waiting(False)),
    "v2/WaitingMoney-asked": lambda: encode_waiting(golden_waiting(True)),
}


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", WRITTEN)
def test_todays_code_writes_the_golden_bytes(name: str) -> None:
    assert WRITTEN[name]().hex() == golden(name).hex()


def rewritten(name: str, entry: bytes) -> bytes:
    """Read by today's code and written again."""
    if name == "UserPage":
        return encode_page_entry(decode_page_entry(entry))
    if name.startswith("UserState"):
        return encode_user(decode_user(b"ann", entry))
    if name.startswith("WaitingMoney"):
        return encode_waiting(decode_waiting(entry))
    if name == "KeyGroupClock":
        return clocks.encode(clocks.decode(entry))
    if name == "ForgottenUser":
        return encode_forgotten(decode_forgotten(entry))
    count, block = slots.open_chunk(entry)
    items: list[Item] = []
    slots.decode_items(block, count, items)
    assert items == ITEMS
    return slots.encode_chunk(count, block)


@pytest.mark.parametrize("name", WRITTEN)
def test_todays_code_reads_the_golden_bytes_and_loses_nothing(name: str) -> None:
    assert rewritten(name.partition("/")[2], golden(name)) == golden(name)


@pytest.mark.parametrize("name", WRITTEN)
def test_any_avro_reader_reads_the_golden_bytes(name: str) -> None:
    record = name.partition("/")[2].partition("-")[0]
    value = read(record, golden(name))
    if name == "v2/UserState":
        assert value["page"] == page_as_avro(golden_page())
        assert value["page"]["moneyIds"][2]["id"] == uuid.UUID(UUID.decode()).bytes
    elif record == "KeyGroupClock":
        assert value["stateVersion"] == 2
        assert [slot["start"] for slot in value["slots"]] == [-2_500, START_MS]
        assert value["ages"] == [{"since": START_MS - 10_000, "count": 1}, {"since": START_MS, "count": 4}]
    elif record == "BufferChunk":
        assert [tuple(item.values()) for item in value["items"]] == ITEMS
    elif name.endswith("-asked"):
        assert (value["requestedAt"], value["reason"]) == (START_MS + 60_005, "SESSION_MISSING")

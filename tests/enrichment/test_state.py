"""A user's state as bytes: what fastavro reads, and the golden bytes of every released version."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine import clock as clocks
from services.engine import slots
from services.engine.avro import HEADER_BYTES, Malformed, read_bytes, read_long
from services.engine.clock import Clock
from services.engine.items import NO_TIME, Item
from services.engine.slots import Slot
from services.enrichment import events
from services.enrichment.events import Reply
from services.enrichment.state import (
    Page,
    User,
    WaitingMoney,
    decode_page_entry,
    decode_user,
    decode_waiting,
    encode_page_entry,
    encode_user,
    encode_waiting,
    page_key,
    position_of,
    split_positions,
    user_key,
    waiting_key,
)
from tests.reference import codec
from tests.reference.builder import MONEY, START_MS

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "v1"
OUTCOMES = ["FOUND", "NOT_FOUND", "FAILED"]


def schema(name: str) -> Any:
    plain = codec._without_logical_types(json.loads((ROOT / "avro" / "state" / name / "v1.avsc").read_text()))
    return fastavro.parse_schema(plain, named_schemas={})


SCHEMAS = {name: schema(name) for name in ("UserPage", "UserState", "WaitingMoney", "BufferChunk", "KeyGroupClock")}


def read(name: str, entry: bytes) -> Any:
    """The entry as fastavro reads it; nothing may be left over."""
    body = BytesIO(entry[HEADER_BYTES:])
    value = fastavro.schemaless_reader(body, SCHEMAS[name], None)
    assert body.read() == b""
    return value


def page_as_avro(page: Page) -> dict[str, Any]:
    """What we put into a page, in the schema's words."""
    types: list[str] = []
    ids: list[dict[str, Any]] = []
    at = 0
    while at < len(page.types):
        money_type, at = read_bytes(page.types, at)
        types.append(money_type.decode())
    at = 0
    while at < len(page.ids):
        money_id, at = read_bytes(page.ids, at)
        seen_at, at = read_long(page.ids, at)
        ids.append({"id": money_id.decode(), "seenAt": seen_at})
    return {
        "moneyTypes": types,
        "moneyIds": ids,
        "sessions": [
            {"id": id.decode(), "clientCountryCode": country.decode(), "expires": expires}
            for id, (expires, country) in page.sessions.items()
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
    }


numbers = st.integers(NO_TIME + 1, 2**61)
names = (st.text(max_size=9) | st.sampled_from(["", "x" * 63, "x" * 64, "x" * 300])).map(str.encode)
position = st.binary(min_size=13, max_size=13)
positions = st.lists(position, min_size=1, max_size=4).map(b"".join)
replies = st.builds(Reply, names, numbers, st.integers(0, 2), st.none() | names)


@st.composite
def pages(draw: st.DrawFn) -> Page:
    page = Page()
    for money_type in draw(st.lists(names, max_size=4, unique=True)):
        page.add_type(money_type)
    for money_id, seen_at in zip(
        draw(st.lists(names, max_size=6)), sorted(draw(st.lists(numbers, max_size=6))), strict=False
    ):
        page.add_id(money_id, seen_at)
    page.sessions = draw(st.dictionaries(names, st.tuples(numbers, names), max_size=4))
    page.waiting = draw(st.dictionaries(names, positions, max_size=3))
    page.lookups = draw(st.lists(st.tuples(names, numbers, position), max_size=3))
    page.replies = draw(st.lists(replies, max_size=3))
    return page


@settings(deadline=None)
@given(pages())
def test_a_page_is_what_fastavro_reads_and_comes_back(page: Page) -> None:
    entry = encode_page_entry(page)
    assert read("UserPage", entry) == page_as_avro(page)
    back = decode_page_entry(entry)
    assert page_as_avro(back) == page_as_avro(page)
    assert (back.items(), back.counted, back.stored) == (page.items(), page.items(), True)
    assert encode_page_entry(back) == entry


@settings(deadline=None)
@given(pages(), st.none() | names, st.none() | names, numbers, st.integers(0, 2**40), st.integers(0, 16))
def test_a_user_is_what_fastavro_reads_and_comes_back(
    page: Page, year: bytes | None, country: bytes | None, sweep_at: int, items: int, depth: int
) -> None:
    user = User(b"ann")
    user.birth_year, user.country, user.sweep_at, user.items, user.depth = year, country, sweep_at, items, depth
    user.pages[0] = page
    entry = encode_user(user)
    assert read("UserState", entry) == {
        "birthYear": None if year is None else year.decode(),
        "residentCountryCode": None if country is None else country.decode(),
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


@settings(deadline=None)
@given(names, names, numbers, st.none() | numbers, st.integers(0, 2), st.booleans(), st.booleans())
def test_waiting_money_is_what_fastavro_reads_and_comes_back(
    money_id: bytes, session: bytes, order_time: int, requested_at: int | None, reason: int, first: bool, known: bool
) -> None:
    info = b"\x02\x00\x02\x04CA" if known else b"\x00"
    waiting = WaitingMoney(order_time, first, head_of(session.decode(), info, id=money_id.decode()), money_id, session)
    if requested_at is not None:
        waiting.requested_at, waiting.reason = requested_at, reason
    entry = encode_waiting(waiting)
    value = read("WaitingMoney", entry)
    assert (value["orderTime"], value["requestedAt"], value["firstOccurrence"]) == (order_time, requested_at, first)
    assert value["reason"] == (None if requested_at is None else ["LATE", "OLD", "SESSION_MISSING"][reason])
    assert (value["money"]["id"].encode(), value["money"]["userSessionId"].encode()) == (money_id, session)
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
    page.add_id(b"x\x04ab", 5)  # has the bytes of the id `ab` in its middle
    assert page.seen_at(b"ab") == NO_TIME
    page.add_type(b"y\x02z")
    assert (page.has_type(b"z"), page.has_type(b"y\x02z")) == (False, True)


@settings(deadline=None)
@given(st.lists(st.tuples(names, st.integers(0, 50))), st.integers(0, 50))
def test_ids_are_dropped_up_to_a_time_and_the_last_sight_counts(seen: list[tuple[bytes, int]], until: int) -> None:
    page = Page()
    seen.sort(key=lambda one: one[1])
    for money_id, at in seen:
        page.add_id(money_id, at)
    page.drop_ids(until)
    left = {money_id: at for money_id, at in seen if at > until}
    assert page.ids_n == sum(1 for _, at in seen if at > until)
    assert all(page.seen_at(money_id) == left.get(money_id, NO_TIME) for money_id, _ in seen)
    if left:
        assert page.first_seen() == min(at for _, at in seen if at > until)


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


@settings(deadline=None)
@given(names, names, st.integers(0, 65_535), st.binary(min_size=13, max_size=13))
def test_no_two_entries_share_a_key(one: bytes, other: bytes, number: int, position: bytes) -> None:
    keys = {user_key(one), page_key(one, number), waiting_key(one, position), user_key(other), page_key(other, number)}
    assert len(keys) == (3 if one == other else 5)


# Golden bytes: tests/golden/v1 holds what version 1 wrote. They never change; a new version gets a folder of its own.


def golden_page() -> Page:
    page = Page()
    page.add_type(b"CARD")
    page.add_type("käse".encode())
    page.add_id(b"m1", START_MS)
    page.add_id(b"", START_MS + 1)
    page.sessions = {b"s1": (START_MS + 86_400_000, b"CA"), b"": (0, b"")}
    page.waiting = {b"s2": position_of((0, 2, 0, 3, 1, 42, 0, b"", b"")) * 2}
    page.lookups = [(b"m1", START_MS + 60_005, position_of((0, 2, 0, 3, 1, 41, 0, b"", b"")))]
    page.replies = [Reply(b"m9", START_MS, 0, b"ES"), Reply(b"m8", -1, 2, None)]
    return page


def golden_user(depth: int) -> User:
    user = User(b"ann")
    user.country, user.sweep_at, user.items, user.depth = b"FI", START_MS + 450_000, 10, depth
    user.birth_year = b"1990" if depth else None
    user.pages[0] = golden_page()
    return user


def golden_waiting(asked: bool) -> WaitingMoney:
    waiting = WaitingMoney(START_MS + 5, not asked, head_of("s2", b"\x02\x02\x081990\x00"), b"m1", b"s2")
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
    return clock


WRITTEN: dict[str, Callable[[], bytes]] = {
    "BufferChunk": golden_chunk,
    "KeyGroupClock": lambda: clocks.encode(golden_clock()),
    "UserPage": lambda: encode_page_entry(golden_page()),
    "UserState": lambda: encode_user(golden_user(0)),
    "UserState-paged": lambda: encode_user(golden_user(2)),
    "WaitingMoney": lambda: encode_waiting(golden_waiting(False)),
    "WaitingMoney-asked": lambda: encode_waiting(golden_waiting(True)),
}


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", WRITTEN)
def test_todays_code_writes_the_golden_bytes(name: str) -> None:
    assert WRITTEN[name]().hex() == golden(name).hex()


def test_every_golden_file_is_tested() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.hex")) == sorted(WRITTEN)


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
    count, block = slots.open_chunk(entry)
    items: list[Item] = []
    slots.decode_items(block, count, items)
    assert items == ITEMS
    return slots.encode_chunk(count, block)


@pytest.mark.parametrize("name", WRITTEN)
def test_todays_code_reads_the_golden_bytes_and_loses_nothing(name: str) -> None:
    assert rewritten(name, golden(name)) == golden(name)


@pytest.mark.parametrize("name", WRITTEN)
def test_any_avro_reader_reads_the_golden_bytes(name: str) -> None:
    value = read(name.partition("-")[0], golden(name))
    if name == "UserState":
        assert value["page"] == page_as_avro(golden_page())
    elif name == "KeyGroupClock":
        assert value["stateVersion"] == 1
        assert [slot["start"] for slot in value["slots"]] == [-2_500, START_MS]
    elif name == "BufferChunk":
        assert [tuple(item.values()) for item in value["items"]] == ITEMS
    elif name == "WaitingMoney-asked":
        assert (value["requestedAt"], value["reason"]) == (START_MS + 60_005, "SESSION_MISSING")

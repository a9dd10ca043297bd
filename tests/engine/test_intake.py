"""A source task's part: blocks by key group, marks, dead letters."""

from __future__ import annotations

import hashlib

import pytest

from moneystate.engine.avro import HEARTBEAT
from moneystate.engine.block import Block, unpack
from moneystate.engine.deadletter import HEADER_OVERHEAD, LARGEST, MAX_BYTES, Letter
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.processor import Convert, Decoded, InputTopic, Rejected
from moneystate.records.codec import Codec
from moneystate.records.platform_records import HEARTBEAT_RECORD
from tests.engine.tiny import ALPHA, BETA, DEAD_LETTERS, INPUTS, NOTES, TinyDecoder, value_of

KEY_GROUPS = 8
PLANNED = [(ALPHA, 0, 1), (ALPHA, 1, 0), (BETA, 0, 1), (NOTES, 0, 1)]


def intake(converts: dict[int, Convert] | None = None, max_future_ms: int = 1_000) -> Intake:
    planned = [PlannedPartition(*place) for place in PLANNED]
    made = Intake(TinyDecoder(), INPUTS, planned, KEY_GROUPS, 100, max_future_ms, DEAD_LETTERS, converts or {})
    made.open(0, 1, NO_TIME)
    return made


def blocks(made: Intake) -> list[Block]:
    return [unpack(packed) for packed in made.close()]


def test_every_key_group_gets_a_block_with_all_marks() -> None:
    made = intake()
    made.add(ALPHA, 0, 0, -1, value_of(500, "a"))
    made.add(ALPHA, 0, 1, -1, value_of(300))
    closed = blocks(made)
    assert len(closed) == KEY_GROUPS
    for block in closed:
        # the highest time in the range, a heartbeat's too; unordered inputs have no mark
        assert block.marks == [
            (ALPHA, 0, 500, 1, NO_TIME),
            (ALPHA, 1, NO_TIME, 0, NO_TIME),
            (BETA, 0, NO_TIME, 1, NO_TIME),
        ]


def test_only_the_named_key_groups_get_the_marks_of_many_partitions() -> None:
    planned = [PlannedPartition(ALPHA, partition, 1) for partition in range(2_000)]
    sizes = []
    for marked in (None, {0, 1}):
        made = Intake(TinyDecoder(), INPUTS, planned, 64, 100, 1_000, DEAD_LETTERS, {})
        made.open(0, 1, NO_TIME)
        made.add(ALPHA, 0, 0, -1, value_of(500))
        packed = made.close(marked)
        sizes.append(sum(map(len, packed)))
        assert [unpack(one).marked for one in packed] == [marked is None or group < 2 for group in range(64)]
        assert len(unpack(packed[1]).marks) == 2_000
    assert sizes[1] < sizes[0] / 30


def test_an_event_goes_to_the_key_group_of_its_key_with_its_place_and_rank() -> None:
    made = intake()
    value = value_of(500, "käse", 7)
    made.add(ALPHA, 1, 42, -1, value)
    for group, block in enumerate(blocks(made)):
        mine = group == key_group_of("käse".encode(), KEY_GROUPS)
        assert block.items == ([(500, 1, 0, ALPHA, 1, 42, 500, "käse".encode(), value)] if mine else [])


def test_a_heartbeat_raises_the_high_and_goes_nowhere() -> None:
    made = intake()
    assert made.add(BETA, 0, 0, -1, value_of(900)) is None
    made.add(BETA, 0, 1, -1, value_of(10, "b"))
    closed = blocks(made)
    assert [item[0] for block in closed for item in block.items] == [800]
    assert closed[0].marks[2] == (BETA, 0, 900, 1, NO_TIME)


def test_an_unordered_record_goes_aside_to_its_key_group() -> None:
    made = intake()
    made.add(NOTES, 0, 3, -1, value_of(10, "n"))
    closed = blocks(made)
    assert closed[key_group_of(b"n", KEY_GROUPS)].unordered == [(NOTES, 0, 3, b"n", value_of(10, "n"))]
    assert sum(len(block.unordered) + len(block.items) for block in closed) == 1


@pytest.mark.parametrize(
    ("ahead", "timestamp", "taken"), [(1_000, 5, True), (1_001, 5, False), (10**9, -1, True), (1_001, 0, False)]
)
def test_too_far_ahead_is_more_than_max_future_after_the_kafka_timestamp(
    ahead: int, timestamp: int, taken: bool
) -> None:
    why = intake().add(ALPHA, 0, 0, timestamp, value_of(max(timestamp, 0) + ahead, "a"))
    assert (why is None) == taken
    assert why is None or why.reason == "too_far_ahead"


def test_each_input_may_have_a_bound_and_a_limit_of_the_future_of_its_own() -> None:
    planned = [PlannedPartition(*place) for place in PLANNED]
    own = {ALPHA: (300, 5_000), BETA: (0, None)}
    inputs = [InputTopic(*t[:4], *own.get(t.code, (None, None))) for t in INPUTS]
    made = Intake(TinyDecoder(), inputs, planned, KEY_GROUPS, 100, 1_000, DEAD_LETTERS, {})
    made.open(0, 1, NO_TIME)
    assert made.add(ALPHA, 0, 0, 0, value_of(5_000, "a")) is None
    assert made.add(ALPHA, 0, 1, 0, value_of(5_001, "a")) is not None
    made.add(ALPHA, 0, 2, -1, value_of(0, "a"))
    made.add(BETA, 0, 0, -1, value_of(700, "b"))
    made.add(BETA, 0, 1, -1, value_of(0, "b"))
    why = made.add(BETA, 0, 2, 0, value_of(1_001, "b"))  # by the run's
    assert why is not None
    times = sorted((item[3], item[5], item[0]) for block in blocks(made) for item in block.items)
    assert times == [(ALPHA, 0, 5_000), (ALPHA, 2, 4_700), (BETA, 0, 700), (BETA, 1, 700)]


def test_a_rejected_record_does_not_raise_the_high() -> None:
    made = intake()
    assert made.add(ALPHA, 0, 0, 0, value_of(10**6, "a")) is not None
    assert blocks(made)[0].marks[0] == (ALPHA, 0, NO_TIME, 1, NO_TIME)


def test_the_reasons_of_null_values_decoders_and_converters() -> None:
    def refuse(value: bytes) -> bytes:
        raise Rejected("unknown_schema", "no such id")

    made = intake({BETA: refuse})
    whys = [made.add(ALPHA, 0, 0, -1, None), made.add(ALPHA, 0, 1, -1, b"x"), made.add(BETA, 0, 0, -1, value_of(1))]
    assert [why.reason for why in whys if why] == ["null_value", "malformed", "unknown_schema"]


def test_a_converted_value_is_what_goes_on() -> None:
    made = intake({ALPHA: lambda value: value_of(5, value.decode())})
    made.add(ALPHA, 0, 0, -1, b"text")
    assert blocks(made)[key_group_of(b"text", KEY_GROUPS)].items[0][8] == value_of(5, "text")


class BeatsDecoder(TinyDecoder):
    """Values are heartbeats, records without a key, or records with no keys at all."""

    def decode(self, topic: int, value: bytes) -> Decoded:
        return value, 5, None if value != b"no keys" else []


def test_records_that_only_advance_time_are_counted() -> None:
    made = intake()
    made.decoder = BeatsDecoder()
    for offset, value in enumerate([HEARTBEAT + b"\x0a", b"other", b"no keys"]):
        assert made.add(ALPHA, 0, offset, -1, value) is None
    counts = [block.counts for block in blocks(made) if block.counts]
    assert counts == [{"heartbeats": 1, "ignored": 2}]
    assert Codec(HEARTBEAT_RECORD).header == HEARTBEAT


# Dead letters


def letter(value: bytes | None = b"\xffbad", key: bytes | None = b"k", headers: int = 1) -> Letter:
    return Letter("alpha", 3, 17, 99, key, value, [("h", b"v"), ("empty", None)] * headers)


def written(one: Letter) -> tuple[bytes | None, bytes | None, dict[str, bytes | None]]:
    made = intake()
    made.reject(one, Rejected("malformed", "why"))
    with_letters = [(group, block) for group, block in enumerate(blocks(made)) if block.passed]
    assert [group for group, _ in with_letters] == [key_group_of(b"alpha/3", KEY_GROUPS)]
    block = with_letters[0][1]
    assert block.counts == {"dead_letters.malformed": 1}
    stream, key, value, headers = block.passed[0]
    assert stream == DEAD_LETTERS
    return key, value, dict(headers)


def test_a_dead_letter_is_the_record_as_it_came_with_where_and_why() -> None:
    key, value, headers = written(letter())
    assert (key, value) == (b"k", b"\xffbad")
    assert headers == {
        "h": b"v",
        "empty": None,
        "moneystate.reason": b"malformed",
        "moneystate.detail": b"why",
        "moneystate.topic": b"alpha",
        "moneystate.partition": b"3",
        "moneystate.offset": b"17",
        "moneystate.timestamp": b"99",
    }


def test_a_null_value_and_key_stay_null() -> None:
    assert written(letter(None, None))[:2] == (None, None)


def test_the_largest_dead_letter_goes_on_whole() -> None:
    value = b"x" * (MAX_BYTES - 1 - len("h") - 1 - len("empty") - 2 * HEADER_OVERHEAD)
    assert written(letter(value))[1] == value


def test_a_larger_one_becomes_coordinates_and_a_digest() -> None:
    value = b"x" * MAX_BYTES
    key, none, headers = written(letter(value))
    assert (key, none) == (None, None)
    assert headers["moneystate.offset"] == b"17"
    assert headers["moneystate.value-bytes"] == str(MAX_BYTES).encode()
    assert headers["moneystate.value-sha256"] == hashlib.sha256(value).hexdigest().encode()
    assert "h" not in headers


def test_headers_count_toward_the_size() -> None:
    assert written(letter(b"", b"", headers=MAX_BYTES // 7 + 1))[1] is None


@pytest.mark.parametrize("name", ["", "n", "\u20ac" * 80])
def test_no_dead_letter_is_larger_than_its_topic_takes(name: str) -> None:
    """Headers without a name cost bytes in the record, too, and a detail may quote somebody else's schema."""
    for count in (MAX_BYTES // (len(name.encode()) + HEADER_OVERHEAD), 520_000):
        one = Letter("alpha", 3, 17, 99, b"", b"", [(name, None)] * count)
        made = intake()
        made.reject(one, Rejected("malformed", "x" * 100_000))
        (passed,) = [block.passed[0] for block in blocks(made) if block.passed]
        _, key, value, headers = passed
        headers_bytes = sum(len(n.encode()) + len(content or b"") + HEADER_OVERHEAD for n, content in headers)
        assert len(key or b"") + len(value or b"") + headers_bytes <= LARGEST


def test_what_is_larger_than_the_limit_is_too_large_and_what_goes_nowhere_is_not() -> None:
    made = intake()
    value = value_of(500, "a")
    made.max_record_bytes = len(value)
    assert made.add(ALPHA, 0, 0, -1, value) is None
    made.max_record_bytes = len(value) - 1
    why = made.add(ALPHA, 0, 1, -1, value)
    assert why is not None
    assert why.reason == "too_large"
    made.max_record_bytes = 1
    assert made.add(ALPHA, 0, 2, -1, value_of(900)) is None  # a heartbeat is never written again


def test_a_detail_may_quote_what_is_no_unicode_text() -> None:
    """As the name of a logical type in somebody else's schema may be."""
    made = intake()
    made.reject(letter(b"x"), Rejected("unknown_schema", "written as \ud800"))
    (passed,) = [block.passed[0] for block in blocks(made) if block.passed]
    assert ("moneystate.detail", b"written as \\ud800") in passed[3]


def test_dead_letters_are_counted_by_reason() -> None:
    made = intake()
    for reason in ("malformed", "null_value", "malformed"):
        made.reject(letter(), Rejected(reason))
    total: dict[str, int] = {}
    for block in blocks(made):
        total.update(block.counts)
    assert total == {"dead_letters.malformed": 2, "dead_letters.null_value": 1}


def test_key_groups_are_all_used_and_within_bounds() -> None:
    groups = {key_group_of(f"user-{n}".encode(), 64) for n in range(5_000)}
    assert groups == set(range(64))
    assert key_group_of(b"x", 1) == 0

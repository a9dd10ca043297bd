"""Rows of the outbox are numbered by their causes, and cursors say which of them have been published."""

from __future__ import annotations

from moneystate.apply.outbox import Number, Outgoing, Stream, cursor_of, cursor_value, moved_by, unpublished
from moneystate.apply.records import Record, Refused

ONE = Stream("target", "t", "id", 0)
AGAIN = ONE._replace(topic_id="another")


def outgoing(*offsets: int, stream: Stream = ONE) -> Outgoing:
    made = Outgoing()
    for offset in offsets:
        made.add(stream, offset, "out", b"k", b"v", [])
    return made


def test_effects_of_one_record_are_numbered() -> None:
    assert [row.number for row in outgoing(3, 3, 5).rows] == [(3, 0), (3, 1), (5, 0)]


def test_rows_up_to_the_cursor_are_not_published_again() -> None:
    rows = outgoing(3, 3, 5).rows
    assert unpublished(rows, {ONE: Number(3, 0)}) == rows[1:]
    assert unpublished(rows, {ONE: Number(5, 0)}) == []
    assert unpublished(rows, {AGAIN: Number(9, 9)}) == rows
    assert moved_by(rows) == {ONE: Number(5, 0)}


def test_a_cursor_survives_its_topic() -> None:
    assert cursor_of(ONE.cursor_key, cursor_value(Number(3, 1))) == (ONE, Number(3, 1))
    assert cursor_of(b"x", None) is None


def test_a_dead_letter_has_the_record_and_the_reason() -> None:
    made = Outgoing()
    made.dead_letter(ONE, Record("t", 0, 7, b"k", b"v", 5, [("h", b"1")]), Refused("key", "why"), "letters")
    [row] = made.rows
    assert (row.key, row.value, row.number) == (b"k", b"v", (7, 0))
    assert dict(row.headers)["moneystate.reason"] == b"key"
    assert dict(row.headers)["h"] == b"1"

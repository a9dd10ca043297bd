"""Places in a timed stream: their bytes, and that these sort as items do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine.items import END_OF_TIME, NO_TIME, TIMER_RANK, Item
from moneystate.engine.place import (
    MARK,
    PLACE,
    Carried,
    carried_by,
    carry,
    cause_of,
    header_of,
    partition_of,
    partitions_of,
    place_of,
    time_bytes,
    time_of,
    where,
)

T = 1_700_000_000_000
EVENT: Item = (T, 2, 0, 1, 3, 70_000, T - 5, "käse".encode(), b"\xc3\x01value")
TIMER: Item = (T + 1, TIMER_RANK, T, 1, 0, 0, 0, b"a\x00b", b"t\x04waitx")


def test_the_bytes_of_places_and_marks_are_golden() -> None:
    place = place_of(cause_of(EVENT), 256)
    assert place.hex(" ") == "80 00 01 8b cf e5 68 00 02 81 01 81 03 83 01 11 70 6b c3 a4 73 65 00 01 82 01 00"
    assert cause_of(TIMER).hex(" ") == (
        "80 00 01 8b cf e5 68 01 08 80 00 01 8b cf e5 68 00 81 01 80 80 61 00 ff 62 00 01 74 04 77 61 69 74 78 00 01"
    )
    carried = carry(place, 4, 9, b"\xc3\x01")
    assert carried.hex(" ") == (
        "01 80 00 ff 01 8b cf e5 68 00 ff 02 81 01 81 03 83 01 11 70 6b c3 a4 73 65 00 ff 01 82 01 00 ff 00 01 "
        "81 04 81 09 c3 01"
    )
    taken: Item = (T, 1, 0, 0, 0, 0, T, b"k", carried)
    assert cause_of(taken).hex(" ") == "80 00 01 8b cf e5 68 00 01 80 " + carried[1:-6].hex(" ") + " 6b 00 01"
    assert time_bytes(END_OF_TIME).hex() == "a000000000000000"
    assert carried_by(carried) == Carried(place, 4, 9, b"\xc3\x01")
    assert (where(taken), where(EVENT)) == ((4, 9), (3, 70_000))


texts = st.one_of(st.binary(max_size=4), st.text("\x00\x01aä", max_size=3).map(str.encode))
small = st.one_of(st.integers(0, 3), st.integers(0, 2**40))
times = st.one_of(st.integers(-2, 2), st.sampled_from([NO_TIME, END_OF_TIME, T, T + 256, -T]))
events = st.builds(
    lambda time, rank, topic, partition, offset, key: (time, rank, 0, topic, partition, offset, time, key, b"\xc3"),
    times, st.integers(0, 2), st.integers(0, 2), small, small, texts,
)  # fmt: skip
timers = st.builds(
    lambda time, rank, set_at, topic, partition, offset, key, value: (
        time, rank, set_at, topic, partition, offset, 0, key, b"t" + value,
    ),
    times, st.integers(8, 9), times, st.integers(0, 2), small, small, texts, texts,
)  # fmt: skip
plain = st.one_of(events, timers)


def read(cause: Item, number: int, partition: int, offset: int, time: int) -> Item:
    """As a reader has what `cause` wrote."""
    place = place_of(cause_of(cause), number)
    return (time, 1, 0, 7, 0, 0, time, b"k", carry(place, partition, offset, b"\xc3"))


@given(plain, plain)
def test_places_sort_as_items_do(one: Item, other: Item) -> None:
    assert (cause_of(one) < cause_of(other)) == (one < other)
    assert (cause_of(one) == cause_of(other)) == (one == other)


@given(plain, plain, small, small, small)
def test_what_a_reader_has_sorts_by_the_causes_in_the_writer_and_then_by_number(
    one: Item, other: Item, number: int, offset: int, other_offset: int
) -> None:
    mine, its = read(one, number, 5, offset, T), read(other, 3, 0, other_offset, T)
    if (one, number) != (other, 3):
        assert (mine < its) == ((one, number) < (other, 3))
        assert (cause_of(mine) < cause_of(its)) == (mine < its)  # and so on, from service to service
    assert (where(mine), where(its)) == ((5, offset), (0, other_offset))


@given(st.integers(1, 6), st.integers(0, 10), texts)
def test_each_partition_is_written_by_one_output_partition_alone(writers: int, more: int, key: bytes) -> None:
    partitions = writers + more
    owned = [list(partitions_of(writer, writers, partitions)) for writer in range(writers)]
    assert sorted(p for mine in owned for p in mine) == list(range(partitions))
    for writer in range(writers):
        assert partition_of(key, writer, writers, partitions) in owned[writer]


def test_a_header_that_is_neither_place_nor_mark_has_no_time() -> None:
    assert time_of(b"short") is None
    assert time_of(b"\xff" * 8) is None
    assert time_of(header_of([(PLACE, b"x"), (PLACE, time_bytes(5) + b"more"), ("x", None)], PLACE)) == 5
    assert time_of(header_of([(PLACE, b"x")], MARK)) is None

"""The buffer: chunks of time slots, bounded, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine import avro, slots
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME, TIMER_RANK, Item
from moneystate.engine.keygroup import slot_width_ms
from moneystate.engine.slots import FAR, OPEN_CHUNKS, SEALED_BYTES, Slot
from moneystate.engine.state import MemoryState
from tests.engine.tiny import ALPHA, TinyRun

WIDTH = 1_000


def item(time: int, offset: int, rank: int = 2, size: int = 10) -> Item:
    return (time, rank, 0, 3, 1, offset, time, b"user", b"v" * size)


class Buffer:
    """The slots of one key group, changed as `run_batch` does it: taken and put, then applied together."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.slots: dict[int, Slot] = {}

    def batch(self, put: list[Item], watermark: int = MIN_EVENT_TIME, width: int = WIDTH) -> list[Item]:
        due: list[Item] = []
        later: list[Item] = []
        changes = dict(slots.take_due(self.slots, self.state, watermark, due, later))
        changes.update(slots.put_later(self.slots, self.state, width, watermark, later + put))
        self.state.apply(list(changes.items()))
        return due

    def sizes(self) -> list[int]:
        return [len(entry) for entry in self.state.entries.values()]


def test_items_come_back_once_the_watermark_has_passed_them() -> None:
    buffer = Buffer()
    items = [item(time, n) for n, time in enumerate([0, 999, 1_000, 2_500])]
    buffer.batch(items)
    assert buffer.batch([], 0) == []
    assert sorted(buffer.batch([], 1_000)) == items[:2]
    assert sorted(buffer.batch([], 2_501)) == items[2:]
    assert (buffer.slots, buffer.state.entries) == ({}, {})


def test_a_watermark_inside_a_slot_leaves_the_rest_of_it() -> None:
    buffer = Buffer()
    buffer.batch([item(100, 0), item(500, 1), item(900, 2)])
    assert [i[5] for i in buffer.batch([], 500)] == [0]
    assert buffer.slots[0].events == 2
    assert sorted(i[5] for i in buffer.batch([], 1_000)) == [1, 2]


def test_small_chunks_are_merged_into_one() -> None:
    buffer = Buffer()
    for n in range(OPEN_CHUNKS):
        buffer.batch([item(10, n)])
    assert len(buffer.state.entries) == OPEN_CHUNKS
    buffer.batch([item(10, OPEN_CHUNKS)])
    assert len(buffer.state.entries) == 1
    assert sorted(i[5] for i in buffer.batch([], WIDTH)) == list(range(OPEN_CHUNKS + 1))


def test_a_full_chunk_is_not_touched_again() -> None:
    buffer = Buffer()
    buffer.batch([item(10, 0, size=SEALED_BYTES)])
    sealed = dict(buffer.state.entries)
    for n in range(1, 40):
        buffer.batch([item(10, n)])
        assert sealed.items() <= buffer.state.entries.items()


def test_entries_stay_bounded_however_many_batches_fill_a_slot() -> None:
    buffer = Buffer()
    for n in range(400):
        buffer.batch([item(10, n, size=2_000)])
    assert max(buffer.sizes()) < SEALED_BYTES + (OPEN_CHUNKS + 1) * 2_100
    assert len(buffer.state.entries) < 400 * 2_100 / SEALED_BYTES + OPEN_CHUNKS + 1
    assert sorted(i[5] for i in buffer.batch([], WIDTH)) == list(range(400))


def test_entries_stay_bounded_when_the_watermark_stands_inside_a_slot() -> None:
    buffer = Buffer()
    for n in range(400):
        buffer.batch([item(500, n, size=2_000)])
    buffer.batch([], watermark=400)
    assert max(buffer.sizes()) < SEALED_BYTES + 2_100
    assert sorted(i[5] for i in buffer.batch([], WIDTH)) == list(range(400))


def test_what_one_batch_has_for_a_slot_is_cut_into_chunks() -> None:
    buffer = Buffer()
    for n in range(OPEN_CHUNKS):
        buffer.batch([item(10, n)])
    buffer.batch([item(10, n, size=2_000) for n in range(OPEN_CHUNKS, 100)])
    assert max(buffer.sizes()) < SEALED_BYTES + 2_100 + OPEN_CHUNKS * 100
    assert buffer.slots[0].events == 100
    assert sorted(i[5] for i in buffer.batch([], WIDTH)) == list(range(100))
    assert buffer.state.entries == {}


def test_another_slot_width_leaves_older_slots_readable() -> None:
    buffer = Buffer()
    buffer.batch([item(time, time) for time in range(0, 8_000, 500)], width=4_000)
    buffer.batch([item(time, time) for time in range(250, 8_000, 500)], width=1_000)
    taken: list[int] = []
    for watermark in range(0, 8_001, 700):
        due = [i[0] for i in buffer.batch([], watermark, width=300)]
        assert all(time < watermark for time in due)
        taken += due
    taken += [i[0] for i in buffer.batch([], 8_000)]
    assert sorted(taken) == list(range(0, 8_000, 250))


def test_timers_far_ahead_make_few_slots_and_come_back_in_time() -> None:
    """A million timers over 30 days would make a slot for each second of them: a clock of more than 1 MB."""
    buffer, day = Buffer(), 86_400_000
    times = range(0, 30 * day, 30 * day // 20_000)
    buffer.batch([item(time, n, rank=TIMER_RANK) for n, time in enumerate(times)], 0)
    most, taken, watermark = len(buffer.slots), 0, 0
    while watermark <= times[-1]:
        watermark += 1_000 if watermark < 20_000 else 3 * watermark // 7
        due = buffer.batch([], watermark)
        assert sorted(i[0] for i in due) == [time for time in times[taken:] if time < watermark]
        assert all(start > watermark - WIDTH for start in buffer.slots)
        taken, most = taken + len(due), max(most, len(buffer.slots))
    assert most < 1_500
    assert (taken, buffer.slots, buffer.state.entries) == (20_000, {}, {})


def test_a_slot_wider_than_its_way_would_be_taken_again_by_each_batch() -> None:
    for distance in range(0, 10_000_000, 977):
        start = slots.slot_start(5_000_123 + distance, 5_000_123, 7)
        assert start >= 5_000_123 or distance < 7
        assert 5_000_123 + distance - start <= max(7, distance // FAR)


def test_a_changed_bound_between_batches_loses_nothing() -> None:
    run = TinyRun()
    for bound in (80_000, 800, 24_000, 2_000):
        run.sim.bound_ms = bound
        for n in range(20):
            run.log.put(ALPHA, 100_000 + n * 731, f"{bound}-{n}")
        run.batch()
    run.batch(drain=True)
    assert len([key for key in run.stepped() if not key.startswith("(")]) == 80
    assert set(run.sim.states[0].entries) == {b"c"}


def test_timers_are_no_buffered_events() -> None:
    buffer = Buffer()
    buffer.batch([item(10, 0), item(10, 1, rank=TIMER_RANK)])
    assert buffer.slots[0].events == 1


def test_chunk_keys_sort_by_time_then_number() -> None:
    places = [(start, n) for start in (MIN_EVENT_TIME, -1, 0, 1, MAX_EVENT_TIME) for n in (0, 1, 255, 256)]
    keys = [slots.chunk_key(start, n) for start, n in places]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("entry", [None, b"", b"\xc3\x01" + bytes(8)])
def test_a_missing_or_foreign_chunk_is_an_error(entry: bytes | None) -> None:
    with pytest.raises(avro.Malformed):
        slots.open_chunk(entry)


def test_a_slot_is_an_eighth_of_the_bound_and_at_least_a_second() -> None:
    assert [slot_width_ms(bound) for bound in (0, 2_000, 20_000, 86_400_000)] == [1_000, 1_000, 2_500, 10_800_000]


numbers = st.integers(-(2**62), 2**62)
items = st.tuples(
    st.integers(MIN_EVENT_TIME, MAX_EVENT_TIME), st.integers(0, 9), numbers, st.integers(0, 255), st.integers(0, 2**31),
    st.integers(0, 2**62), numbers, st.binary(max_size=40), st.binary(max_size=200),
)  # fmt: skip


@given(st.lists(items, max_size=20))
def test_items_survive_their_encoding(some: list[Item]) -> None:
    out = bytearray()
    for one in some:
        slots.encode_item(out, one)
    count, block = slots.open_chunk(slots.encode_chunk(len(some), bytes(out)))
    back: list[Item] = []
    slots.decode_items(block, count, back)
    assert back == some


rounds = st.tuples(
    # items to put, some of them far ahead
    st.lists(
        st.tuples(st.integers(-20, 60) | st.integers(60, 90_000), st.sampled_from([1, 50, SEALED_BYTES])), max_size=12
    ),
    st.integers(0, 12) | st.integers(0, 3_000),  # watermark moves by
    st.sampled_from([1, 3, 10, 1_000]),  # slot width
)


@given(st.lists(rounds, max_size=30))
def test_whatever_goes_in_comes_out_once_and_in_time(
    batches: list[tuple[list[tuple[int, int]], int, int]],
) -> None:
    buffer, watermark, offset = Buffer(), -20, 0
    expected: list[Item] = []
    for put, moved, width in batches:
        watermark += moved
        fresh = [item(max(time, watermark), offset + n, size=size) for n, (time, size) in enumerate(put)]
        offset += len(put)
        due = buffer.batch(fresh, watermark, width)
        assert sorted(due) == sorted(i for i in expected if i[0] < watermark)
        expected = [i for i in expected if i[0] >= watermark] + fresh
        assert sum(slot.events for slot in buffer.slots.values()) == len(expected)
        assert max(buffer.sizes(), default=0) < (OPEN_CHUNKS + 2) * SEALED_BYTES + 1_000  # open chunks, merged
    assert sorted(buffer.batch([], 100_000)) == sorted(expected)
    assert buffer.state.entries == {}

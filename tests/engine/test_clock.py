"""A key group's clock: its round trip, and what of it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine import avro, clock
from moneystate.engine.clock import Clock
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.plan import STATE_VERSION
from moneystate.engine.slots import Slot

numbers = st.integers(-(2**61), 2**61)


@st.composite
def clocks(draw: st.DrawFn) -> Clock:
    made = Clock()
    made.watermark = draw(st.sampled_from([NO_TIME, END_OF_TIME, 0]) | numbers)
    made.highs = draw(st.dictionaries(st.tuples(st.integers(0, 255), st.integers(0, 10_000)), numbers, max_size=8))
    made.slots = {
        start: Slot(chunks, draw(st.integers(0, chunks)), draw(st.integers(0, 2**31 - 1)))
        for start in draw(st.lists(numbers, max_size=8, unique=True))
        for chunks in [draw(st.integers(0, 2**31 - 1))]
    }
    made.counts = draw(st.dictionaries(st.text(max_size=20), numbers, max_size=5))
    return made


@given(clocks())
def test_a_clock_survives_its_encoding(made: Clock) -> None:
    back = clock.decode(clock.encode(made))
    assert (back.state_version, back.watermark, back.highs, back.counts) == (
        made.state_version,
        made.watermark,
        made.highs,
        made.counts,
    )
    assert {s: (v.chunks, v.open_chunks, v.events) for s, v in back.slots.items()} == {
        s: (v.chunks, v.open_chunks, v.events) for s, v in made.slots.items()
    }


@given(clocks())
def test_the_bytes_do_not_depend_on_the_order_of_insertion(made: Clock) -> None:
    turned = Clock()
    turned.watermark = made.watermark
    turned.highs = dict(reversed(made.highs.items()))
    turned.slots = dict(reversed(made.slots.items()))
    turned.counts = dict(reversed(made.counts.items()))
    assert clock.encode(turned) == clock.encode(made)


def test_without_an_entry_the_clock_is_a_new_one() -> None:
    made = clock.decode(None)
    assert (made.watermark, made.highs, made.buffered()) == (NO_TIME, {}, 0)


def test_an_unknown_schema_is_refused() -> None:
    with pytest.raises(avro.Malformed):
        clock.decode(b"\xc3\x01" + bytes(8) + clock.encode(Clock())[10:])


def with_state_version(version: int) -> bytes:
    """A new clock's entry as a program of this state version writes it; the version is its first field."""
    entry = clock.encode(Clock())
    own = avro.long_bytes(STATE_VERSION)
    assert entry[avro.HEADER_BYTES :].startswith(own)
    return entry[: avro.HEADER_BYTES] + avro.long_bytes(version) + entry[avro.HEADER_BYTES + len(own) :]


def test_a_newer_state_version_is_refused() -> None:
    with pytest.raises(avro.Malformed, match=f"version {STATE_VERSION + 1}"):
        clock.decode(with_state_version(STATE_VERSION + 1))


def test_an_older_state_version_is_read_and_this_programs_written() -> None:
    older = clock.decode(with_state_version(STATE_VERSION - 1))
    assert older.state_version == STATE_VERSION - 1
    assert clock.encode(older) == with_state_version(STATE_VERSION)


def test_counts_add_up_and_may_go_down() -> None:
    made = Clock()
    made.add_counts({"waiting": 2, "late": 1})
    made.add_counts({"waiting": -2})
    assert made.counts == {"waiting": 0, "late": 1}

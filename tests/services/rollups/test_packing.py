"""Bytes and bins: what is packed is read again, merging is exact, and bins are the same on every machine."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from services.rollups import bins, blocks, buckets, columns, stats, tails, varints
from services.rollups.blocks import Block
from services.rollups.columns import Frame, Slot
from services.rollups.stats import Stats
from services.rollups.tails import Row
from services.rollups.tiers import DAYS, HOUR, HOURS, QUARTER

LENGTH = 1_692
DIGEST = "146e60f952a6e78cdb26ba712cc9945a80a8a94d28df5ae00395865626b65a45"
VALUES = st.one_of(st.integers(-300, 300), st.integers(1 - 2**53, 2**53 - 1))
ROWS = st.builds(
    lambda at, id, values: Row(at, id, sorted(values), [values[n] for n in sorted(values)]),
    st.integers(0, 59_999), st.none() | st.text(max_size=8), st.dictionaries(st.integers(0, 999), VALUES, min_size=1),
)  # fmt: skip
SERIES = st.lists(st.tuples(st.integers(0, QUARTER - 1), VALUES), min_size=1, max_size=30, unique_by=lambda it: it[0])


def made(pairs: list[tuple[int, int]], start: int = 0, counter: bool = False) -> Stats:
    pairs = sorted(pairs)
    values = [abs(value) if counter else value for _, value in pairs]
    return stats.of_values([start + at for at, _ in pairs], values, counter, True)


def seen(its: Stats) -> tuple[object, ...]:
    return tuple(getattr(its, name) for name in Stats.__slots__)


@given(st.lists(st.integers(-(2**90), 2**90)))
def test_numbers_of_any_size_are_read_again(numbers: list[int]) -> None:
    out = bytearray()
    for number in numbers:
        varints.write_signed(out, number)
    reader = varints.Reader(bytes(out))
    assert [reader.signed() for _ in numbers] == numbers
    assert not reader.more()


@given(st.sets(st.integers(0, 5_000)))
def test_runs_are_read_again(numbers: set[int]) -> None:
    out = bytearray()
    varints.write_runs(out, sorted(numbers))
    assert varints.Reader(bytes(out)).runs() == sorted(numbers)


@given(st.lists(ROWS, max_size=8))
def test_a_tail_has_its_rows_in_their_order(rows: list[Row]) -> None:
    packed = b""
    for row in rows:
        packed = tails.append(packed, row)
    assert list(tails.rows(packed)) == rows


@given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False))
def test_a_block_is_the_same_in_any_order_and_is_read_again(rows: list[Row], chance: random.Random) -> None:
    one, other = Block(), Block()
    for row in rows:
        one.add(row)
    shuffled = list(rows)
    chance.shuffle(shuffled)
    for row in shuffled:
        other.add(row)
    assert blocks.write(one) == blocks.write(other)
    read = blocks.read(blocks.write(one))
    assert (read.columns, read.ids) == (one.columns, one.ids)
    for number in one.columns:
        assert blocks.read(blocks.write(one), number).columns == {number: one.columns[number]}


@given(st.lists(SERIES, min_size=1, max_size=4), st.booleans())
def test_aggregates_merge_to_what_all_values_give(series: list[list[tuple[int, int]]], counter: bool) -> None:
    parts = [made(pairs, n * QUARTER, counter) for n, pairs in enumerate(series)]
    whole = made([(n * QUARTER + at, v) for n, pairs in enumerate(series) for at, v in pairs], 0, counter)
    assert seen(stats.merged(parts)) == seen(whole)
    out = bytearray()
    stats.write(out, whole, 0, 4 * QUARTER, 77)
    assert seen(stats.read(varints.Reader(bytes(out)), 0, 4 * QUARTER, 77)) == seen(whole)


@given(st.dictionaries(st.integers(0, 999), SERIES, max_size=5))
def test_a_bucket_is_read_again_as_a_whole_and_by_metric(metrics: dict[int, list[tuple[int, int]]]) -> None:
    its = {number: made(pairs) for number, pairs in metrics.items()}
    packed = buckets.pack(its, 0, QUARTER)
    assert {n: seen(it) for n, it in buckets.unpack(packed, 0, QUARTER).items()} == {n: seen(i) for n, i in its.items()}
    for number in its:
        assert list(buckets.unpack(packed, 0, QUARTER, number)) == [number]


@given(st.dictionaries(st.integers(0, 95), SERIES, max_size=9), st.integers(0, 2**40))
def test_a_column_is_read_again(hours: dict[int, list[tuple[int, int]]], chunk: int) -> None:
    chunk %= 5_000
    begin = chunk * HOURS.chunk_ms
    starts = [begin + n * HOUR for n in sorted(hours)]
    slots = [Slot(start, start + HOUR, 1 + n, 60 - n % 7, start if n % 3 else -1) for n, start in enumerate(starts)]
    frame = Frame(slots, [0, 7])
    assert columns.read_frame(columns.write_frame(frame, HOURS, chunk), HOURS, chunk) == frame
    column = {begin + n * HOUR: made(pairs, begin + n * HOUR) for n, pairs in hours.items() if n % 2}
    read = columns.read_column(columns.write_column(column, slots), slots)
    assert {start: seen(it) for start, it in read.items()} == {start: seen(it) for start, it in column.items()}


def test_days_of_a_frame_have_their_lengths() -> None:
    slots = [Slot(0, 23 * HOUR, 3, 1, 23 * HOUR), Slot(23 * HOUR, 48 * HOUR, 1, 2, 48 * HOUR)]
    frame = Frame(slots, [])
    assert columns.read_frame(columns.write_frame(frame, DAYS, 0), DAYS, 0) == frame


@given(VALUES)
def test_what_stands_for_a_bin_is_within_one_percent(value: int) -> None:
    result = bins.middle(bins.bin_of(value))
    assert 100 * abs(result.above - value * result.below) <= abs(value) * result.below


@given(st.lists(VALUES, min_size=1), st.sampled_from((0, 50, 90, 99, 100)))
def test_a_quantile_is_within_one_percent_and_between_the_values(values: list[int], percent: int) -> None:
    result = bins.quantile(bins.count(values), percent, min(values), max(values))
    exact = sorted(values)[percent * (len(values) - 1) // 100]
    assert 100 * abs(result.above - exact * result.below) <= abs(exact) * result.below
    assert min(values) * result.below <= result.above <= max(values) * result.below


def test_the_bounds_of_the_bins_never_change() -> None:
    assert (len(bins.BOUNDS), bins.BOUNDS[:4], bins.BOUNDS[-2] < 2**53 <= bins.BOUNDS[-1]) == (
        LENGTH, [0, 1, 2, 3], True,
    )  # fmt: skip
    assert hashlib.sha256(repr(bins.BOUNDS).encode()).hexdigest() == DIGEST

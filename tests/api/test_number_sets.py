"""Sets of numbers over a map against Python's own."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from moneystate.api.number_sets import NumberSet, Packed, RangeSet, uncovered

MOST = (1 << 63) - 1
SPREADS = (40, 300, 70_000, MOST)


class Kept(dict[str, Packed]):
    def put(self, id: str, record: Packed) -> None:
        self[id] = record

    def delete(self, id: str) -> None:
        self.pop(id, None)


@pytest.mark.parametrize("spread", SPREADS)
def test_a_set_finds_what_a_sorted_list_finds(spread: int) -> None:
    chance = random.Random(spread)
    entries, plain = Kept(), set[int]()
    numbers = NumberSet("n", entries)
    for _ in range(600):
        number = min(MOST, chance.choice((chance.randint(0, spread), 255, 256, spread, 65_535, 65_536)))
        if chance.random() < 0.6:
            numbers.add(number)
            plain.add(number)
        else:
            numbers.discard(number)
            plain.discard(number)
        asked, most = chance.randint(0, spread), chance.choice((spread, chance.randint(0, spread)))
        assert (number in numbers) == (number in plain)
        assert numbers.first(asked, most) == min([n for n in plain if asked <= n <= most], default=None)
        run = numbers.at_or_after(asked, most)
        assert (None if run is None else run.first) == numbers.first(asked, most)
        if run is not None:
            assert run.last + 1 not in plain
            assert run.last == run.first or run.last in plain
            assert run.last - run.first > 300 or set(range(run.first, run.last + 1)) <= plain
    assert max(len(entry.packed) for entry in entries.values()) <= 32
    assert list(numbers.between(0, MOST)) == sorted(plain)
    for number in plain:
        numbers.discard(number)
    assert not entries


def test_ranges_that_touch_become_one() -> None:
    chance = random.Random(1)
    entries, plain = Kept(), set[int]()
    ranges = RangeSet("r", entries)
    for _ in range(400):
        first = chance.randint(0, 1_000)
        last = min(1_000, first + chance.choice((0, 0, 1, 5)))
        ranges.add(first, last, 1_000)
        plain.update(range(first, last + 1))
        if chance.random() < 0.02:
            low = chance.randint(0, 200)
            ranges.remove_up_to(low)
            plain -= whole_ranges(plain, low)
        asked = chance.randint(0, 1_000)
        assert ranges.holds(asked, 1_000) == (asked in plain)
        nearest = ranges.at_or_after(asked, 1_000)
        start = min([n for n in plain if n >= asked], default=None)
        assert (nearest is None) == (start is None)
        if nearest is not None and start is not None:
            assert set(range(nearest.first, nearest.last + 1)) <= plain
            assert nearest.first - 1 not in plain
            assert nearest.last + 1 not in plain
            assert nearest.first <= start <= nearest.last
    ranges.remove_up_to(1_000)
    assert not entries


def test_runs_that_no_set_covers() -> None:
    chance = random.Random(2)
    for _ in range(200):
        entries = Kept()
        numbers, ranges = NumberSet("n", entries), RangeSet("r", entries)
        for n in chance.sample(range(60), chance.randrange(30)):
            numbers.add(n)
        for n in chance.sample(range(60), chance.randrange(6)):
            ranges.add(n, n + chance.randrange(9), 99)
        runs = uncovered(5, 50, partial(numbers.at_or_after, most=99), partial(ranges.at_or_after, most=99))
        single = [n for n in range(5, 51) if n not in numbers and not ranges.holds(n, 99)]
        listed = list(runs)
        assert [n for run in listed for n in range(run.first, run.last + 1)] == single
        assert all(one.last + 1 < other.first for one, other in itertools.pairwise(listed))


def whole_ranges(plain: set[int], low: int) -> set[int]:
    """The numbers of the ranges that end by `low`."""
    gone = {n for n in plain if n <= low}
    while gone and max(gone) + 1 in plain:
        top = max(gone)
        while top in gone:
            gone.discard(top)
            top -= 1
    return gone


def test_far_ranges_take_as_little_as_near_ones() -> None:
    entries = Kept()
    ranges = RangeSet("r", entries)
    ranges.add(1, MOST, 0)
    assert ranges.at_or_after(5, MOST) == (1, MOST)
    assert len(entries) == 9

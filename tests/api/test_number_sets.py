"""Sets of numbers and ranges over maps against Python's own."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest

from moneystate.api.entries import Entries
from moneystate.api.number_sets import NumberSet, Packed, RangeMap

MOST = (1 << 63) - 1
SPREADS = (40, 300, 70_000, MOST)
T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    first: int
    last: int
    name: str = ""


class Kept(Entries[T], Generic[T]):
    """Entries in a dict, with nothing around them."""

    def __init__(self) -> None:
        self.kept: dict[str, T] = {}

    def get(self, id: str) -> T | None:
        return self.kept.get(id)

    def put(self, id: str, record: T) -> None:
        self.kept[id] = record

    def delete(self, id: str) -> None:
        self.kept.pop(id, None)


@pytest.mark.parametrize("spread", SPREADS)
def test_a_set_finds_what_a_sorted_list_finds(spread: int) -> None:
    chance = random.Random(spread)
    entries, plain = Kept[Packed](), set[int]()
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
    assert max(len(entry.packed) for entry in entries.kept.values()) <= 32
    assert list(numbers.between(0, MOST)) == sorted(plain)
    for number in plain:
        numbers.discard(number)
    assert not entries.kept


def test_ranges_are_put_and_cut_as_the_numbers_in_them() -> None:
    chance = random.Random(1)
    for _ in range(40):
        numbers, entries, plain = Kept[Packed](), Kept[Span](), dict[int, str]()
        ranges = RangeMap("r", numbers, entries, 0)
        for step in range(30):
            first = chance.randint(0, 600)
            last = first + chance.choice((0, 0, 1, 5, 300))
            ranges.cut(first, last)
            for number in range(first, last + 1):
                plain.pop(number, None)
            if chance.random() < 0.7:
                ranges.put(Span(first, last, str(step)))
                plain |= dict.fromkeys(range(first, last + 1), str(step))
            everything = list(ranges.between(0, MOST))
            assert {n: one.name for one in everything for n in range(one.first, one.last + 1)} == plain
            assert sum(one.last - one.first + 1 for one in everything) == len(plain)
            asked, to = chance.randint(0, 700), chance.randint(0, 700)
            after = ranges.at_or_after(asked)
            assert after == next((one for one in everything if one.last >= asked), None)
            free = [n for one in ranges.uncovered(asked, to) for n in range(one[0], one[1] + 1)]
            assert free == [n for n in range(asked, to + 1) if n not in plain]
            touching = [one for one in everything if one.first <= to and one.last >= asked]
            assert list(ranges.between(asked, to)) == (touching if asked <= to else [])
        ranges.cut(0, MOST)
        assert not numbers.kept
        assert not entries.kept


def test_what_is_put_while_free_numbers_are_listed_is_no_part_of_them() -> None:
    ranges = RangeMap("r", Kept[Packed](), Kept[Span](), 0)
    ranges.put(Span(3, 4))
    for first, last in ranges.uncovered(1, 9):
        ranges.put(Span(first, last, "new"))
    assert list(ranges.between(1, 9)) == [Span(1, 2, "new"), Span(3, 4), Span(5, 9, "new")]


def test_far_ranges_take_as_little_as_near_ones() -> None:
    numbers = Kept[Packed]()
    ranges = RangeMap("r", numbers, Kept[Span](), 0)
    ranges.put(Span(1, MOST))
    assert ranges.at_or_after(5) == Span(1, MOST)
    assert len(numbers.kept) == 8

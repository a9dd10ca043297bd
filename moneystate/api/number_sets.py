"""Ordered sets of integers over a map. Entries stay small, and no operation slows down as the set grows.

    open = ms.NumberSet("open", numbers)      # numbers: ms.Entries[ms.Packed], of service.map("numbers", ms.Packed)
    open.add(7)
    open.first(3, most=100)                   # 7

Several sets can share a map under different names, which must not begin alike. Numbers are from 0 to 2**63 - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from moneystate.api.handles import Map
    from moneystate.api.view import View

BITS: Final = 8  # of a number, for each level
MASK: Final = (1 << BITS) - 1
ALL: Final = (1 << MASK + 1) - 1


@dataclass(frozen=True)
class Packed:
    """An entry of a set."""

    packed: bytes


class PackedEntries(Protocol):
    def get(self, id: str) -> Packed | None: ...

    def put(self, id: str, record: Packed) -> None: ...

    def delete(self, id: str) -> None: ...


class ViewedEntries:
    """The entries of a key for sets in queries, which can only be read."""

    def __init__(self, view: View, of: Map[Packed], key: str) -> None:
        self.view = view
        self.of = of
        self.key = key

    def get(self, id: str) -> Packed | None:
        return self.view.entry(self.of, self.key, id)

    def put(self, id: str, record: Packed) -> Any:
        raise TypeError("a query cannot change a set")

    def delete(self, id: str) -> Any:
        raise TypeError("a query cannot change a set")


class Range(NamedTuple):
    """`last` belongs to it."""

    first: int
    last: int


class NumberSet:
    """A trie of bitmaps. The node `index` of `level` says which of its 256 children hold numbers; on level 0 these are
    the numbers themselves. A number is on as many levels as it has bytes, so small numbers have few."""

    def __init__(self, name: str, entries: PackedEntries) -> None:
        self.name = name
        self.entries = entries

    def __contains__(self, number: int) -> bool:
        return bool(self._node(0, number >> BITS) >> (number & MASK) & 1)

    def add(self, number: int) -> None:
        for level in range(_levels(number)):
            bits = self._node(level, number >> BITS)
            self._put(level, number >> BITS, bits | 1 << (number & MASK))
            if bits:
                return
            number >>= BITS

    def discard(self, number: int) -> None:
        for level in range(_levels(number)):
            bits = self._node(level, number >> BITS) & ~(1 << (number & MASK))
            self._put(level, number >> BITS, bits)
            if bits:
                return
            number >>= BITS

    def first(self, number: int, most: int) -> int | None:
        """The least one from `number` to `most`."""
        level = 0
        while number <= most >> level * BITS:
            bits = self._node(level, number >> BITS) >> (number & MASK)
            if bits:
                number += _lowest(bits)
                for below in range(level - 1, -1, -1):
                    number = number << BITS | _lowest(self._node(below, number))
                return number if number <= most else None
            number = (number >> BITS) + 1
            level += 1
        return None

    def between(self, first: int, last: int) -> Iterator[int]:
        """All from `first` to `last`, in order."""
        number = self.first(first, last)
        while number is not None:
            yield number
            number = self.first(number + 1, last)

    def at_or_after(self, number: int, most: int) -> Range | None:
        """The numbers without a gap from the first one on that is neither below `number` nor above `most`."""
        first = self.first(number, most)
        return None if first is None else Range(first, self._first_absent(first) - 1)

    def _first_absent(self, number: int) -> int:
        while True:
            bits = (self._node(0, number >> BITS) ^ ALL) >> (number & MASK)
            if bits:
                return number + _lowest(bits)
            number = (number | MASK) + 1

    def _node(self, level: int, index: int) -> int:
        node = self.entries.get(f"{self.name}{level}:{index}")
        return 0 if node is None else int.from_bytes(node.packed, "big")

    def _put(self, level: int, index: int, bits: int) -> None:
        id = f"{self.name}{level}:{index}"
        if bits:
            self.entries.put(id, Packed(bits.to_bytes((bits.bit_length() + 7) // 8, "big")))
        else:
            self.entries.delete(id)


def _levels(number: int) -> int:
    return max(1, (number.bit_length() + BITS - 1) // BITS)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


class RangeSet:
    """Ranges that neither overlap nor touch: those that do become one."""

    def __init__(self, name: str, entries: PackedEntries) -> None:
        self.name = name
        self.entries = entries
        self.ends = NumberSet(name, entries)

    def at_or_after(self, number: int, most: int) -> Range | None:
        """The range that holds `number`, else the next one; none that ends above `most`."""
        last = self.ends.first(number, most)
        if last is None:
            return None
        entry = self.entries.get(f"{self.name}={last}")
        assert entry is not None
        return Range(int.from_bytes(entry.packed, "big"), last)

    def holds(self, number: int, most: int) -> bool:
        nearest = self.at_or_after(number, most)
        return nearest is not None and nearest.first <= number

    def add(self, first: int, last: int, most: int) -> None:
        while (other := self.at_or_after(max(0, first - 1), most)) is not None and other.first <= last + 1:
            first, last = min(first, other.first), max(last, other.last)
            self.remove(other)
        self.ends.add(last)
        self.entries.put(f"{self.name}={last}", Packed(first.to_bytes(8, "big")))

    def remove(self, one: Range) -> None:
        self.ends.discard(one.last)
        self.entries.delete(f"{self.name}={one.last}")

    def remove_up_to(self, number: int) -> None:
        """All ranges that end by `number`."""
        while (one := self.at_or_after(0, number)) is not None:
            self.remove(one)


def uncovered(first: int, last: int, *sets: Callable[[int], Range | None]) -> Iterator[Range]:
    """The runs of numbers from `first` to `last` that are in none of the sets. Each is given by a function like
    `at_or_after`."""
    while first <= last:
        runs = [run for at_or_after in sets if (run := at_or_after(first)) is not None]
        covered = max([run.last for run in runs if run.first <= first], default=None)
        if covered is None:
            end = min([last, *[run.first - 1 for run in runs]])
            yield Range(first, end)
            covered = end
        first = covered + 1

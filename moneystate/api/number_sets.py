"""Ordered sets of integers over a map, and of ranges. Entries stay small, and no operation slows down as they grow.

    open = ms.NumberSet("open", numbers)      # numbers: ms.Entries[ms.Packed], of service.map("numbers", ms.Packed)
    open.add(7)
    open.first(3, most=100)                   # 7

Several sets can share a map under different names, which must not begin alike. Numbers are from 0 to 2**63 - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from moneystate.api.entries import Entries

R = TypeVar("R", bound=Any)  # a frozen dataclass with `first` and `last`

BITS: Final = 8  # of a number, for each level
MASK: Final = (1 << BITS) - 1


@dataclass(frozen=True)
class Packed:
    """An entry of a set."""

    packed: bytes


class PackedEntries(Protocol):
    def get(self, id: str) -> Packed | None: ...

    def put(self, id: str, record: Packed) -> None: ...

    def delete(self, id: str) -> None: ...


class NumberSet:
    """A trie of bitmaps. A node has a bit for each of its 256 children: whether the child holds numbers. On level 0 the
    children are the numbers themselves. A number has one level for each of its bytes, so small numbers need few."""

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
        """The smallest number of the set from `number` to `most`."""
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
        """The numbers of the set from `first` to `last`, in order."""
        number = self.first(first, last)
        while number is not None:
            yield number
            number = self.first(number + 1, last)

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


class RangeMap(Generic[R]):
    """Ranges that do not overlap. Each is a map entry with the fields `first` and `last`."""

    def __init__(self, name: str, numbers: PackedEntries, ranges: Entries[R], most: int) -> None:
        self.ends = NumberSet(name, numbers)
        self.ranges = ranges
        # an upper limit of all numbers, which the caller keeps in its state; a smaller one reads fewer entries
        self.most = most

    def at_or_after(self, number: int) -> R | None:
        """The range that contains `number`, or else the next range."""
        last = self.ends.first(number, self.most)
        return None if last is None else self.ranges[str(last)]

    def between(self, first: int, last: int) -> Iterator[R]:
        """The ranges that overlap with these numbers, in order. The caller may replace or cut each one before it
        continues."""
        one = self.at_or_after(first) if first <= last else None
        while one is not None and one.first <= last:
            yield one
            one = self.at_or_after(one.last + 1)

    def put(self, one: R) -> None:
        """Adds a range that does not overlap with others, or replaces the range with the same `last`."""
        self.ends.add(one.last)
        self.ranges.put(str(one.last), one)
        self.most = max(self.most, one.last)

    def cut(self, first: int, last: int) -> None:
        """Removes these numbers from their ranges. The rest of a range keeps its other fields."""
        for one in self.between(first, last):
            if one.last <= last:
                self.ends.discard(one.last)
                self.ranges.delete(str(one.last))
            else:
                self.put(replace(one, first=last + 1))
            if one.first < first:
                self.put(replace(one, last=first - 1))

    def uncovered(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The gaps between the ranges, within these numbers, as (first, last). The caller may fill each gap before it
        continues."""
        for one in self.between(first, last):
            if first < one.first:
                yield first, one.first - 1
            first = one.last + 1
        if first <= last:
            yield first, last

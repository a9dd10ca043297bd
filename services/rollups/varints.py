"""Whole numbers as bytes: seven bits a byte, the lowest first, and a high bit that says that more follow. A signed
number is zig-zag coded first (0, -1, 1, -2), as Avro does it. There is no limit of 64 bits: sums have more."""

from __future__ import annotations

from collections.abc import Iterable


def write(out: bytearray, number: int) -> None:
    """Appends a number from 0 on."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def write_signed(out: bytearray, number: int) -> None:
    write(out, number << 1 if number >= 0 else ~number << 1 | 1)


def write_bytes(out: bytearray, content: bytes) -> None:
    write(out, len(content))
    out += content


def write_runs(out: bytearray, numbers: Iterable[int]) -> None:
    """Appends ascending numbers from 0 on as runs without gaps: how many runs, and of each its distance from the one
    before and its length."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    write(out, len(runs))
    before = 0
    for start, end in runs:
        write(out, start - before)
        write(out, end - start)
        before = end


def signed_of(number: int) -> int:
    """The inverse of the zig-zag code."""
    return ~(number >> 1) if number & 1 else number >> 1


class Reader:
    """Reads numbers one after the other."""

    def __init__(self, packed: bytes, pos: int = 0) -> None:
        self.packed = packed
        self.pos = pos

    def more(self) -> bool:
        return self.pos < len(self.packed)

    def number(self) -> int:
        packed = self.packed
        byte = packed[self.pos]
        self.pos += 1
        if byte < 0x80:
            return byte
        number = byte & 0x7F
        shift = 7
        while True:
            byte = packed[self.pos]
            self.pos += 1
            if byte < 0x80:
                return number | byte << shift
            number |= (byte & 0x7F) << shift
            shift += 7

    def numbers(self, n: int) -> list[int]:
        """So many of them, in less time than one by one."""
        packed, pos = self.packed, self.pos
        numbers: list[int] = []
        for _ in range(n):
            number = packed[pos]
            pos += 1
            if number >= 0x80:
                number &= 0x7F
                shift = 7
                while packed[pos] >= 0x80:
                    number |= (packed[pos] & 0x7F) << shift
                    shift += 7
                    pos += 1
                number |= packed[pos] << shift
                pos += 1
            numbers.append(number)
        self.pos = pos
        return numbers

    def signed(self) -> int:
        return signed_of(self.number())

    def bytes(self) -> bytes:
        size = self.number()
        start = self.pos
        self.pos = start + size
        return self.packed[start : self.pos]

    def runs(self) -> list[int]:
        numbers: list[int] = []
        before = 0
        for _ in range(self.number()):
            start = before + self.number()
            before = start + self.number()
            numbers.extend(range(start, before))
        return numbers

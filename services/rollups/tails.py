"""The readings of one minute as they came: a reading is appended, and the readings before it stay as they are.

A reading is: its time in the minute, its id, the numbers of its metrics as runs, and their values. The values of the
first reading stand as they are, those of others as differences to it. So a reading needs only the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from services.rollups import varints


class Row(NamedTuple):
    """`at`: ms after the beginning of the minute or the block; `numbers`: of metrics, ascending; `values`: theirs."""

    at: int
    id: str | None
    numbers: Sequence[int]
    values: Sequence[int]


def append(packed: bytes, row: Row) -> bytes:
    out = bytearray(packed)
    first = _first_values(packed) if packed else {}
    varints.write(out, row.at)
    if row.id is None:
        out.append(0)
    else:
        id = row.id.encode()
        varints.write(out, len(id) + 1)
        out += id
    varints.write_runs(out, row.numbers)
    for number, value in zip(row.numbers, row.values, strict=True):
        varints.write_signed(out, value - first.get(number, 0))
    return bytes(out)


def _first_values(packed: bytes) -> dict[int, int]:
    row = _read(varints.Reader(packed), {})
    return dict(zip(row.numbers, row.values, strict=True))


def rows(packed: bytes) -> Iterator[Row]:
    """Yields the rows in the order in which they came."""
    reader = varints.Reader(packed)
    first: dict[int, int] = {}
    while reader.more():
        row = _read(reader, first)
        first = first or dict(zip(row.numbers, row.values, strict=True))
        yield row


def _read(reader: varints.Reader, first: dict[int, int]) -> Row:
    at = reader.number()
    size = reader.number()
    id = None
    if size:
        end = reader.pos + size - 1
        id = reader.packed[reader.pos : end].decode()
        reader.pos = end
    numbers = reader.runs()
    return Row(at, id, numbers, [first.get(number, 0) + reader.signed() for number in numbers])

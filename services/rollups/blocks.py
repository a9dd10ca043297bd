"""The readings of a device in a quarter of an hour: which value of a metric counts at a time, and the block as bytes.

The bytes have one list of all rows, a row being a time and a reading's id, and then a column for each metric: in which
rows it has values, and their differences. So a query of one metric reads no other column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.rollups import stats, varints
from services.rollups.tails import Row
from services.rollups.tiers import QUARTER

MOST_ROWS: Final = 12_000  # of a block
PART_BYTES: Final = 200_000  # columns beyond it go into a further part, because an entry has a limit

Ids = dict[tuple[int, int], str]  # by metric and time


class Block:
    """`columns`: by the number of the metric, values by time in ms after the block's start; `ids`: of those that came
    with one."""

    def __init__(self) -> None:
        self.columns: dict[int, dict[int, int]] = {}
        self.ids: Ids = {}
        self.repeated = 0  # values for a time that has one
        self.refused = 0  # values beyond the most rows
        self.changed: set[int] = set()  # times at which a value was added or replaced

    def add(self, row: Row) -> None:
        at, id, numbers, values = row
        for number, value in zip(numbers, values, strict=True):
            column = self.columns.get(number)
            if column is None:
                column = self.columns[number] = {}
            if at not in column:
                if len(column) >= MOST_ROWS:
                    self.refused += 1
                    continue
            else:
                self.repeated += 1
                if not self._wins(number, at, id, value, column[at]):
                    continue
                self.ids.pop((number, at), None)
            column[at] = value
            self.changed.add(at)
            if id is not None:
                self.ids[number, at] = id

    def _wins(self, number: int, at: int, id: str | None, value: int, known: int) -> bool:
        """Against the known value: the least pair of id and value. No id loses against any."""
        its = self.ids.get((number, at))
        if id is None and its is None:
            return value < known
        if id is None or its is None:
            return its is None
        return (id, value) < (its, known)

    def remove(self, first: int, end: int, number: int | None) -> bool:
        """Removes the values of a time, of one metric or of all. Returns whether there were any."""
        removed = False
        for its, column in list(self.columns.items()):
            times = [at for at in column if first <= at < end] if number in (None, its) else []
            for at in times:
                del column[at]
                self.ids.pop((its, at), None)
                removed = True
            if not column:
                del self.columns[its]
        return removed

    def stats_of(
        self, number: int, start: int, first: int, end: int, counter: bool, percentiles: bool
    ) -> stats.Stats | None:
        """Computes the statistics of the values of a time. `start`: of the block; `first`, `end`: after it."""
        column = self.columns.get(number, {})
        times = sorted(column) if end - first == QUARTER else sorted([at for at in column if first <= at < end])
        if not times:
            return None
        values = [column[at] for at in times]
        return stats.of_values([start + at for at in times], values, counter, percentiles)


def write(block: Block) -> list[bytes]:
    """The parts of a block."""
    keys = _rows_of(block)
    places = {key: n for n, key in enumerate(keys)}
    out = bytearray()
    _write_rows(out, keys)
    parts: list[bytes] = []
    before = -1
    for number in sorted(block.columns):
        column = _column(block, number, places)
        if len(out) + len(column) > PART_BYTES and (parts or before >= 0):
            parts.append(bytes(out))
            out = bytearray()
            before = -1
        varints.write(out, number - before - 1)
        varints.write_bytes(out, column)
        before = number
    return [*parts, bytes(out)]


def _rows_of(block: Block) -> list[tuple[int, bool, str]]:
    """Returns the rows in order: time, whether the row has no id, its id."""
    if not block.ids:
        return [(at, True, "") for at in sorted({at for column in block.columns.values() for at in column})]
    rows = {_row_of(block, number, at) for number, column in block.columns.items() for at in column}
    return sorted(rows)


def _row_of(block: Block, number: int, at: int) -> tuple[int, bool, str]:
    id = block.ids.get((number, at))
    return (at, True, "") if id is None else (at, False, id)


def _write_rows(out: bytearray, rows: list[tuple[int, bool, str]]) -> None:
    has_ids = any(not without for _, without, _ in rows)
    varints.write(out, len(rows) << 1 | has_ids)
    before = step = 0
    for at, _, _ in rows:
        varints.write_signed(out, at - before - step)
        before, step = at, at - before
    for _, without, id in rows if has_ids else ():
        encoded = id.encode()
        varints.write(out, 0 if without else len(encoded) + 1)
        out += encoded


def _column(block: Block, number: int, places: dict[tuple[int, bool, str], int]) -> bytes:
    column = block.columns[number]
    out = bytearray()
    filled = sorted((places[_row_of(block, number, at)], value) for at, value in column.items())
    if len(filled) == len(places):
        out.append(1)
    else:
        out.append(0)
        varints.write_runs(out, [place for place, _ in filled])
    before = 0
    for _, value in filled:
        varints.write_signed(out, value - before)
        before = value
    return bytes(out)


def read(parts: Iterable[bytes], wanted: int | None = None) -> Block:
    """The inverse of `write`. `wanted`: only this metric."""
    block = Block()
    rows: list[tuple[int, str | None]] = []
    for n, part in enumerate(parts):
        reader = varints.Reader(part)
        if n == 0:
            rows = _read_rows(reader)
        number = -1
        while reader.more():
            number += reader.number() + 1
            column = reader.bytes()
            if wanted in (None, number):
                _read_column(block, number, varints.Reader(column), rows)
    return block


def _read_rows(reader: varints.Reader) -> list[tuple[int, str | None]]:
    n = reader.number()
    times: list[int] = []
    at = step = 0
    for _ in range(n >> 1):
        step += reader.signed()
        at += step
        times.append(at)
    ids = [_read_id(reader) if n & 1 else None for _ in times]
    return list(zip(times, ids, strict=True))


def _read_id(reader: varints.Reader) -> str | None:
    size = reader.number()
    if size == 0:
        return None
    start = reader.pos
    reader.pos = start + size - 1
    return reader.packed[start : reader.pos].decode()


def _read_column(block: Block, number: int, reader: varints.Reader, rows: list[tuple[int, str | None]]) -> None:
    column = block.columns[number] = {}
    value = 0
    has_all = reader.number()
    for at, id in rows if has_all else [rows[place] for place in reader.runs()]:
        value += reader.signed()
        column[at] = value
        if id is not None:
            block.ids[number, at] = id

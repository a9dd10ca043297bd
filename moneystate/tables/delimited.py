"""Rows of CSV (RFC 4180), with the lines on which they begin. The first line has the names of the columns."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import Final

from moneystate.errors import SourceError
from moneystate.tables.columns import Column, Declared, columns_of
from moneystate.tables.rows import Read, Row, Unreadable

LONGEST_CELL: Final = 1 << 24  # above what a record may have, so that the error names the record


def read_delimited(lines: Iterable[bytes], declared: Declared, delimiter: str, where: str) -> Iterator[Read]:
    """Raises SourceError for a header that does not fit, and ConfigError for types of columns that are not there."""
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(map(_text, _without_mark(lines)), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as e:
        raise SourceError(f"{where}, line 1: expected names of columns, but {e}.", "correct the line.") from None
    if not header:
        raise SourceError(f"{where}, line 1: expected names of columns, found none.", "write them into the first line.")
    columns = columns_of(header, declared, where)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            yield Unreadable(number, f"not CSV: {e}")
            continue
        if cells:  # not an empty line
            yield _row(number, cells, columns)


def _row(number: int, cells: list[str], columns: list[Column]) -> Read:
    if len(cells) != len(columns):
        return Unreadable(number, f"expected {len(columns)} cells, found {len(cells)}")
    return Row(number, {column.name: column.value(cell) for column, cell in zip(columns, cells, strict=True)})


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines without a byte order mark."""
    for n, line in enumerate(lines):
        yield line if n else line.removeprefix(BOM_UTF8)


def _text(line: bytes) -> str:
    """What is not UTF-8 becomes halves of surrogate pairs, which `Column` refuses: so the row's key is known."""
    return line.decode("utf-8", "surrogateescape")

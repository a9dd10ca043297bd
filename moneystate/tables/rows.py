"""Rows as sources give them, and what is wrong with some of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Document = dict[str, Any]  # a row as parsed JSON: its numbers are `moneystate.records.json_number.Number`

LINE: Final = "line"  # how the rows of a source are numbered
ROW: Final = "row"


class Row(NamedTuple):
    number: int  # its line or number, from 1
    document: Document


class Unreadable(NamedTuple):
    """A row of which not even the key can be known."""

    number: int
    why: str


Read = Row | Unreadable


class Problem(NamedTuple):
    """Describes why a row cannot be loaded."""

    number: int
    why: str

"""The values that a record has beside Python's own, and the error for those that a column cannot hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from moneystate.records.json_number import Number

DAY_MS: Final = 86_400_000


class BadValue(Exception):
    """A value that the column cannot hold as it is. Its text has no part of the value."""


class Time(int):
    """Milliseconds since the epoch."""


class Day(int):
    """Days since the epoch."""


class Unitless(Number):
    """A number that may be a time of an unknown unit."""


class _Kept:
    """The column keeps what it has: the database did not log its value."""

    def __repr__(self) -> str:
        return "KEPT"


KEPT: Final = _Kept()


class Written(Decimal):
    """A JSON number whose text is kept."""

    text: str

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, 0)
        made.text = str(text)
        return made

    def __str__(self) -> str:
        return self.text

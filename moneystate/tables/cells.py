"""Cells of text, as CSV has them: what they are is declared, never inferred.

    text     as it is
    int      a whole number
    number   a number, exactly as it is
    bool     true or false, t or f
    time     ISO-8601; without an offset it needs a zone
    date     2026-01-31
    json     any JSON

An empty cell is null, or the empty text where a record has a text that cannot be null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, tzinfo
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records import iso_time
from moneystate.records.json_number import Number
from moneystate.records.json_text import MAX_DIGITS, parse
from moneystate.tables.documents import time_text

Cell = Callable[[str], Any]  # raises Malformed

TEXT: Final = "text"
_WHOLE: Final = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_NUMBER: Final = re.compile(r"([+-]?)0*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "t": True, "false": False, "f": False}


def cell_readers(zone: tzinfo | None) -> dict[str, Cell]:
    """Returns the readers by the names of types. `zone`: of times without an offset; None: they are refused."""
    return {
        TEXT: str,
        "int": whole,
        "number": number,
        "bool": truth,
        "time": lambda text: time(text, zone),
        "date": day,
        "json": parse,
    }


def whole(text: str) -> Number:
    return _number(_WHOLE, text, "a whole number")


def number(text: str) -> Number:
    return _number(_NUMBER, text, "a number")


def _number(form: re.Pattern[str], text: str, expected: str) -> Number:
    """Returns the number as JSON writes it: without a plus and leading zeros."""
    match = form.fullmatch(text)
    if match is None:
        raise Malformed(f"not {expected}")
    if len(text) > MAX_DIGITS:
        raise Malformed(f"a number of more than {MAX_DIGITS:,} digits")
    return Number(match[1].replace("+", "") + match[2])


def truth(text: str) -> bool:
    known = _TRUTHS.get(text.lower())
    if known is None:
        raise Malformed("neither true nor false")
    return known


def time(text: str, zone: tzinfo | None) -> str:
    """Returns the time in UTC with milliseconds, as everywhere on the platform."""
    try:
        return iso_time.from_ms(iso_time.to_ms(text))
    except Malformed:
        moment = _local(text)
        if moment is None:
            raise
    return time_text(moment, zone)


def _local(text: str) -> datetime | None:
    """A time without an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is None and len(text) > len("2026-01-31") else None


def day(text: str) -> str:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise Malformed("not a date such as 2026-01-31")

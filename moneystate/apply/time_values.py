"""Times and dates as PostgreSQL reads them, in all years that it knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from moneystate.apply.column_types import ColumnType
from moneystate.apply.number_values import whole
from moneystate.apply.value_types import DAY_MS, BadValue, Day, Time, Unitless
from moneystate.engine.avro import Malformed
from moneystate.records import iso_time
from moneystate.records.json_number import Number

Writer = Callable[[Any], str]

FIRST_MS: Final = -210_866_803_200_000  # 4713 BC, where PostgreSQL's times begin
END_MS: Final = 9_224_318_016_000_000  # the year 294277, where they end
_ISO_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def ms_of(value: Any) -> int:
    """A point in time: milliseconds, or ISO-8601 text with an offset, whose further digits are dropped, as everywhere
    on the platform. Raises BadValue."""
    if isinstance(value, Unitless):
        raise BadValue("a time as a number needs the schema, which has its unit; let the converter write schemas")
    if isinstance(value, Day):
        return value * DAY_MS
    if type(value) is not bool and isinstance(value, int | Number):
        return whole(value)
    if type(value) is not str:
        raise BadValue("not a point in time")
    try:
        return iso_time.to_ms(value)
    except Malformed as e:
        raise BadValue(str(e)) from None


def time(kind: ColumnType) -> Writer:
    """A column of fewer digits than milliseconds takes the times that it can hold: PostgreSQL would round others."""
    unit = 10 ** (3 - min(3, 6 if kind.scale is None else kind.scale))
    zone = "Z" if kind.name == "timestamptz" else ""

    def write(value: Any) -> str:
        ms = ms_of(value)
        if ms % unit:
            raise BadValue(f"a time finer than {kind.scale} digits of a second")
        return _timestamp(ms).replace("Z", zone)

    return write


def _timestamp(ms: int) -> str:
    if not FIRST_MS <= ms < END_MS:
        raise BadValue("a time that PostgreSQL cannot store")
    text = iso_time.from_ms(ms)
    return text if text[0] not in "+-" and text[:4] != "0000" else _far(text)


def _far(text: str) -> str:
    """A time outside the years 1 to 9999, as PostgreSQL reads it: the year 0 is 1 BC."""
    year_end = text.index("-", 1)
    year = int(text[:year_end])
    return f"{year:04d}{text[year_end:]}" if year > 0 else f"{1 - year:04d}{text[year_end:]} BC"


def date(value: Any) -> str:
    if type(value) is str:
        if not _ISO_DAY.fullmatch(value):
            raise BadValue("not a date such as 2026-01-31")
        return value
    if isinstance(value, Day):
        return _timestamp(value * DAY_MS)[:10] if -719_162 <= value <= 2_932_896 else _far_day(value)
    if isinstance(value, Time) and value % DAY_MS == 0:
        return date(Day(value // DAY_MS))
    raise BadValue("not a date")


def _far_day(day: int) -> str:
    text = _timestamp(day * DAY_MS)
    day_text, _, rest = text.partition("T")
    return f"{day_text} BC" if rest.endswith("BC") else day_text

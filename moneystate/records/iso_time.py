"""Converts between text (RFC 3339) and milliseconds since the epoch, for the full range of a 64-bit count.

Python's datetime ends at the year 9999. Avro's timestamps do not, and one record with a strange time must not stop the
job while it writes JSON. The calendar repeats every 400 years, so `date` computes within one such cycle.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from moneystate.engine.avro import Malformed

_ISO = re.compile(
    r"(?P<year>\d{4}|[+-]\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"[Tt](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<offset_hour>\d\d)(?::?(?P<offset_minute>\d\d))?)",
    re.ASCII,
)
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_DAY_MINUTES = 24 * 60
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
# parts of a text, made once
_MAX_DATES: Final = 1_000
_dates: Final[dict[int, str]] = {}  # by day since the epoch; most times of a batch are of a few days
_HOURS: Final[list[str]] = [f"{n:02d}:" for n in range(24)]
_SIXTIETHS: Final[list[str]] = [f"{n:02d}" for n in range(60)]
_MILLIS: Final[list[str]] = [f".{n:03d}Z" for n in range(1000)]


def to_ms(text: str) -> int:
    """Date and time with `Z` or an offset (RFC 3339, also written in lower case), as ms since the epoch. Raises
    Malformed.

    Digits beyond the millisecond are dropped, which goes towards the past, like in Java's `Instant.toEpochMilli`: many
    producers have finer clocks. A leap second, which is 23:59:60 in UTC, is the second after it: a count of
    milliseconds since the epoch has none. Seconds may be absent, because Java omits zero seconds. Years may have a sign
    and more than four digits, as Java writes them. Times without an offset and 24:00 are rejected.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise Malformed("not a time with an offset, such as 2026-01-31T00:00:00Z (RFC 3339)")
    year, month, day, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups("0")
    clock = (int(hour), int(minute), int(second))
    offset = int(offset_hour), int(offset_minute)
    minutes = clock[0] * 60 + clock[1] + (offset[0] * 60 + offset[1]) * (1 if sign == "-" else -1)
    last_second = 60 if minutes % _DAY_MINUTES == _DAY_MINUTES - 1 else 59
    if max(clock[0], offset[0]) > 23 or max(clock[1], offset[1]) > 59 or clock[2] > last_second:
        raise Malformed("no such time of day or offset")
    ms = _day_of(int(year), int(month), int(day)) * _DAY_MS + minutes * 60_000 + clock[2] * 1000
    ms += int(fraction[:3].ljust(3, "0"))
    if not _LONG_MIN <= ms <= _LONG_MAX:
        raise Malformed("a time beyond 64 bits of milliseconds")
    return ms


def from_ms(ms: int) -> str:
    """`2020-12-16T00:00:00.000Z`. Years beyond 0000 to 9999 have a sign, as Java writes them."""
    day, of_day = divmod(ms, _DAY_MS)
    date_text = _dates.get(day)
    if date_text is None:
        if len(_dates) >= _MAX_DATES:
            _dates.clear()
        date_text = _dates[day] = _date_text(day)
    seconds, millis = divmod(of_day, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return date_text + _HOURS[hour] + _SIXTIETHS[minute] + ":" + _SIXTIETHS[second] + _MILLIS[millis]


def _date_text(day: int) -> str:
    cycle, in_cycle = divmod(day + _EPOCH_DAY - 1, _CYCLE_DAYS)
    on = date.fromordinal(in_cycle + 1)
    year = on.year + cycle * _CYCLE_YEARS
    year_text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{year_text}-{on.month:02d}-{on.day:02d}T"


def _day_of(year: int, month: int, day: int) -> int:
    """Days since the epoch."""
    cycle, in_cycle = divmod(year, _CYCLE_YEARS)
    try:
        ordinal = date(in_cycle + _CYCLE_YEARS, month, day).toordinal()
    except ValueError:
        raise Malformed("no such day") from None
    return ordinal + (cycle - 1) * _CYCLE_DAYS - _EPOCH_DAY

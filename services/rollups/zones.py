"""Local days, of the time zones of the package tzdata: those of the machine may be other ones."""

from __future__ import annotations

import importlib.resources
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from services.rollups.tiers import QUARTER

VERSION: Final[str] = tzdata.IANA_VERSION
MOST_AHEAD_MS: Final = 16 * 3_600_000  # of UTC, or behind it, with some room


class Day(NamedTuple):
    """A local day, in ms. The next local day begins at its end."""

    start: int
    end: int


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    listed = importlib.resources.files(tzdata).joinpath("zones").read_text(encoding="ascii")
    return frozenset(listed.split())


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """A zone of the package, by a name that is among `names`."""
    with importlib.resources.files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, name)


@lru_cache(maxsize=65_536)
def day_of(zone: str, time_ms: int) -> Day:
    """The local day that a quarter of an hour belongs to. Days begin at the first instants of local dates. If clocks
    go back over midnight, the hour that comes twice belongs to the day that has begun before it."""
    around = _date_at(zone, time_ms)
    starts = [_first_instant(zone, around + timedelta(days=n)) for n in range(-2, 4)]
    known = sorted({start for start in starts if start is not None})
    start = max(start for start in known if start <= time_ms)
    return Day(start, min(start for start in known if start > time_ms))


@lru_cache(maxsize=16_384)
def _first_instant(zone: str, wanted: date) -> int | None:
    """The first quarter of an hour that has a local date; None for a date that the zone has left out. Two zones had
    offsets of other minutes, until 1972 and 1979: there it is the next quarter."""
    midnight = int(datetime(wanted.year, wanted.month, wanted.day, tzinfo=UTC).timestamp()) * 1_000
    low, high = midnight - MOST_AHEAD_MS, midnight + MOST_AHEAD_MS
    for time_ms in range(low, high, QUARTER):
        if _date_at(zone, time_ms) == wanted:
            return time_ms
    return None


def _date_at(zone: str, time_ms: int) -> date:
    return datetime.fromtimestamp(time_ms // 1_000, zone_of(zone)).date()


def months_between(zone: str, start: int, end: int) -> list[Day]:
    """The local months that have a part of this time, from their first day to their last one."""
    months: list[Day] = []
    time_ms = start - start % QUARTER
    while time_ms < end:
        local = _date_at(zone, day_of(zone, time_ms).start)
        first = _first_of(zone, local.replace(day=1))
        after = _first_of(zone, (local.replace(day=1) + timedelta(days=32)).replace(day=1))
        months.append(Day(first, after))
        time_ms = after
    return months


def _first_of(zone: str, wanted: date) -> int:
    result = _first_instant(zone, wanted)
    return result if result is not None else _first_of(zone, wanted + timedelta(days=1))


def days_between(zone: str, start: int, end: int) -> list[Day]:
    """The local days that have a part of this time."""
    days: list[Day] = []
    time_ms = start - start % QUARTER
    while time_ms < end:
        days.append(day_of(zone, time_ms))
        time_ms = days[-1].end
    return days

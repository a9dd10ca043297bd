"""Local days of zones with odd ones, as their first instants say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from services.rollups import zones
from services.rollups.tiers import HOUR, QUARTER


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


@pytest.mark.parametrize(
    ("zone", "at", "start", "hours"),
    [
        ("UTC", "2024-05-05T12:00", "2024-05-05T00:00", 24),
        ("Europe/Berlin", "2024-03-31T12:00", "2024-03-30T23:00", 23),
        ("Europe/Berlin", "2024-10-27T12:00", "2024-10-26T22:00", 25),
        ("Australia/Lord_Howe", "2024-04-07T00:00", "2024-04-06T13:00", 24.5),
        ("Asia/Kathmandu", "2024-01-01T00:00", "2023-12-31T18:15", 24),
        ("America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00", 23),  # the day begins at 01:00
        ("America/Sao_Paulo", "2018-02-17T12:00", "2018-02-17T02:00", 25),  # 23:00 comes twice
        ("America/St_Johns", "2009-11-01T03:00", "2009-11-01T02:30", 25),  # the day begins, ends, and begins again
        ("Pacific/Apia", "2011-12-30T09:00", "2011-12-29T10:00", 24),
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", 24),  # the 31st: there is no 30th
        ("Africa/Monrovia", "1971-06-01T12:00", "1971-06-01T00:45", 24),  # an offset of 44 min 30 s
    ],
)
def test_a_day_begins_at_the_first_instant_of_its_date(zone: str, at: str, start: str, hours: float) -> None:
    assert zones.day_of(zone, ms(at)) == (ms(start), ms(start) + hours * HOUR)


def test_days_follow_each_other_in_all_zones() -> None:
    for zone in sorted(zones.names())[::7]:
        at = ms("2024-03-01T00:00")
        for _ in range(40):
            day = zones.day_of(zone, at)
            assert day.start <= at < day.end, zone
            assert 22 * HOUR <= day.end - day.start <= 26 * HOUR
            assert zones.day_of(zone, day.end - QUARTER) == day
            at = day.end


def test_months_are_local() -> None:
    months = zones.months_between("America/New_York", ms("2024-02-10T00:00"), ms("2024-04-01T04:00"))
    dates = [datetime.fromtimestamp(its.start / 1_000, UTC).astimezone(ZoneInfo("America/New_York")) for its in months]
    assert [(date.month, date.day, date.hour) for date in dates] == [(2, 1, 0), (3, 1, 0)]
    assert months[1].end - months[1].start == timedelta(days=31, hours=-1) // timedelta(milliseconds=1)

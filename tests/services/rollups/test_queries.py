"""What queries answer, from open buckets to packed columns."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

from moneystate.errors import ArgumentError
from moneystate.testing import Bench
from services.rollups.config import DeviceConfig
from services.rollups.records import Reading
from tests.services.rollups.story import DAY, HOUR, ID, MIN, T, advance_to, bench_of, out, send


def ask(bench: Bench, name: str, *args: Any, **kwargs: Any) -> Any:
    return bench.ask(bench.service.queries[name], *args, **kwargs)


def series(bench: Bench, start: int, end: int, **given: Any) -> Any:
    return ask(bench, "series", ID, "temp", T + start, T + end, **given)


def of_days(days: int, **given: Any) -> Bench:
    """A value every 5 hours: the number of hours since T."""
    bench = bench_of(**given)
    for hour in range(0, 24 * days, 5):
        send(bench, hour * HOUR, float(hour % 50))
    return bench


def test_the_finest_tier_with_few_enough_buckets_that_is_still_kept_is_chosen() -> None:
    bench = of_days(60)
    now = 60 * DAY
    tiers = {
        (now - HOUR, now, 1_000): "1m", (now - HOUR, now, 59): "15m", (now - DAY, now, 1_000): "15m",
        (now - DAY, now, 10): "1d", (now - 30 * DAY, now, 1_000): "1h", (now - 36 * DAY, now - 35 * DAY, 1_000): "1h",
        (0, now, 1_000): "1d", (0, now, 10): "1d",
    }  # fmt: skip
    for (start, end, points), tier in tiers.items():
        assert series(bench, start, end, points=points).tier == tier, (start, end, points)


@pytest.mark.parametrize("days", [1, 3, 20, 60])
def test_a_series_is_the_same_from_entries_and_columns(days: int) -> None:
    """What is put out and what is asked later agree, however long ago it was."""
    bench = of_days(days, zone="America/New_York")
    advance_to(bench, (days + 12) * DAY)
    for tier in ("1h", "1d"):
        answer = series(bench, -DAY, days * DAY, tier=tier)
        last = {its.start: its for its in out(bench, tier)}
        assert answer.starts == sorted(last)
        made = [last[start].metrics["temp"] for start in answer.starts]
        assert (answer.counts, answer.means) == ([its.count for its in made], [its.mean for its in made])
        assert (answer.p50, answer.sums) == ([its.p50 for its in made], [its.sum for its in made])
        assert answer.revisions == [last[start].revision for start in answer.starts]
        assert answer.ends == [last[start].end for start in answer.starts]


def test_the_open_bucket_is_merged_of_what_is_there() -> None:
    bench = bench_of()
    send(bench, 0, 1.0)
    send(bench, 20 * MIN, 2.0)
    for tier, starts, counts in (("15m", [0, 15], [1, 1]), ("1h", [0], [2]), ("1d", [0], [2])):
        answer = series(bench, 0, HOUR, tier=tier)
        assert [(start - T) // MIN for start in answer.starts] == starts
        assert (answer.counts, answer.open, answer.revisions[-1]) == (counts, True, 0)
    assert series(bench, 0, 10 * MIN, tier="15m").revisions == [1]


def test_gaps_and_completeness_are_told() -> None:
    bench = bench_of()
    for minute in (*range(15), *range(45, 60)):
        send(bench, minute * MIN)
    advance_to(bench, 3 * HOUR)
    answer = series(bench, 0, 2 * HOUR, tier="15m")
    assert answer.completeness == [1.0, 1.0]
    gaps = [((gap.start - T) // MIN, (gap.end - T) // MIN) for gap in answer.gaps]
    assert gaps == [(15, 45), (60, 120)]


def test_counters_have_the_step_from_the_bucket_before_and_a_rate() -> None:
    bench = bench_of()
    for n, value in enumerate((5.0, 8.0, 20.0, 1.0)):
        at = n * 10 * MIN
        bench.send(Reading(ID, T + at, {"energy": value}), arrival_ms=T + at)
    advance_to(bench, 2 * HOUR)
    answer = ask(bench, "series", ID, "energy", T, T + HOUR, tier="15m")
    assert answer.increases == [3.0, 12.0, 1.0]
    assert answer.rates == [3 / 600, 12 / 600, 1 / 600]
    later = ask(bench, "series", ID, "energy", T + 15 * MIN, T + HOUR, tier="15m")
    assert later.increases == [12.0, 1.0]
    hour = ask(bench, "series", ID, "energy", T, T + HOUR, tier="1h")
    assert hour.increases == [16.0]


def test_minutes_are_made_of_readings() -> None:
    bench = bench_of()
    for second in range(0, 180, 20):
        send(bench, second * 1_000, second / 10)
    answer = series(bench, 0, 10 * MIN, tier="1m")
    assert (answer.counts, answer.mins) == ([3, 3, 3], [0.0, 6.0, 12.0])


def test_months_are_merged_of_days() -> None:
    bench = of_days(60, zone="Europe/Berlin")
    answer = series(bench, 0, 60 * DAY, tier="1mo")
    assert [(start - T) / HOUR for start in answer.starts] == [-1, 31 * 24 - 2]  # summer time since the 31st
    assert sum(answer.counts) == len(range(0, 24 * 60, 5))


def test_packed_columns_have_what_the_series_has() -> None:
    bench = of_days(40)
    answer, packed = (ask(bench, name, ID, "temp", T, T + 40 * DAY) for name in ("series", "series_packed"))
    assert list(array("q", packed.starts)) == answer.starts
    assert list(array("d", packed.means)) == answer.means
    assert list(array("d", packed.p99)) == answer.p99
    assert all(map(math.isnan, array("d", packed.increases)))


def test_devices_are_compared_ranked_and_merged_by_site() -> None:
    devices = (DeviceConfig("a*", site="north"), DeviceConfig("b", site="south"), DeviceConfig("gone", site="south"))
    bench = bench_of(devices=devices, zone="Asia/Tokyo")
    for n, device in enumerate(("a1", "a2", "b")):
        for hour in range(3):
            bench.send(Reading(device, T + hour * HOUR, {"temp": 10.0 * n + hour}), arrival_ms=T + hour * HOUR + n)
    advance_to(bench, 5 * HOUR)
    span = (T, T + 4 * HOUR)
    compared = ask(bench, "compare", ["b", "a1", "gone"], "temp", *span, points=4)
    assert [(its.device, its.tier, its.means) for its in compared] == [
        ("b", "1h", [20.0, 21.0, 22.0]), ("a1", "1h", [0.0, 1.0, 2.0]),
    ]  # fmt: skip
    assert [(its.device, its.value) for its in ask(bench, "top", "temp", *span, by="mean", limit=2)] == [
        ("b", 21.0), ("a2", 11.0),
    ]  # fmt: skip
    assert [its.device for its in ask(bench, "top", "temp", *span, site="north", lowest=True)] == ["a1", "a2"]
    north = ask(bench, "site", "north", "temp", *span, points=4)
    assert (north.counts, north.means, north.maxs) == ([2, 2, 2], [5.0, 6.0, 7.0], [10.0, 11.0, 12.0])


def test_devices_that_are_silent_are_told() -> None:
    bench = bench_of(devices=(DeviceConfig("never", site="north"), DeviceConfig("*")))
    send(bench, 0)
    bench.send(Reading("talks", T, {"temp": 1.0}), arrival_ms=T + 5 * MIN)
    result = [(its.device, its.seen) for its in ask(bench, "silent", T + 5 * MIN)]
    assert result == [("never", None), (ID, T)]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("series", (ID, "other", T, T + HOUR)),
        ("series", (ID, "temp", T, T)),
        ("series", (ID, "temp", T, T + HOUR, 0)),
        ("series", (ID, "temp", T, T + HOUR, 10, "2h")),
        ("series", (ID, "temp", T, T + 100 * DAY, 10, "1m")),
        ("compare", ([ID, ID], "temp", T, T + HOUR)),
        ("site", ("nowhere", "temp", T, T + HOUR)),
    ],
)
def test_arguments_that_cannot_be_answered_are_refused(name: str, args: tuple[Any, ...]) -> None:
    bench = bench_of()
    send(bench, 0)
    with pytest.raises(ArgumentError):
        ask(bench, name, *args)

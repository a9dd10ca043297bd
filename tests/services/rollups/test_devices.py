"""The table of devices: zone, site and interval by row, and what a changed one counts for."""

from __future__ import annotations

from typing import Any

from moneystate.testing import Bench
from services.rollups.config import Config, DeviceConfig
from services.rollups.records import DeviceRow, Forget
from services.rollups.service import rollups
from tests.services.rollups.story import DAY, HOUR, ID, METRICS, MIN, T, advance_to, out, send


def bench_of(*rows: DeviceRow, **given: Any) -> Bench:
    bench = Bench(rollups(Config(**{"metrics": METRICS, "interval_ms": MIN, "devices_topic": "devices", **given})))
    bench.load(table_of(bench), {row.device_id: row for row in rows})
    return bench


def table_of(bench: Bench) -> Any:
    (table,) = bench.service.tables.values()
    return table


def days(bench: Bench) -> list[tuple[float, float, int]]:
    """Start and end in hours after T, and the values, as they were put out last."""
    last = {its.start: its for its in out(bench, "1d")}
    return [((day.start - T) / HOUR, (day.end - T) / HOUR, day.metrics["temp"].count) for day in last.values()]


def test_a_row_comes_before_the_configuration() -> None:
    bench = bench_of(
        DeviceRow(ID, zone="Asia/Tokyo", interval_ms=30_000), DeviceRow("other"),
        zone="Europe/Berlin", site="here", devices=(DeviceConfig("d*", site="there"),),
    )  # fmt: skip
    send(bench, 0)
    advance_to(bench, DAY)
    assert days(bench) == [(-9, 15, 1)]
    assert [its.expected for its in out(bench, "15m")] == [30]
    series = bench.ask(bench.service.queries["site"], "there", "temp", T, T + HOUR)
    assert (series.zone, series.counts) == ("Asia/Tokyo", [1])


def test_a_changed_zone_counts_for_blocks_that_are_not_open_yet() -> None:
    """The day of the old zone ends early in its values, not in its time."""
    bench = bench_of(DeviceRow(ID, zone="Europe/Berlin"))
    for minute in (0, 15, 20, 31, 46):
        send(bench, minute * MIN)
        if minute == 20:
            bench.rows(table_of(bench), {ID: DeviceRow(ID, zone="America/New_York")}, arrival_ms=T + 20 * MIN)
    send(bench, 29 * MIN, came=50 * MIN)  # its block is that of the old zone
    advance_to(bench, 3 * DAY)
    assert days(bench) == [(-19, 5, 2), (-1, 23, 4)]
    assert [its.metrics["temp"].count for its in out(bench, "1h")][-1] == 6
    asked = bench.ask(bench.service.queries["series"], ID, "temp", T - DAY, T + DAY, tier="1d")
    assert sorted(asked.counts) == [2, 4]


def test_what_cannot_be_is_counted_and_as_configured() -> None:
    bench = bench_of(DeviceRow(ID, zone="Mars/Base", interval_ms=0))
    send(bench, 0)
    advance_to(bench, HOUR)
    assert [its.expected for its in out(bench, "15m")] == [15]
    assert (bench.count("unknown_zone"), bench.count("bad_interval")) == (1, 1)


def test_devices_of_the_table_that_never_sent_are_silent() -> None:
    bench = bench_of(DeviceRow(ID, site="north"), DeviceRow("never", site="south"))
    send(bench, 0)
    silent = bench.service.queries["silent"]
    assert [(its.device, its.site, its.seen) for its in bench.ask(silent, T)] == [("never", "south", None)]
    assert [its.device for its in bench.ask(silent, T + MIN)] == ["never", ID]


def test_a_device_is_known_by_its_row_as_long_as_there_is_one() -> None:
    bench = bench_of(DeviceRow(ID, site="north"), keep_1m_ms=DAY, keep_15m_ms=DAY, keep_1h_ms=DAY, keep_1d_ms=DAY)
    send(bench, 0)
    advance_to(bench, 60 * DAY)
    assert [its.device for its in bench.ask(bench.service.queries["silent"], T + 60 * DAY)] == [ID]
    bench.send(Forget(ID), arrival_ms=T + 60 * DAY)
    assert [its.seen for its in bench.ask(bench.service.queries["silent"], T)] == [None]
    bench.rows(table_of(bench), {ID: None}, arrival_ms=T + 61 * DAY)
    assert list(bench.entries()) == []

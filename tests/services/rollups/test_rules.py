"""Rule by rule, at the edges of their times. Numbers are those of docs/rollups.md."""

from __future__ import annotations

import zlib
from decimal import Decimal

import pytest

from services.rollups.records import Forget, Metric, Reading, Remove
from tests.services.rollups.story import DAY, HOUR, ID, MIN, SPREAD, T, advance_to, bench_of, out, send, told


def test_the_spread_of_the_story_is_that_of_its_device() -> None:
    assert zlib.crc32(ID.encode()) % 30_000 == SPREAD


def test_1_a_reading_more_than_five_minutes_ahead_is_a_dead_letter() -> None:
    bench = bench_of()
    send(bench, 5 * MIN, came=0)
    send(bench, 5 * MIN + 1, came=0)
    assert (bench.dead_letters(), bench.count("ahead")) == (["ahead"], 1)


def test_1_a_wrong_clock_makes_no_other_device_late() -> None:
    bench = bench_of()
    bench.send(Reading("broken", T + 400 * DAY, {"temp": 1.0}), arrival_ms=T)
    send(bench, 0)
    advance_to(bench, 16 * MIN)
    assert (told(bench, "15m"), bench.count("late")) == ([(0, 1, 1, 1.0)], 0)


@pytest.mark.parametrize("strict", [False, True])
def test_1_a_reading_older_than_the_horizon_is_counted(strict: bool) -> None:
    bench = bench_of(strict=strict)
    send(bench, 0, came=7 * DAY)
    send(bench, 0, came=7 * DAY + 1)
    assert bench.count("too_late") == 1
    assert bench.dead_letters() == ["too_late"] * strict


def test_values_are_rounded_to_their_digits_before_their_limits_count() -> None:
    bench = bench_of(strict=True)
    for n, value in enumerate((60.04, 60.06, -50.04, -50.06, 0.25, 1e300)):
        send(bench, n, value, came=0)
    advance_to(bench, 16 * MIN)
    (bucket,) = out(bench, "15m")
    temp = bucket.metrics["temp"]
    assert (temp.count, temp.min, temp.max, temp.sum) == (3, -50.0, 60.0, Decimal("10.2"))
    assert (bench.count("out_of_range"), bench.dead_letters()) == (3, ["out_of_range"] * 3)


def test_a_reading_has_one_dead_letter_and_its_other_metrics_are_taken() -> None:
    bench = bench_of(strict=True)
    bench.send(Reading(ID, T, {"temp": 100.0, "energy": -1.0, "x1": 1.0, "y": 1.0, "x2": None}), arrival_ms=T)
    advance_to(bench, 16 * MIN)
    assert [sorted(its.metrics) for its in out(bench, "15m")] == [["x1"]]
    assert (bench.dead_letters(), bench.count("out_of_range"), bench.count("unmatched")) == (["out_of_range"], 2, 1)


def test_a_device_has_at_most_a_thousand_metrics() -> None:
    bench = bench_of()
    bench.send(Reading(ID, T, {f"x{n}": float(n) for n in range(1_001)}), arrival_ms=T)
    advance_to(bench, 16 * MIN)
    assert len(out(bench, "15m")[0].metrics) == 1_000
    assert bench.count("too_many_metrics") == 1


def test_2_the_least_pair_of_id_and_value_wins_and_no_id_loses() -> None:
    bench = bench_of()
    for n, (id, value) in enumerate(((None, 1.0), (None, 0.5), ("b", 9.0), ("a", 8.0), ("a", 7.0), ("c", 0.1))):
        send(bench, 0, value, came=n, id=id)
    advance_to(bench, 16 * MIN)
    assert told(bench, "15m") == [(0, 1, 1, 7.0)]
    assert bench.count("repeated") == 5


def test_2_a_block_takes_readings_until_exact_after_its_end() -> None:
    bench = bench_of()
    send(bench, 0)
    send(bench, 1, came=15 * MIN + DAY)
    send(bench, 2, came=15 * MIN + DAY + 1)
    advance_to(bench, 3 * DAY)
    assert (told(bench, "15m")[-1], bench.count("unverified")) == ((0, 2, 2, 1.0), 1)


def test_2_or_until_exact_after_its_first_reading_came() -> None:
    bench = bench_of()
    for came in (5 * DAY, 5 * DAY + 1, 6 * DAY, 6 * DAY + 1):
        send(bench, came % 1_000, came=came)
    advance_to(bench, 7 * DAY)
    assert (told(bench, "15m")[-1][2], bench.count("unverified")) == (2, 1)
    send(bench, 3, came=7 * DAY)
    assert bench.count("unverified") == 2


def test_3_a_bucket_is_put_out_at_its_end_with_what_came_by_then() -> None:
    bench = bench_of()
    send(bench, 0)
    advance_to(bench, 15 * MIN + SPREAD - 1)
    assert told(bench, "15m") == []
    send(bench, 1, came=15 * MIN + SPREAD)
    advance_to(bench, 15 * MIN + SPREAD + 1)
    assert told(bench, "15m") == [(0, 1, 2, 1.0)]


def test_3_corrections_come_at_the_next_full_minute() -> None:
    bench = bench_of()
    send(bench, 0)
    send(bench, 1, came=20 * MIN)
    send(bench, 2, came=20 * MIN + 1)
    advance_to(bench, 21 * MIN - 1)
    assert told(bench, "15m") == [(0, 1, 1, 1.0), (0, 2, 2, 1.0)]
    send(bench, 2, came=22 * MIN)  # repeats: no correction
    advance_to(bench, 23 * MIN)
    assert told(bench, "15m")[2:] == [(0, 3, 3, 1.0)]


def test_3_a_closing_hour_takes_stale_quarters_in_first() -> None:
    bench = bench_of()
    send(bench, 0)
    send(bench, 50 * MIN)
    send(bench, 1, came=HOUR + SPREAD - 1)
    advance_to(bench, HOUR + SPREAD)
    assert told(bench, "15m") == [(0, 1, 1, 1.0), (0, 2, 2, 1.0), (45, 1, 1, 1.0)]
    assert told(bench, "1h") == [(0, 1, 3, 1.0)]
    advance_to(bench, HOUR + 2 * MIN)
    assert len(told(bench, "15m")) == 3


def test_3_a_local_day_has_its_own_length() -> None:
    bench = bench_of(zone="Europe/Berlin")
    send(bench, 30 * DAY)  # the 31st of March, when clocks are put forward
    advance_to(bench, 32 * DAY)
    (day,) = out(bench, "1d")
    assert ((day.start - T) / HOUR, (day.end - T) / HOUR) == (30 * 24 - 1, 31 * 24 - 2)
    assert day.expected == 23 * 60


def test_3_the_tier_1m_is_put_out_if_asked_for() -> None:
    bench = bench_of(put_out_1m=True)
    send(bench, 0)
    send(bench, 1, came=3 * MIN)
    advance_to(bench, 4 * MIN)
    assert told(bench, "1m") == [(0, 1, 1, 1.0), (0, 2, 2, 1.0)]
    send(bench, 14 * MIN)
    advance_to(bench, 16 * MIN)
    assert told(bench, "1m")[2:] == [(14, 1, 1, 1.0)]


def test_counters_grow_between_neighbours_and_begin_again_with_0() -> None:
    bench = bench_of()
    for n, value in enumerate((10.0, 14.0, 3.0, 3.0)):
        bench.send(Reading(ID, T + n * MIN, {"energy": value}), arrival_ms=T + n * MIN)
    advance_to(bench, 16 * MIN)
    energy = out(bench, "15m")[0].metrics["energy"]
    assert energy == Metric(
        4, 3.0, 14.0, Decimal(30).quantize(Decimal("1e-9")), 7.5, 10.0, 3.0, T, T + 3 * MIN, increase=7.0,
        covered=3 * MIN,
    )  # fmt: skip


def test_a_bucket_tells_how_much_is_expected_and_when_it_is_final() -> None:
    bench = bench_of(horizon_ms=2 * DAY + 1)
    send(bench, 0)
    advance_to(bench, 2 * HOUR)
    (hour,) = out(bench, "1h")
    assert (hour.expected, hour.final_at) == (60, T + HOUR + 2 * DAY + MIN)


def test_4_nothing_is_put_out_once_it_is_not_kept_and_nothing_is_left() -> None:
    bench = bench_of(keep_15m_ms=DAY, keep_1h_ms=DAY, keep_1d_ms=DAY)
    send(bench, 0)
    send(bench, 16 * MIN, came=15 * MIN + DAY + HOUR)
    advance_to(bench, 15 * MIN + DAY + 2 * HOUR)
    assert [its[0] for its in told(bench, "15m")] == [0]
    bench.end()
    assert list(bench.entries()) == []


def test_5_bad_data_goes_from_all_tiers() -> None:
    bench = bench_of()
    send(bench, 0, 50.0)
    send(bench, 20 * MIN, 2.0)
    advance_to(bench, 25 * HOUR)
    bench.send(Remove(ID, T, T + 1, "temp"), arrival_ms=T + 25 * HOUR)
    quarters = next(its for its in bench.service.outputs if its.topic == "rollups-15m")
    assert bench.keyed(quarters)[-1] == (f'["{ID}",{T}]', None)
    assert [told(bench, tier)[-1] for tier in ("1h", "1d")] == [(0, 2, 1, 2.0), (0, 2, 1, 2.0)]


def test_5_what_was_removed_can_be_sent_again() -> None:
    bench = bench_of()
    send(bench, 0, 50.0)
    advance_to(bench, 20 * MIN)
    bench.send(Remove(ID, T, T + HOUR), arrival_ms=T + 20 * MIN)
    send(bench, 0, 5.0, came=21 * MIN)
    advance_to(bench, 22 * MIN)
    assert told(bench, "15m") == [(0, 1, 1, 50.0), (0, 3, 1, 5.0)]


def test_5_readings_that_are_gone_can_only_go_as_whole_buckets() -> None:
    bench = bench_of()
    for n in range(8):
        send(bench, n * 15 * MIN, float(n))
    advance_to(bench, 20 * DAY)
    bench.send(Remove(ID, T, T + 20 * MIN), arrival_ms=T + 20 * DAY)
    assert bench.dead_letters() == ["cuts_a_bucket"]
    bench.send(Remove(ID, T, T + 30 * MIN), arrival_ms=T + 20 * DAY + 1)
    assert [told(bench, tier)[-1] for tier in ("1h", "1d")] == [(0, 2, 2, 2.5), (0, 2, 6, 4.5)]
    advance_to(bench, 60 * DAY)  # only hours and days are there
    bench.send(Remove(ID, T, T + 45 * MIN), arrival_ms=T + 60 * DAY)
    assert bench.dead_letters() == ["cuts_a_bucket"] * 2
    bench.send(Remove(ID, T + HOUR, T + 2 * HOUR), arrival_ms=T + 60 * DAY + 1)
    assert told(bench, "1d")[-1] == (0, 3, 2, 2.5)
    assert bench.keyed(*[its for its in bench.service.outputs if its.topic == "rollups-1h"])[-1][1] is None
    bench.end()
    assert list(bench.entries()) == []


def test_5_nothing_is_known_of_a_device_that_is_forgotten() -> None:
    bench = bench_of(put_out_1m=True)
    for n in range(100):
        send(bench, n * HOUR)
    bench.send(Forget(ID), arrival_ms=T + 100 * HOUR)
    bench.send(Reading("other", T + 100 * HOUR, {"temp": 1.0}), arrival_ms=T + 100 * HOUR)
    live: set[tuple[str, str]] = set()
    for output in bench.service.outputs:
        for key, record in bench.keyed(output):
            (live.discard if record is None else live.add)((output.topic, key))
    assert {topic for topic, _ in live} == {"rollups-1m"}, "of which the topic keeps 2 days"
    assert all(b"\x00\x01d" not in key for key, _ in bench.entries())


def test_a_device_that_sends_very_much_in_a_minute_fills_further_tails() -> None:
    bench = bench_of()
    readings = [Reading(ID, T + n * 10, {f"x{m}": n * 1e6 + m for m in range(40)}) for n in range(200)]
    for e in readings:
        bench.send(e, arrival_ms=T + 3_000)
    assert len(bench.state(bench.service.states["tails"], ID)) > 1
    advance_to(bench, 16 * MIN)
    (bucket,) = out(bench, "15m")
    assert {its.count for its in bucket.metrics.values()} == {200}
    assert [type(its).__name__ for its in bench.state(bench.service.states["raw"], ID).values()] == ["Raw"]

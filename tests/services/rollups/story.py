"""A bench with one device in plain words: seconds after a full hour."""

from __future__ import annotations

from typing import Any

from moneystate.testing import Bench
from services.rollups.config import Config, MetricConfig
from services.rollups.records import Reading, Rollup
from services.rollups.service import rollups

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
T = 1_709_251_200_000  # 2024-03-01T00:00:00Z
ID = "d"
SPREAD = 29_436  # ms by which closings of the device are later
METRICS = (
    MetricConfig("temp", unit="°C", digits=1, percentiles=True, min=-50, max=60),
    MetricConfig("energy", digits=0, kind="counter"),
    MetricConfig("x*", digits=2),
)


def config(**given: Any) -> Config:
    return Config(**{"metrics": METRICS, "interval_ms": MIN, **given})


def bench_of(**given: Any) -> Bench:
    return Bench(rollups(config(**given)))


def send(bench: Bench, at: int, value: float | None = 1.0, came: int | None = None, id: str | None = None) -> None:
    """A value of `temp`. Times in ms after T; `came`: when it arrives, by default at once."""
    bench.send(Reading(ID, T + at, {"temp": value}, id), arrival_ms=T + (at if came is None else came))


def advance_to(bench: Bench, at: int) -> None:
    now = max(bench.latest or 0, *(member.now_ms for member in bench.members))
    bench.advance(T + at - now)


def out(bench: Bench, tier: str) -> list[Rollup]:
    (output,) = [its for its in bench.service.outputs if its.topic == f"rollups-{tier}"]
    result: list[Rollup] = bench.out(output)
    return result


def told(bench: Bench, tier: str) -> list[tuple[int, int, int, float]]:
    """Start in minutes after T, revision, values and mean of `temp`."""
    return [
        ((its.start - T) // MIN, its.revision, its.metrics["temp"].count, its.metrics["temp"].mean)
        for its in out(bench, tier)
    ]

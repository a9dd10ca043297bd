"""Random readings that meet every rule: late, repeated, conflicting, ahead, too late and out of range ones, in zones
with odd days, and commands among them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from services.rollups.config import Config, MetricConfig
from services.rollups.records import Forget, Reading, Remove
from tests.services.rollups.reference import Of, Rules

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
METRICS = {
    "temp": Of(1, percentiles=True, min=-20.0, max=55.5),
    "load": Of(3, percentiles=True),
    "energy": Of(0, counter=True),
    "raw": Of(9),
}
# With a local time shortly before clocks change, or another oddity
ZONES = (
    ("UTC", "2024-02-28T12:00"),
    ("Europe/Berlin", "2024-03-30T20:00"),
    ("Europe/Berlin", "2024-10-26T20:00"),
    ("America/Havana", "2024-03-09T20:00"),
    ("Australia/Lord_Howe", "2024-04-06T18:00"),
    ("Asia/Kathmandu", "2024-05-05T20:00"),
    ("America/Sao_Paulo", "2018-02-17T18:00"),
    ("America/St_Johns", "2009-10-31T18:00"),
    ("Pacific/Apia", "2011-12-29T12:00"),
)


@dataclass(frozen=True)
class Case:
    """`start`: of the log, in ms."""

    config: Config
    rules: Rules
    start: int


def case_of(chance: random.Random, zones: Sequence[tuple[str, str]] = ZONES, **given: Any) -> Case:
    zone, local = chance.choice(zones)
    start = int(datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000
    exact = chance.choice((20 * MIN, HOUR, 2 * HOUR))
    values: dict[str, Any] = {
        "interval_ms": chance.choice((5_000, 7 * MIN)), "exact_ms": exact, "zone": zone,
        "horizon_ms": chance.choice((2 * HOUR, 5 * HOUR)), "keep_1m_ms": chance.choice((10 * MIN, 3 * HOUR)),
        "keep_15m_ms": chance.choice((HOUR, 30 * DAY)), "keep_1h_ms": chance.choice((DAY, 90 * DAY)),
        "keep_1d_ms": chance.choice((DAY, 400 * DAY)), "put_out_1m": chance.random() < 0.5,
        "strict": chance.random() < 0.5, "order": chance.choice(("arrival", "arrival", "at")), **given,
    }  # fmt: skip
    values["readings_bound_ms"] = 5 * MIN if values["order"] == "at" else 0
    metrics = tuple(
        MetricConfig(
            name, digits=rule.digits, percentiles=rule.percentiles, min=rule.min, max=rule.max,
            kind="counter" if rule.counter else "gauge",
        )
        for name, rule in METRICS.items()
    )  # fmt: skip
    config = Config(metrics=metrics, **values)
    keep = {name: getattr(config, f"keep_{name}_ms") for name in ("1m", "15m", "1h", "1d")}
    rules = Rules(
        METRICS, zone, config.interval_ms, config.horizon_ms, config.exact_ms, keep, config.strict, config.put_out_1m
    )  # fmt: skip
    return Case(config, rules, start - start % MIN)


def records(chance: random.Random, case: Case, count: int, commands: bool = True) -> Iterator[tuple[int, Any]]:
    """With the times at which they arrive. Bad data is removed only while the tier 15m is there."""
    now = case.start
    sent: list[Reading] = []
    for number in range(count):
        now += chance.choice((0, 1, 900, 20_000, 4 * MIN, 9 * MIN))
        now += chance.choice((0,) * 40 + (HOUR, 4 * HOUR))
        if chance.random() < 0.1:
            now = -(-now // MIN) * MIN
        kind = chance.random()
        device = chance.choice(("a", "b", "ü"))
        if commands and kind < 0.03 and case.config.keep_15m_ms > DAY:
            yield now, removal(chance, device, now)
        elif commands and kind < 0.035:
            yield now, Forget(device)
        elif sent and kind < 0.2:
            yield now, again(chance, chance.choice(sent[-30:]))
        else:
            sent.append(reading(chance, case, device, now, number))
            yield now, sent[-1]


def reading(chance: random.Random, case: Case, device: str, now: int, number: int) -> Reading:
    late = chance.choice((0, 0, 0, 0, 30_000, 16 * MIN, case.config.exact_ms, case.config.horizon_ms))
    at = now - late - chance.choice((0, 0, 1, 5_000, 20 * MIN))
    if chance.random() < 0.03:
        at = now + chance.choice((10_000, 5 * MIN, 5 * MIN + 1, DAY))
    names = chance.sample(sorted(METRICS), chance.randrange(1, 5))
    metrics: dict[str, float | None] = {name: value(chance, name, number) for name in names}
    if chance.random() < 0.1:
        metrics[chance.choice(("unknown", "temp"))] = chance.choice((None, 1.0))
    return Reading(device, at, metrics, chance.choice((None, None, None, f"r{number % 7}", "é")))


def value(chance: random.Random, name: str, number: int) -> float:
    if name == "energy":
        return float(number + chance.choice((0, 0, 0, -number, -1, 3)))
    if name == "raw":
        return chance.choice((0.0, -0.5e-9, 1.5e-9, 1e-9, 9_007_199.254_740_991, 9_007_199.254_740_992, -123.456789))
    if name == "temp":
        return chance.choice((-20.04, -20.06, -20.0, 55.54, 55.56, 0.05, chance.uniform(-20, 55), 1e300, 20.25))
    return chance.choice((0.0, chance.uniform(-1, 1), chance.lognormvariate(3, 4), -0.0005, 0.0015))


def again(chance: random.Random, one: Reading) -> Reading:
    """The same, or in conflict with it."""
    if chance.random() < 0.4:
        return one
    metrics: dict[str, float | None] = {
        name: 7.0 if value is None or chance.random() < 0.5 else value for name, value in one.metrics.items()
    }
    return Reading(one.device_id, one.at, metrics, chance.choice((None, "r1", "r9", one.reading_id)))


def removal(chance: random.Random, device: str, now: int) -> Remove:
    start = now - chance.choice((0, MIN, 40 * MIN, 3 * HOUR, 9 * HOUR, 30 * HOUR))
    start -= start % chance.choice((1, MIN, 15 * MIN, HOUR))
    end = start + chance.choice((0, 1, 5 * MIN, 15 * MIN, HOUR, DAY))
    return Remove(device, start, end, chance.choice((None, "temp", "energy", "unknown")))

"""How rollups is configured: the table `[rollups]` of a configuration file. All of it decides results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import moneystate as ms
from services.rollups import zones
from services.rollups.bins import LIMIT
from services.rollups.tiers import DAY, DAYS, HOUR, HOURS, MINUTE, MINUTES, QUARTERS, Tier

MOST_DIGITS: Final = 9  # as many as the sums have


@dataclass(frozen=True)
class MetricConfig:
    """Metrics of a name, or of all names that a pattern such as `temp-*` matches. `digits`: after the point, that are
    kept; `min`, `max`: what is allowed after rounding, both included."""

    name: str
    unit: str = ""
    digits: int = 3
    percentiles: bool = False
    min: float | None = None
    max: float | None = None
    kind: Literal["gauge", "counter"] = "gauge"


@dataclass(frozen=True)
class DeviceConfig:
    """Devices of an id, or of all ids that a pattern matches. `interval_ms`: between two readings. What is None is as
    the configuration has it for all."""

    id: str
    zone: str | None = None
    site: str | None = None
    interval_ms: int | None = None


@dataclass(frozen=True)
class Config:
    """`devices_topic`: of a table with rows of devices, which come before `devices`; `order`: by arrival, or by `at` to
    load history; `readings_bound_ms`: how far Kafka timestamps (or times of readings) may be out of order;
    `horizon_ms`: how late a reading may be; `exact_ms`: how long a block takes readings; `keep_*_ms`: how long the
    buckets of a tier are kept; `put_out_1m`: also write the topic of the tier 1m; `strict`: values that are not taken
    make dead letters; `tzdata`: the version of the time zones."""

    metrics: tuple[MetricConfig, ...] = ()
    devices: tuple[DeviceConfig, ...] = ()
    devices_topic: str = ""
    zone: str = "UTC"
    site: str = ""
    interval_ms: int = 5_000
    order: Literal["arrival", "at"] = "arrival"
    readings_bound_ms: int = 0
    horizon_ms: int = 7 * DAY
    exact_ms: int = DAY
    keep_1m_ms: int = 2 * DAY
    keep_15m_ms: int = 35 * DAY
    keep_1h_ms: int = 400 * DAY
    keep_1d_ms: int = 5 * 365 * DAY
    put_out_1m: bool = False
    strict: bool = False
    format: Literal["json", "avro"] = "json"
    tzdata: str = zones.VERSION

    def keep_ms(self, tier: Tier) -> int:
        keeps = {
            MINUTES.code: self.keep_1m_ms, QUARTERS.code: self.keep_15m_ms, HOURS.code: self.keep_1h_ms,
            DAYS.code: self.keep_1d_ms,
        }  # fmt: skip
        return keeps[tier.code]

    @property
    def raw_ms(self) -> int:
        """Returns how long after its end a block stays. The tier 1m is made of it when somebody asks."""
        return max(self.exact_ms, self.keep_1m_ms)


def matches(pattern: str, name: str) -> bool:
    if "*" not in pattern:
        return pattern == name
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def check(service: ms.Service[Any], config: Config) -> None:
    """Raises ServiceError with one line for each mistake. Without metrics the service is not to be run."""
    mistakes = [*_in_metrics(config), *_in_devices(config), *_in_times(config)]
    if mistakes:
        service.fail("\n  ".join(["its configuration has mistakes.", *mistakes]), "correct them.")
    if not config.metrics:
        service.refuse_start(
            "metrics: expected one or more, found none.",
            'give --config FILE with [[rollups.metrics]], for example with name = "*".',
        )


def _in_metrics(config: Config) -> Iterator[str]:
    for number, metric in enumerate(config.metrics):
        where = f"metrics[{number}] {metric.name!r}"
        if not metric.name:
            yield f"{where}: expected a name or a pattern, found an empty name."
        if any(matches(before.name, metric.name) for before in config.metrics[:number]):
            yield f"{where}: expected a name that none before it matches, because the first match counts."
        if not 0 <= metric.digits <= MOST_DIGITS:
            yield f"{where}.digits: expected 0 to {MOST_DIGITS}, found {metric.digits}."
            continue
        for name in ("min", "max"):
            limit = getattr(metric, name)
            if limit is not None and abs(limit) * 10**metric.digits >= LIMIT:
                yield f"{where}.{name}: expected less than 2^53 with {metric.digits} digits, found {limit}."
        low = 0.0 if metric.kind == "counter" and metric.min is None else metric.min
        if metric.kind == "counter" and low is not None and low < 0:
            yield f"{where}.min: expected 0 or more for a counter, found {low}."
        if low is not None and metric.max is not None and low > metric.max:
            yield f"{where}: expected min up to max, found {low} and {metric.max}."


def _in_devices(config: Config) -> Iterator[str]:
    yield from _in_device("", config.zone, config.interval_ms)
    for number, device in enumerate(config.devices):
        where = f"devices[{number}] {device.id!r}"
        if not device.id:
            yield f"{where}: expected an id or a pattern, found an empty id."
        if any(matches(before.id, device.id) for before in config.devices[:number]):
            yield f"{where}: expected an id that none before it matches, because the first match counts."
        interval_ms = config.interval_ms if device.interval_ms is None else device.interval_ms
        yield from _in_device(f"{where}.", config.zone if device.zone is None else device.zone, interval_ms)


def _in_device(where: str, zone: str, interval_ms: int) -> Iterator[str]:
    if zone not in zones.names():
        yield f"{where}zone: expected a time zone such as Europe/Berlin, found {zone!r}."
    if not 1 <= interval_ms <= DAY:
        yield f"{where}interval: expected 1 ms to 1 d, found {interval_ms:,} ms."


def _in_times(config: Config) -> Iterator[str]:
    if config.tzdata != zones.VERSION:
        yield (
            f"tzdata: expected {zones.VERSION}, the version that is installed, found {config.tzdata!r}: days could "
            f"begin at other times."
        )
    if config.exact_ms < MINUTE:
        yield f"exact: expected 1m or more, found {config.exact_ms:,} ms."
    if config.horizon_ms < max(config.exact_ms, HOUR):
        yield f"horizon: expected 1h or more, and no less than exact, found {config.horizon_ms:,} ms."
    if config.readings_bound_ms < 0:
        yield f"readings_bound: expected 0 or more, found {config.readings_bound_ms:,} ms."
    for name, least in (("1m", MINUTE), ("15m", HOUR), ("1h", DAY), ("1d", DAY)):
        keep_ms = getattr(config, f"keep_{name}_ms")
        if keep_ms < least:
            yield f"keep_{name}: expected {least // MINUTE:,} min or more, found {keep_ms:,} ms."

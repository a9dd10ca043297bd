"""What the configuration says of a metric or a device, by its name."""

from __future__ import annotations

import json
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import NamedTuple

from services.rollups.bins import LIMIT
from services.rollups.config import Config, MetricConfig, matches
from services.rollups.records import Device

CACHED = 10_000  # names, and lists of the names of a device


class Known(NamedTuple):
    """A metric of a device. `number`: stands for its name in the device's state; `low`, `high`: the scaled values that
    are allowed."""

    number: int
    name: str
    digits: int
    scale: int
    low: int
    high: int
    counter: bool
    percentiles: bool
    unit: str


class Settings(NamedTuple):
    """The settings of a device."""

    zone: str
    site: str
    interval_ms: int


class Table:
    """The metrics of a device, in the order in which they came."""

    def __init__(self, known: list[Known]) -> None:
        self.known = known
        self.by_name = {its.name: its for its in known}


class Catalog:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.metric = lru_cache(maxsize=CACHED)(self._metric)
        self.settings = lru_cache(maxsize=CACHED)(self._settings)
        self.table = lru_cache(maxsize=CACHED)(self._table)

    def _metric(self, name: str) -> MetricConfig | None:
        """The first that matches."""
        return next((metric for metric in self.config.metrics if matches(metric.name, name)), None)

    def _settings(self, device: str) -> Settings:
        config = self.config
        its = next((its for its in config.devices if matches(its.id, device)), None)
        if its is None:
            return Settings(config.zone, config.site, config.interval_ms)
        return Settings(
            config.zone if its.zone is None else its.zone, config.site if its.site is None else its.site,
            config.interval_ms if its.interval_ms is None else its.interval_ms,
        )  # fmt: skip

    def settings_of(self, key: str, device: Device) -> Settings:
        """Finds the settings of a device by its row in the table, else by the configuration."""
        its = self.settings(key)
        if not device.has_row:
            return its
        interval_ms = its.interval_ms if device.interval_ms is None else device.interval_ms
        return Settings(its.zone if device.zone is None else device.zone, device.site, interval_ms)

    def _table(self, names: str) -> Table:
        """The metrics in `Device.names`. Digits stay as they were when the metric first came, because the state has
        values in them. A metric that the configuration no longer matches is a gauge without limits."""
        pairs = json.loads(names) if names else []
        return Table([known_of(n, name, digits, self.metric(name)) for n, (name, digits) in enumerate(pairs)])

    def with_metric(self, names: str, name: str) -> str:
        """`Device.names` with a further metric, which the configuration matches."""
        metric = self.metric(name)
        assert metric is not None
        pairs = json.loads(names) if names else []
        return json.dumps([*pairs, [name, metric.digits]], ensure_ascii=False, separators=(",", ":"))


def known_of(number: int, name: str, digits: int, metric: MetricConfig | None) -> Known:
    scale = 10**digits
    its = metric or MetricConfig(name)
    counter = its.kind == "counter"
    low = 1 - LIMIT if its.min is None else int((Decimal(repr(its.min)) * scale).to_integral_value(ROUND_CEILING))
    high = LIMIT - 1 if its.max is None else int((Decimal(repr(its.max)) * scale).to_integral_value(ROUND_FLOOR))
    return Known(number, name, digits, scale, max(low, 0) if counter else low, high, counter, its.percentiles, its.unit)

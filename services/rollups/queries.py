"""The queries of rollups (docs/rollups.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import moneystate as ms
from services.rollups import series as answers
from services.rollups.catalog import Catalog, Known, Settings
from services.rollups.config import Config
from services.rollups.outputs import metric_of
from services.rollups.points import DeviceView, Point, States, months_of, with_steps
from services.rollups.records import Metric
from services.rollups.series import PackedSeries, Series
from services.rollups.sites import across, in_digits
from services.rollups.stats import merged
from services.rollups.tiers import BY_NAME, DAYS, Tier

From = Annotated[ms.Millis, ms.Wire("from")]
POINTS: Final = 1_000
MOST_POINTS: Final = 10_000
MOST_DEVICES: Final = 1_000
MOST_BUCKETS: Final = 100_000  # of an answer about several devices
MONTHS: Final = "1mo"
BEFORE: Final = 96  # buckets in which the value before a counter's first one is looked for
By = Literal["count", "min", "max", "mean", "sum", "first", "last", "p50", "p90", "p99", "increase"]


@dataclass(frozen=True)
class Ranked:
    """`value`: of the metric's aggregate over the time; `metric`: all of it."""

    device: str
    value: float
    metric: Metric


@dataclass(frozen=True)
class Silent:
    """`seen`: the minute in which its last reading was taken; None: it never sent one."""

    device: str
    site: str
    seen: ms.Millis | None


def declare_queries(service: ms.Service[Config], catalog: Catalog, states: States) -> None:
    queries = Queries(service, catalog, states)
    service.query(queries.series)
    service.query(queries.series_packed)
    service.query(queries.compare)
    service.query(queries.top)
    service.query(queries.site)
    service.query(queries.silent)


class Queries:
    def __init__(self, service: ms.Service[Config], catalog: Catalog, states: States) -> None:
        self.config, self.catalog, self.states = catalog.config, catalog, states
        self.by_site = service.index("by_site", states.device, lambda device: device.site)
        self.without_reading = service.index(
            "without_reading", states.device, lambda device: 1 if device.has_row and not device.has_sent else None
        )
        self.by_seen = service.index("by_seen", states.pulse, lambda pulse: pulse.seen)

    def series(
        self, view: ms.View, device: str, metric: str, from_: From, to: ms.Millis, points: int = POINTS, tier: str = ""
    ) -> Series:
        """The buckets of a metric of a device. `tier`: 1m, 15m, 1h, 1d or 1mo; by default the finest one that is still
        kept and has at most `points` buckets."""
        name = self._chosen(from_, to, points, tier, view.time_ms)
        known, settings, result = self._read(view, device, metric, from_, to, name)
        return answers.series_of(device, known, name, settings, result, from_, min(to, view.time_ms))

    def series_packed(
        self, view: ms.View, device: str, metric: str, from_: From, to: ms.Millis, points: int = POINTS, tier: str = ""
    ) -> PackedSeries:
        """Returns the same series as columns of bytes, for many points."""
        name = self._chosen(from_, to, points, tier, view.time_ms)
        known, settings, result = self._read(view, device, metric, from_, to, name)
        return answers.packed_of(device, known, name, settings, result)

    def compare(
        self, view: ms.View, devices: list[str], metric: str, from_: From, to: ms.Millis, points: int = POINTS
    ) -> list[Series]:
        """A metric of several devices, in one tier for all. Devices that have not sent it are left out."""
        tier = BY_NAME[self._chosen(from_, to, points, "", view.time_ms)]
        check_devices(devices)
        return [
            answers.series_of(device, known, tier.name, settings, result, from_, min(to, view.time_ms))
            for device, known, settings, result in self._of_devices(view, devices, metric, from_, to, tier)
        ]

    def top(
        self, view: ms.View, metric: str, from_: From, to: ms.Millis, by: By = "max", limit: int = 10,
        site: str | None = None, lowest: bool = False,
    ) -> list[Ranked]:  # fmt: skip
        """The devices with the highest (or lowest) aggregate of a metric over a time: of whole buckets that have a part
        of it."""
        devices = self._devices_of(view, site)
        check_time(from_, to)
        tier = answers.tier_for(self.config, from_, to, max(1, MOST_BUCKETS // max(1, len(devices))), view.time_ms)
        ranked = []
        for device, known, _, result in self._of_devices(view, devices, metric, from_, to, tier):
            if result:
                its = metric_of(merged([point.stats for point in result]), known)
                value = getattr(its, by)
                ranked += [] if value is None else [Ranked(device, float(value), its)]
        ranked.sort(key=lambda one: (one.value if lowest else -one.value, one.device))
        return ms.first(ranked, limit)

    def site(self, view: ms.View, site: str, metric: str, from_: From, to: ms.Millis, points: int = POINTS) -> Series:
        """All devices of a site together, bucket by bucket."""
        devices = self._devices_of(view, site)
        tier = BY_NAME[self._chosen(from_, to, points, "", view.time_ms)]
        result = self._of_devices(view, devices, metric, from_, to, tier)
        if not result:
            raise ms.ArgumentError(f"expected a site with devices that send {metric!r}, found {site!r}.", "correct it.")
        digits = max(known.digits for _, known, _, _ in result)
        _, known, settings, _ = next(its for its in result if its[1].digits == digits)
        together = across([in_digits(its, known.digits, digits) for _, known, _, its in result])
        return answers.series_of(site, known, tier.name, settings, together, from_, min(to, view.time_ms))

    def silent(self, view: ms.View, since: ms.Millis, limit: int = MOST_DEVICES) -> list[Silent]:
        """Devices of which no reading was taken in or after the minute of a time, by order time. Those that the
        configuration or the table names, and that never sent one, come first."""
        minute = since - since % 60_000
        never = [
            its.id for its in self.config.devices if "*" not in its.id and not view.get(self.states.pulse, its.id).seen
        ]
        rows = [device for device, _ in ms.first(view.find(self.without_reading, 1), limit)]
        result = [Silent(device, self._site_of(view, device), None) for device in dict.fromkeys([*never, *rows])]
        result += [
            Silent(device, self._site_of(view, device), pulse.seen)
            for device, pulse in ms.first(view.range(self.by_seen, 1, minute), limit)
        ]
        return ms.first(result, limit)

    # Reading

    def _site_of(self, view: ms.View, device: str) -> str:
        return self.catalog.settings_of(device, view.get(self.states.device, device)).site

    def _device_view(self, view: ms.View, device: str) -> DeviceView:
        return DeviceView(view, self.states, self.catalog, device)

    def _read(
        self, view: ms.View, device: str, metric: str, start: int, end: int, tier: str
    ) -> tuple[Known, Settings, list[Point]]:
        its = self._device_view(view, device)
        known = its.known(metric)
        if known is None:
            raise ms.ArgumentError(f"expected a metric that {device!r} has sent, found {metric!r}.", "correct it.")
        of_days = BY_NAME.get(tier, DAYS)
        first = start - BEFORE * of_days.length_ms if known.counter else start
        points = its.points(of_days, known, max(0, first), end)
        if tier == MONTHS:
            points = months_of(points, its.settings.zone, max(0, first), end, its.settings.interval_ms)
        before = [point for point in points if point.end <= start]
        inside = with_steps([point for point in points if point.end > start], before[-1] if before else None)
        return known, its.settings, inside

    def _chosen(self, start: int, end: int, points: int, tier: str, now: int) -> str:
        check_time(start, end)
        if not 1 <= points <= MOST_POINTS:
            raise ms.ArgumentError(f"points: expected 1 to {MOST_POINTS:,}, found {points}.", "correct it.")
        if tier not in ("", MONTHS, *BY_NAME):
            raise ms.ArgumentError(f"tier: expected one of {', '.join([*BY_NAME, MONTHS])}, found {tier!r}.", "use it.")
        if tier in BY_NAME and answers.buckets_in(BY_NAME[tier], start, end) > MOST_POINTS:
            raise ms.ArgumentError(f"tier: {tier} has more than {MOST_POINTS:,} buckets.", "ask for a shorter time.")
        return tier or answers.tier_for(self.config, start, end, points, now).name

    def _devices_of(self, view: ms.View, site: str | None) -> list[str]:
        result = view.range(self.by_site) if site is None else view.find(self.by_site, site)
        devices = [device for device, _ in ms.first(result, MOST_DEVICES + 1)]
        if len(devices) > MOST_DEVICES:
            raise ms.ArgumentError(f"expected at most {MOST_DEVICES:,} devices, found more.", "name a site.")
        return devices

    def _of_devices(
        self, view: ms.View, devices: list[str], metric: str, start: int, end: int, tier: Tier
    ) -> list[tuple[str, Known, Settings, list[Point]]]:
        if len(devices) * answers.buckets_in(tier, start, end) > MOST_BUCKETS:
            raise ms.ArgumentError(
                f"expected at most {MOST_BUCKETS:,} buckets, found more: {len(devices):,} devices with the tier "
                f"{tier.name}.", "ask for a shorter time, or for fewer points.",
            )  # fmt: skip
        known = [device for device in devices if self._device_view(view, device).known(metric) is not None]
        return [(device, *self._read(view, device, metric, start, end, tier.name)) for device in known]


def check_time(start: int, end: int) -> None:
    if not 0 <= start < end:
        raise ms.ArgumentError(f"expected from before to, found {start} and {end}.", "correct them.")


def check_devices(devices: list[str]) -> None:
    if len(devices) > MOST_DEVICES or len(set(devices)) < len(devices):
        raise ms.ArgumentError(f"devices: expected at most {MOST_DEVICES:,} different ones.", "correct them.")

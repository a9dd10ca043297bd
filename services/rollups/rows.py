"""The table of devices: what a row changes in the state of its device."""

from __future__ import annotations

from typing import TypeVar

import moneystate as ms
from services.rollups import zones
from services.rollups.catalog import Catalog
from services.rollups.config import Config
from services.rollups.records import Device, DeviceRow, Pulse
from services.rollups.tiers import DAY

V = TypeVar("V", str, int)


class Rows:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def change(self, ctx: ms.Context[Config], row: DeviceRow | None, device: Device, pulse: Pulse) -> None:
        """Blocks that are open keep the zone that the device had."""
        before = self.catalog.settings_of(ctx.key, device)
        self._set(ctx, row, device)
        after = self.catalog.settings_of(ctx.key, device)
        if after.zone != before.zone:
            for block in pulse.open:
                block.zone = block.zone or before.zone

    def _set(self, ctx: ms.Context[Config], row: DeviceRow | None, device: Device) -> None:
        its = self.catalog.settings(ctx.key)
        device.has_row = row is not None
        device.zone = device.interval_ms = None
        if row is None:
            device.site = its.site if device.has_sent else ""
            return
        device.site = its.site if row.site is None else row.site
        device.zone = self._checked(ctx, "unknown_zone", row.zone, row.zone in zones.names())
        is_interval = row.interval_ms is not None and 1 <= row.interval_ms <= DAY
        device.interval_ms = self._checked(ctx, "bad_interval", row.interval_ms, is_interval)

    def _checked(self, ctx: ms.Context[Config], counter: str, value: V | None, is_good: bool) -> V | None:
        """A value that cannot be is counted, and the configuration's holds."""
        if value is not None and not is_good:
            ctx.count(counter)
            return None
        return value

"""Rollups of measurements. docs/rollups.md has the rules, under the same numbers."""

from __future__ import annotations

from typing import Any

import moneystate as ms
from services.rollups import records as r
from services.rollups.catalog import Catalog
from services.rollups.config import Config, check
from services.rollups.outputs import key_of
from services.rollups.points import States
from services.rollups.queries import declare_queries
from services.rollups.rows import Rows
from services.rollups.stepping import Outputs
from services.rollups.taking import AHEAD_MS, Taking, first_tail
from services.rollups.tiers import MINUTES, TIERS
from services.rollups.waking import Waking

__all__ = ["Config", "rollups"]
READINGS = "readings"
COMMANDS = "rollups-commands"


def rollups(config: Config) -> ms.Service[Config]:
    service = ms.Service("rollups", rules=config)
    check(service, config)
    catalog = Catalog(config)
    states = States(
        service.value("device", r.Device), service.value("pulse", r.Pulse), service.value("book", r.Book),
        service.map("tails", r.Tail), service.map("raw", r.Raw), service.map("minutes", r.Minutes),
        service.map("buckets", r.Bucket), service.map("columns", r.Packed),
    )  # fmt: skip
    wake = service.timer("wake")
    taking, waking = Taking(catalog, wake), Waking(catalog, outputs_of(service, config), wake)

    by_at = config.order == "at"
    readings = service.input(
        READINGS, r.Reading, key="device_id", time="at" if by_at else ms.arrival, bound_ms=config.readings_bound_ms,
        max_future_ms=AHEAD_MS if by_at else None, format=config.format,
    )  # fmt: skip
    service.on(readings, states.device, states.pulse, states.tails.at(first_tail), states.raw, states.buckets)(
        taking.take
    )
    if config.devices_topic:
        table = service.table(
            config.devices_topic, r.DeviceRow, key="device_id", local=True, format=config.format, name="device_rows"
        )
        service.on(table.changed, states.device, states.pulse)(Rows(catalog).change)
    on: Any = service.on  # its overloads have no function of so many states
    on(wake, *states)(waking.wakes)
    if not by_at:  # history is loaded without commands, whose times are those of today
        for record, step in ((r.Remove, waking.removes), (r.Forget, waking.forgets_all)):
            command: Any = service.input(COMMANDS, record, key="device_id", time=ms.arrival, format=config.format)
            on(command, *states)(step)
    declare_queries(service, catalog, states)
    return service


def outputs_of(service: ms.Service[Config], config: Config) -> Outputs:
    tiers = [tier for tier in TIERS if tier is not MINUTES or config.put_out_1m]
    topics = {
        tier.code: service.output(
            f"rollups-{tier.name}", r.Rollup, key=key_of, compacted=True, keep_ms=config.keep_ms(tier),
            format=config.format, record_time="end",
        )
        for tier in tiers
    }  # fmt: skip
    return Outputs(config, topics)

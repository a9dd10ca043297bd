"""Rollups under load: devices with ten metrics each send every five seconds, some of it late or twice."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from tests.bench.load import Load, Record

START_MS: Final = 1_767_225_600_000
DEVICES, METRICS, INTERVAL_MS = 1_000, 10, 5_000
TABLES: Final = """
[rollups]
order = "at"
readings_bound = "10s"
metrics = [
    { name = "percent-*", digits = 1, percentiles = true },
    { name = "counter-*", digits = 0, kind = "counter" },
    { name = "*" },
]
"""


def records(n: int) -> Iterator[Record]:
    chance = random.Random(1)
    names = ["percent-0", "percent-1", "counter-0", *[f"metric-{number}" for number in range(METRICS - 3)]]
    last = [[chance.uniform(0, 50) for _ in names] for _ in range(DEVICES)]
    for number in range(n):
        device, turn = number % DEVICES, number // DEVICES
        at = START_MS + turn * INTERVAL_MS + device * INTERVAL_MS // DEVICES
        values = last[device]
        for m in range(METRICS):
            values[m] = values[m] + 3 if m == 2 else values[m] + chance.gauss(0, 0.1)
        metrics = {name: round(value, 3) for name, value in zip(names, values, strict=True)}
        if chance.random() < 0.01:
            at -= chance.choice((0, 60_000, 3_600_000))
        reading = {"deviceId": f"device-{device}", "at": at, "metrics": metrics}
        yield Record("readings", f"device-{device}", json.dumps(reading).encode())


LOAD: Final = Load(TABLES, ("readings",), "rollups-15m", records)

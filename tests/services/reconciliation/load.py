"""Reconciliation under load: each event is announced and, but for one in a hundred, arrives within two seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.load import Load, Record

START_MS: Final = 1_700_000_000_000
ANNOUNCED, ARRIVED = "announced", "arrived"
TABLES: Final = """
[reconciliation]
[[reconciliation.inputs]]
topic = "announced"
bound = "5s"
[[reconciliation.inputs]]
topic = "arrived"
bound = "5s"
[[reconciliation.pairs]]
name = "shop-lake"
expected = { store = "shop", role = "PRODUCER_EXPECTED" }
actual = { store = "lake", role = "ACTUAL" }
n = "10s"
m = "1m"
o = "1m"
"""


def records(n: int) -> Iterator[Record]:
    """In the order in which they are written."""
    chance = random.Random(1)
    written: list[tuple[int, str, str, dict[str, Any]]] = []
    for number in range(n // 2):
        id, time_ms = f"order-{number}", START_MS + number
        item = {"source": "orders", "eventId": id, "eventTime": time_ms}
        written.append((time_ms, ANNOUNCED, id, {"store": "shop", "role": "PRODUCER_EXPECTED", **item}))
        if chance.random() < 0.99:
            arrived_ms = time_ms + chance.randrange(2_000)
            written.append((arrived_ms, ARRIVED, id, {"store": "lake", "role": "ACTUAL", **item}))
    written.sort(key=lambda one: one[0])
    for _, topic, id, record in written:
        yield Record(topic, id, json.dumps(record).encode())


LOAD: Final = Load(TABLES, (ANNOUNCED, ARRIVED), "reconciliation-changes", records)

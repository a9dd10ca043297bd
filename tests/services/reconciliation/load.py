"""Reconciliation under load: one event in a hundred never arrives and one is never announced; the others are on both
sides within two seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count
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


def announced(source: str, id: str, time_ms: int) -> Record:
    return _item(ANNOUNCED, "shop", "PRODUCER_EXPECTED", source, id, time_ms)


def arrived(source: str, id: str, time_ms: int) -> Record:
    return _item(ARRIVED, "lake", "ACTUAL", source, id, time_ms)


def _item(topic: str, store: str, role: str, source: str, id: str, time_ms: int) -> Record:
    item: dict[str, Any] = {"store": store, "role": role, "source": source, "eventId": id, "eventTime": time_ms}
    return Record(topic, id, json.dumps(item).encode())


def records(n: int) -> Iterator[Record]:
    """In the order in which they are written."""
    chance = random.Random(1)
    written: list[tuple[int, Record]] = []
    for number in count():
        if len(written) >= n:
            break
        id, time_ms, drawn = f"order-{number}", START_MS + number, chance.random()
        if drawn >= 0.01:
            written.append((time_ms, announced("orders", id, time_ms)))
        if drawn < 0.99:
            written.append((time_ms + chance.randrange(2_000), arrived("orders", id, time_ms)))
    written.sort(key=lambda one: one[0])
    for _, record in written[:n]:
        yield record


LOAD: Final = Load(TABLES, (ANNOUNCED, ARRIVED), "reconciliation-changes", records)

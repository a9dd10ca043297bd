"""The ledger under load: orders for skus of different popularity, most of them paid, some cancelled, some expired, some
sent again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from tests.bench.load import Load, Record

START_MS: Final = 1_767_225_600_000
POOLS, SKUS, TTL_MS, PAID_WITHIN_MS = 64, 100, 60_000, 30_000


def records(n: int) -> Iterator[Record]:
    """About so many commands, in the order of their times."""
    chance = random.Random(1)
    weights = list(accumulate(1 / (number + 1) for number in range(SKUS)))
    skus = [f"sku-{number}" for number in range(SKUS)]
    made: list[tuple[int, str, dict[str, Any]]] = [
        (START_MS, f"pool-{pool}", {"type": "Count", "commandId": f"count-{sku}", "sku": sku, "onHand": n // 200})
        for pool in range(POOLS)
        for sku in skus
    ]
    for number in range((n - len(made)) * 10 // 19):
        pool, id, at_ms = f"pool-{chance.randrange(POOLS)}", f"order-{number}", START_MS + number
        names = chance.choices(skus, cum_weights=weights, k=chance.choice((1, 1, 2, 3)))
        lines = [{"sku": name, "quantity": chance.randint(1, 3)} for name in names]
        reserve = {"type": "Reserve", "commandId": f"{id}/reserve", "reservationId": id, "orderId": id}
        made += [(at_ms, pool, {**reserve, "lines": lines, "ttlMs": TTL_MS})] * (1 + (chance.random() < 0.05))
        then, kind = at_ms + chance.randrange(PAID_WITHIN_MS), chance.random()
        if kind < 0.85:
            type, step = ("Confirm", "confirm") if kind < 0.7 else ("Cancel", "cancel")
            made.append((then, pool, {"type": type, "commandId": f"{id}/{step}", "reservationId": id}))
    made.sort(key=lambda record: record[0])
    for at_ms, pool, command in made:
        yield Record("stock-commands", pool, json.dumps({**command, "pool": pool, "time": at_ms}).encode())


LOAD: Final = Load("[stock]\n", ("stock-commands", "orders"), "stock-replies", records)

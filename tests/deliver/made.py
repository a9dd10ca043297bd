"""Deliveries for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moneystate.deliver.records import Delivery

DELIVERY = Delivery(
    "msg_1", "s1", "e1", "acme", 7, "orders", 3, 41, "order-1", "/shop", "order.placed", "t1", None, 1_000,
    b'{"id": 1,\n "total": 1.50}', 5, 6,
)  # fmt: skip


def delivery(**changes: Any) -> Delivery:
    return replace(DELIVERY, **changes)

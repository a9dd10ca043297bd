"""The records that the saga reads, writes and stores, beside the ledger's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import moneystate as ms
from services.stock.records import Line, Short


@dataclass(frozen=True)
class OrderLine(Line):
    pool: str


@dataclass(frozen=True)
class OrderPlaced:
    order_id: str
    lines: list[OrderLine]
    ttl_ms: int
    time: ms.Millis


@dataclass(frozen=True)
class OrderConfirmed:
    order_id: str
    time: ms.Millis


@dataclass(frozen=True)
class OrderCancelled:
    order_id: str
    time: ms.Millis


@dataclass(frozen=True)
class OrderResult:
    """`reason`, `short`: of the pool that refused; `confirmed`: pools that confirmed."""

    order_id: str
    status: Literal["HELD", "REJECTED", "CANCELLED", "CONFIRMED", "LOST"]
    reason: str | None
    short: list[Short]
    confirmed: list[str]
    time: ms.Millis


@dataclass
class AskedPool:
    """`answer`: to the last command that it was sent."""

    pool: str
    answer: Literal["ASKED", "ACCEPTED", "REFUSED"] = "ASKED"


@dataclass
class Order:
    """One that has not ended. `decision`: the customer's; `refusal`: of the first pool that did not confirm."""

    phase: Literal["UNKNOWN", "RESERVING", "HELD", "CONFIRMING"] = "UNKNOWN"
    pools: list[AskedPool] = field(default_factory=list)
    decision: Literal["OPEN", "CONFIRM", "CANCEL"] = "OPEN"
    refusal: str | None = None


@dataclass
class EndedOrder:
    """`unanswered`: pools that get a Cancel once they accept."""

    known: bool = False
    unanswered: list[str] = field(default_factory=list)

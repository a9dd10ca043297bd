"""The records that the ledger reads, writes and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import moneystate as ms

# Commands: the topic stock-commands


@dataclass(frozen=True)
class PoolCommand:
    command_id: str
    pool: str
    time: ms.Millis


@dataclass(frozen=True)
class Adjust(PoolCommand):
    """Change what is on hand by `quantity`."""

    sku: str
    quantity: int


@dataclass(frozen=True)
class Count(PoolCommand):
    """At `time`, `on_hand` were counted."""

    sku: str
    on_hand: int


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int


@dataclass(frozen=True)
class Reserve(PoolCommand):
    reservation_id: str
    lines: list[Line]
    ttl_ms: int
    order_id: str | None = None
    policy: Literal["ALL", "PARTIAL"] = "ALL"


@dataclass(frozen=True)
class Confirm(PoolCommand):
    """`quantities`: by sku, None for all that is held."""

    reservation_id: str
    quantities: dict[str, int] | None = None


@dataclass(frozen=True)
class Cancel(PoolCommand):
    reservation_id: str


Command: TypeAlias = Adjust | Count | Reserve | Confirm | Cancel
COMMANDS = (Adjust, Count, Reserve, Confirm, Cancel)

# Events: the topic stock-events. `on_hand` and `reserved` of a sku stand after the event.


@dataclass(frozen=True)
class EventLine:
    sku: str
    quantity: int
    on_hand: int
    reserved: int


@dataclass(frozen=True)
class ReservationEvent:
    pool: str
    reservation_id: str
    order_id: str | None
    reason: str | None
    lines: list[EventLine]


class Reserved(ReservationEvent): ...


class Confirmed(ReservationEvent): ...


class Cancelled(ReservationEvent): ...


class Expired(ReservationEvent): ...


@dataclass(frozen=True)
class Adjusted:
    """`quantity`: the change; `counted`: by a Count."""

    pool: str
    sku: str
    quantity: int
    counted: bool
    on_hand: int
    reserved: int


EVENTS = (Reserved, Confirmed, Cancelled, Expired, Adjusted)

# Replies and levels: the topics stock-replies and stock


@dataclass(frozen=True)
class Short:
    """`quantity`: as asked."""

    sku: str
    quantity: int
    available: int


@dataclass(frozen=True)
class StockReply:
    """`lines`: what was granted."""

    command_id: str
    pool: str
    status: Literal["ACCEPTED", "REJECTED"]
    reason: str | None
    reservation_id: str | None
    lines: list[Line]
    short: list[Short]


@dataclass(frozen=True)
class StockLevel:
    pool: str
    sku: str
    on_hand: int
    reserved: int
    available: int


# State


@dataclass(frozen=True)
class Sku:
    """`changed_at`: when `on_hand` last changed; `reserves`: how many reservations have ever held it."""

    on_hand: int
    reserved: int
    changed_at: ms.Millis | None
    reserves: int


@dataclass(frozen=True)
class HeldLine:
    """`number`: of the reservation among all that have ever held the sku."""

    sku: str
    quantity: int
    number: int


@dataclass(frozen=True)
class Reservation:
    """`lines`: what is held or, of an ended one, what was confirmed or released."""

    pool: str
    reservation_id: str
    order_id: str | None
    lines: list[HeldLine]
    expires_at: ms.Millis
    status: Literal["OPEN", "CONFIRMED", "CANCELLED", "EXPIRED"] = "OPEN"
    reason: str | None = None


@dataclass(frozen=True)
class Hold:
    """That an open reservation holds a sku."""

    reservation_id: str


@dataclass(frozen=True)
class Known:
    """A command that was answered; `digest`: of its content."""

    digest: bytes
    reply: StockReply

"""The records of the ledger and the saga. Those that each command makes are not frozen: a frozen one takes four times
as long to make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import moneystate as ms

# Commands: the topic stock-commands


@dataclass(frozen=True)
class PoolCommand:
    command_id: str
    pool: str
    time: ms.Millis


@dataclass(frozen=True)
class SkuCommand(PoolCommand):
    sku: str


@dataclass(frozen=True)
class Adjust(SkuCommand):
    """Change what is on hand by `quantity`."""

    quantity: int


@dataclass(frozen=True)
class Count(SkuCommand):
    """A count: at `time`, `on_hand` were counted."""

    on_hand: int


@dataclass(frozen=True)
class ReservationCommand(PoolCommand):
    reservation_id: str


@dataclass
class Line:
    sku: str
    quantity: int

    def __repr__(self) -> str:
        """Equals the dataclass's own, in a third of the time. It must not change, because a digest of it is stored."""
        return f"Line(sku={self.sku!r}, quantity={self.quantity!r})"


@dataclass(frozen=True)
class Reserve(ReservationCommand):
    lines: list[Line]
    ttl_ms: int
    order_id: str | None = None
    policy: Literal["ALL", "PARTIAL"] = "ALL"


@dataclass(frozen=True)
class Confirm(ReservationCommand):
    """`quantities`: by sku, None for all that is held."""

    quantities: dict[str, int] | None = None


class Cancel(ReservationCommand): ...


Command: TypeAlias = Adjust | Count | Reserve | Confirm | Cancel
COMMANDS = (Adjust, Count, Reserve, Confirm, Cancel)

# Events: the topic stock-events. `on_hand` and `reserved` of a sku stand after the event.


@dataclass
class EventLine(Line):
    on_hand: int
    reserved: int


@dataclass
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


@dataclass
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


@dataclass
class Short(Line):
    """`quantity`: as asked."""

    available: int


@dataclass
class StockReply:
    """`lines`: what was granted."""

    command_id: str
    pool: str
    status: Literal["ACCEPTED", "REJECTED"]
    reason: str | None
    reservation_id: str | None
    lines: list[Line]
    short: list[Short]


@dataclass
class StockLevel:
    pool: str
    sku: str
    on_hand: int
    reserved: int
    available: int


# State of the ledger


@dataclass
class Sku:
    """`changed_at`: when `on_hand` last changed; `reserves`: how many reservations have ever held it."""

    on_hand: int
    reserved: int
    changed_at: ms.Millis | None
    reserves: int


@dataclass
class HeldLine(Line):
    """`number`: of the reservation among all that have ever held the sku."""

    number: int


@dataclass
class Reservation:
    """`lines`: what is held or, of an ended one, what was confirmed or released."""

    pool: str
    reservation_id: str
    order_id: str | None
    lines: list[HeldLine]
    expires_at: ms.Millis
    status: Literal["OPEN", "CONFIRMED", "CANCELLED", "EXPIRED"] = "OPEN"
    reason: str | None = None


@dataclass
class Hold:
    """An open reservation holds a sku."""

    reservation_id: str


@dataclass
class Known:
    """A command that was answered; `digest`: of its content."""

    digest: bytes
    reply: StockReply


# Orders over several pools: the topics orders and order-results, and the state of an order


@dataclass
class OrderLine(Line):
    pool: str


@dataclass(frozen=True)
class OrderPlaced:
    order_id: str
    lines: list[OrderLine]
    ttl_ms: int
    time: ms.Millis


@dataclass(frozen=True)
class OrderDecision:
    order_id: str
    time: ms.Millis


class OrderConfirmed(OrderDecision): ...


class OrderCancelled(OrderDecision): ...


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
    """One that has not ended. `decision`: the customer's; `refusal`: of the first pool that did not confirm; `digest`:
    of what was ordered."""

    phase: Literal["UNKNOWN", "RESERVING", "HELD", "CONFIRMING"] = "UNKNOWN"
    pools: list[AskedPool] = field(default_factory=list)
    decision: Literal["OPEN", "CONFIRM", "CANCEL"] = "OPEN"
    refusal: str | None = None
    digest: bytes = b""


@dataclass
class EndedOrder:
    """`unanswered`: pools that get a Cancel once they accept; `digest`: as of the order."""

    known: bool = False
    unanswered: list[str] = field(default_factory=list)
    digest: bytes = b""

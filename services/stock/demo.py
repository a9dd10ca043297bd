"""`moneystate demo stock`: five pools and what becomes of their reservations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play

TABLES: Final = """
[stock]
command_retention = "1h"
reservation_retention = "1h"
"""
START: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)


def _sent(at_s: float, pool: str, type: str, told: str, command: str, **fields: Any) -> Sent:
    time = (START + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"type": type, "commandId": command, "pool": pool, "time": time, **fields}
    return Sent(at_s, "stock-commands", record, f"{command}: {told}")


def _counted(at_s: float, pool: str, shirts: int, command: str = "count") -> Sent:
    return _sent(at_s, pool, "Count", f"{shirts} shirts counted", command, sku="shirt", onHand=shirts)


def _reserve(at_s: float, pool: str, who: str, shirts: int, ttl_s: int = 600) -> Sent:
    lines = [{"sku": "shirt", "quantity": shirts}]
    told = f"reserve {shirts} for {ttl_s} s"
    return _sent(at_s, pool, "Reserve", told, who, reservationId=who, lines=lines, ttlMs=1_000 * ttl_s)


def _confirm(at_s: float, pool: str, who: str) -> Sent:
    return _sent(at_s, pool, "Confirm", f"confirm what {who} holds", f"{who} pays", reservationId=who)


def line(came: Came) -> str:
    record = came.value or {}
    if came.reason:
        return f"dead letter: {came.reason}"
    if record["type"] == "StockReply":
        short = ", ".join(f"{line['available']} there" for line in record["short"])
        return " ".join(filter(None, [f"-> {record['commandId']}:", record["reason"] or record["status"], short]))
    its = record if record["type"] == "Adjusted" else record["lines"][0]
    who = [record["type"], record.get("reservationId"), record.get("reason")]
    return f"{' '.join(filter(None, who))}: on hand {its['onHand']}, reserved {its['reserved']}"


STEPS: Final = (
    Step(
        "Two want the last shirt: nothing is oversold",
        "north",
        (_counted(0, "north", 1), _reserve(1, "north", "ann", 1), _reserve(1.1, "north", "bob", 1),
         _confirm(2, "north", "ann")),
        ("Adjusted: on hand 1, reserved 0", "Reserved ann: on hand 1, reserved 1",
         "Confirmed ann: on hand 0, reserved 0",
         "-> count: ACCEPTED", "-> ann: ACCEPTED", "-> bob: INSUFFICIENT 0 there", "-> ann pays: ACCEPTED"),
    ),
    Step(
        "A retry gets the same reply and has no effect",
        "east",
        (_counted(3, "east", 5), _reserve(4, "east", "ann", 2), _reserve(5, "east", "ann", 2),
         _reserve(6, "east", "ann", 3), _confirm(7, "east", "ann")),
        ("Adjusted: on hand 5, reserved 0", "Reserved ann: on hand 5, reserved 2",
         "Confirmed ann: on hand 3, reserved 0",
         "-> count: ACCEPTED", "-> ann: ACCEPTED", "-> ann: ACCEPTED", "-> ann: ID_CONFLICT", "-> ann pays: ACCEPTED"),
    ),
    Step(
        "Nobody pays: it expires, and the next one gets it",
        "south",
        (_counted(8, "south", 1), _reserve(9, "south", "ann", 1, ttl_s=10), _reserve(18, "south", "bob", 1),
         _reserve(20, "south", "eve", 1, ttl_s=60), _confirm(21, "south", "ann"), _confirm(22, "south", "eve")),
        ("Adjusted: on hand 1, reserved 0", "Reserved ann: on hand 1, reserved 1", "Expired ann: on hand 1, reserved 0",
         "Reserved eve: on hand 1, reserved 1", "Confirmed eve: on hand 0, reserved 0", "-> count: ACCEPTED",
         "-> ann: ACCEPTED", "-> bob: INSUFFICIENT 0 there", "-> eve: ACCEPTED", "-> ann pays: ALREADY_EXPIRED",
         "-> eve pays: ACCEPTED"),
    ),
    Step(
        "A count is a fact: the newest reservation goes",
        "west",
        (_counted(23, "west", 5), _reserve(24, "west", "ann", 2), _reserve(25, "west", "bob", 2),
         _counted(26, "west", 3, "recount"), _confirm(27, "west", "ann")),
        ("Adjusted: on hand 5, reserved 0", "Reserved ann: on hand 5, reserved 2",
         "Reserved bob: on hand 5, reserved 4", "Cancelled bob SHORTAGE: on hand 5, reserved 2",
         "Adjusted: on hand 3, reserved 2",
         "Confirmed ann: on hand 1, reserved 0", "-> count: ACCEPTED", "-> ann: ACCEPTED", "-> bob: ACCEPTED",
         "-> recount: ACCEPTED", "-> ann pays: ACCEPTED"),
    ),
    Step(
        "A sku that no key can hold: a dead letter",
        "attic",
        (_sent(28, "attic", "Adjust", "1 of a sku of 2,000 characters", "more", sku="x" * 2_000, quantity=1),),
        ("dead letter: text_too_long",),
    ),
)  # fmt: skip


def demo() -> bool:
    outputs = ["stock-events", "stock-replies", "stock-dead-letters"]
    return play("services.stock.service:stock", TABLES, STEPS, outputs, line)

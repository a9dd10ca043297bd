"""What must never be, asserted after every event and reply that the ledger puts out, from these alone."""

from __future__ import annotations

from typing import Any

from services.stock.records import (
    Adjusted,
    Cancelled,
    Confirmed,
    EventLine,
    Expired,
    Reserved,
    StockReply,
)


class Auditor:
    def __init__(self) -> None:
        self.on_hand: dict[tuple[str, str], int] = {}
        self.open: dict[tuple[str, str], dict[str, int]] = {}
        self.accepted: dict[tuple[str, str], StockReply] = {}
        self.effects: list[Any] = []  # since the last reply, but for what expired

    def audit(self, outputs: list[Any]) -> None:
        for record in outputs:
            if isinstance(record, StockReply):
                self.reply(record)
            else:
                self.event(record)
        assert self.effects == [], "effects without a reply"

    def reserved(self, pool: str, sku: str) -> int:
        return sum(lines.get(sku, 0) for (its, _), lines in self.open.items() if its == pool)

    def event(self, event: Any) -> None:
        if not isinstance(event, Expired):
            self.effects.append(event)
        if isinstance(event, Adjusted):
            self.on_hand[event.pool, event.sku] = self.on_hand.get((event.pool, event.sku), 0) + event.quantity
            self.level(event.pool, event.sku, event.on_hand, event.reserved)
            return
        id = (event.pool, event.reservation_id)
        if isinstance(event, Reserved):
            assert id not in self.open
            self.open[id] = {line.sku: line.quantity for line in event.lines}
        else:
            held = self.open.pop(id, None)
            assert held is not None, f"{id} ends, and is not open"
            assert list(held) == [line.sku for line in event.lines]
            if isinstance(event, Confirmed):
                for line in event.lines:
                    assert 0 <= line.quantity <= held[line.sku]
                    self.on_hand[event.pool, line.sku] -= line.quantity
        for line in event.lines:
            assert isinstance(line, EventLine)
            self.level(event.pool, line.sku, line.on_hand, line.reserved)

    def level(self, pool: str, sku: str, on_hand: int, reserved: int) -> None:
        assert 0 <= reserved <= on_hand
        assert reserved == self.reserved(pool, sku)
        assert on_hand == self.on_hand[pool, sku]

    def reply(self, reply: StockReply) -> None:
        """An accepted command has its effect just before its reply, unless it is a reply given again. No other has
        one."""
        effects, self.effects = self.effects, []
        if reply.status == "REJECTED":
            assert effects == []
            return
        if not effects:
            assert self.accepted[reply.pool, reply.command_id] == reply
            return
        self.accepted[reply.pool, reply.command_id] = reply
        *shortage, effect = effects
        assert all(isinstance(e, Cancelled) and e.reason == "SHORTAGE" for e in shortage)
        assert not shortage or (isinstance(effect, Adjusted) and effect.counted)
        assert effect.pool == reply.pool
        if not isinstance(effect, Adjusted):
            assert effect.reservation_id == reply.reservation_id
        if isinstance(effect, Reserved):
            assert [(line.sku, line.quantity) for line in effect.lines] == [(li.sku, li.quantity) for li in reply.lines]

"""The ledger as a service: stock-commands -> stock-events, stock-replies, stock."""

from __future__ import annotations

import hashlib
from typing import Any

import moneystate as ms
from services.stock import queries, records
from services.stock.config import Config
from services.stock.ledger import RULES, Event, Pool, Refused, check_texts, expire
from services.stock.records import Command, Hold, Known, Line, Reservation, Reserve, Short, Sku, StockLevel, StockReply


def stock(config: Config) -> ms.Service[Config]:
    return StockService(config).service


class StockService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("stock", rules=config)
        format = config.format
        inputs: list[ms.Input[Any]] = [
            service.input(
                "stock-commands", record, key="pool", time="time", bound_ms=0, max_future_ms=5_000, format=format
            )
            for record in records.COMMANDS
        ]
        commands: ms.Source[Any] = inputs[0] | inputs[1] | inputs[2] | inputs[3] | inputs[4]

        self.known = service.map("known", Known, ttl_ms=config.command_retention_ms)
        self.skus = service.map("skus", Sku)
        self.reservations = service.map("reservations", Reservation)
        self.ended = service.map("ended", Reservation, ttl_ms=config.reservation_retention_ms)
        self.holds = service.map("holds", Hold)
        self.due = service.timer("due", of=self.reservations)
        queries.declare(service, self.skus, self.reservations, self.ended, self.holds)

        self.replies = service.output("stock-replies", StockReply, key="pool", timed=True, format=format)
        self.levels = service.output("stock", StockLevel, key=("pool", "sku"), compacted=True, format=format)
        self.events: dict[type, ms.Output[Any]] = {
            event: service.output("stock-events", event, key="pool", timed=True, format=format)
            for event in records.EVENTS
        }

        mine = reservations_of
        service.on(
            commands, self.known.at("command_id"), self.skus.at(skus_of), self.reservations.at(mine),
            self.ended.at(mine), self.holds,
        )(self.command)  # fmt: skip
        service.on(self.due, self.skus, self.reservations, self.ended, self.holds)(self.expire)

    def command(
        self, ctx: ms.Context[Config], e: Command, known: ms.Entries[Known], skus: ms.Entries[Sku],
        reservations: ms.Entries[Reservation], ended: ms.Entries[Reservation], holds: ms.Entries[Hold],
    ) -> None:  # fmt: skip
        check_texts(texts_of(e))
        digest = digest_of(e)
        answered = known.get(e.command_id)  # (1)
        if answered is not None:
            same = answered.digest == digest
            ctx.emit(self.replies, answered.reply if same else reply_to(e, "ID_CONFLICT", [], []))
            return
        pool = Pool(ctx.key, ctx.now, skus, reservations, ended, holds)
        try:
            reply = reply_to(e, None, *RULES[type(e)](pool, e))
        except Refused as refused:
            reply = reply_to(e, refused.reason, [], refused.short)
        known.put(e.command_id, Known(digest, reply))
        self.put_out(ctx, pool)
        ctx.emit(self.replies, reply)

    def expire(
        self, ctx: ms.Context[Config], id: str, skus: ms.Entries[Sku], reservations: ms.Entries[Reservation],
        ended: ms.Entries[Reservation], holds: ms.Entries[Hold],
    ) -> None:  # fmt: skip
        pool = Pool(ctx.key, ctx.now, skus, reservations, ended, holds)
        expire(pool, id)
        self.put_out(ctx, pool)

    def put_out(self, ctx: ms.Context[Config], pool: Pool) -> None:
        """Each event, then the level of each of its skus."""
        for event in pool.events:
            ctx.emit(self.events[type(event)], event)
            for level in levels_of(event):
                ctx.emit(self.levels, level)
        for id, when in pool.timers.items():
            if when is None:
                ctx.cancel(self.due, id)
            else:
                ctx.at(self.due, when, id)


def skus_of(e: Command) -> list[str]:
    """What a command is about, as far as it says so itself."""
    return [line.sku for line in e.lines] if isinstance(e, Reserve) else [e.sku] if hasattr(e, "sku") else []


def reservations_of(e: Command) -> list[str]:
    return [e.reservation_id] if hasattr(e, "reservation_id") else []


def texts_of(e: Command) -> list[str]:
    """Those that stand in keys and are put out again."""
    order_id = e.order_id or "" if isinstance(e, Reserve) else ""
    return [e.command_id, e.pool, order_id, *skus_of(e), *reservations_of(e)]


def digest_of(e: Command) -> bytes:
    """Of all that a command says but its time."""
    content: list[Any] = [type(e).__name__]
    for name, value in vars(e).items():
        if name != "time":
            content.append(sorted(value.items()) if isinstance(value, dict) else value)
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()


def reply_to(e: Command, reason: str | None, lines: list[Line], short: list[Short]) -> StockReply:
    reservation_id = getattr(e, "reservation_id", None)
    status: Any = "ACCEPTED" if reason is None else "REJECTED"
    return StockReply(e.command_id, e.pool, status, reason, reservation_id, lines, short)


def levels_of(event: Event) -> list[StockLevel]:
    lines: Any = [event] if isinstance(event, records.Adjusted) else event.lines
    return [StockLevel(event.pool, its.sku, its.on_hand, its.reserved, its.on_hand - its.reserved) for its in lines]

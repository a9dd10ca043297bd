"""The ledger as a service: stock-commands -> stock-events, stock-replies, stock."""

from __future__ import annotations

import hashlib
from functools import reduce
from operator import or_
from typing import Any, Literal

import moneystate as ms
from services.stock import records
from services.stock.config import Config
from services.stock.ledger import RULES, Pool, Refused, check_texts
from services.stock.queries import declare_queries
from services.stock.records import Command, Known, Reservation, ReservationCommand, Reserve, Sku, StockLevel, StockReply


def stock(config: Config) -> ms.Service[Config]:
    return StockService(config).service


class StockService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("stock", rules=config)
        format = config.format
        inputs: list[ms.Source[Any]] = [
            service.input(
                "stock-commands", record, key="pool", time="time", bound_ms=0, max_future_ms=5_000, format=format
            )
            for record in records.COMMANDS
        ]
        self.known = service.map("known", Known, ttl_ms=config.command_retention_ms)
        self.skus = service.map("skus", Sku)
        self.reservations = service.map("reservations", Reservation)
        self.ended = service.map("ended", Reservation, ttl_ms=config.reservation_retention_ms)
        self.holds = service.map("holds", records.Hold)
        self.due = service.timer("due", of=self.reservations)
        declare_queries(service, self.skus, self.reservations, self.ended, self.holds)

        self.replies = service.output("stock-replies", StockReply, key="pool", timed=True, format=format)
        self.levels = service.output("stock", StockLevel, key=("pool", "sku"), compacted=True, format=format)
        self.events: dict[type, ms.Output[Any]] = {
            event: service.output("stock-events", event, key="pool", timed=True, format=format)
            for event in records.EVENTS
        }
        self.outputs = {**self.events, StockLevel: self.levels}

        service.on(
            reduce(or_, inputs), self.known.at("command_id"), self.skus.at(skus_of),
            self.reservations.at(reservations_of), self.ended.at(reservations_of), self.holds,
        )(self.command)  # fmt: skip
        service.on(self.due, self.skus, self.reservations, self.ended, self.holds)(self.expire)

    def command(self, ctx: ms.Context[Config], e: Command, known: ms.Entries[Known], *pool: ms.Entries[Any]) -> None:
        """`pool`: its maps, as `Pool` takes them."""
        check_texts(texts_of(e))
        digest = digest_of(e)
        step = Pool(ctx, self.outputs, self.due, *pool)
        answered = known.get(e.command_id)  # (1)
        if answered is not None:
            ctx.emit(self.replies, answered.reply if answered.digest == digest else reply_to(e, "ID_CONFLICT", step))
            return
        reason = None
        try:
            RULES[type(e)](step, e)
        except Refused as refused:
            reason = str(refused)
        reply = reply_to(e, reason, step)
        known.put(e.command_id, Known(digest, reply))
        ctx.emit(self.replies, reply)

    def expire(self, ctx: ms.Context[Config], id: str, *pool: ms.Entries[Any]) -> None:
        step = Pool(ctx, self.outputs, self.due, *pool)
        step.end(step.open(id), "EXPIRED")  # (3)


def skus_of(e: Command) -> list[str]:
    """Returns what a command is about, as far as it says so itself."""
    if isinstance(e, Reserve):
        return [line.sku for line in e.lines]
    return [e.sku] if isinstance(e, records.SkuCommand) else []


def reservations_of(e: Command) -> list[str]:
    return [e.reservation_id] if isinstance(e, ReservationCommand) else []


def texts_of(e: Command) -> list[str]:
    """Returns the texts that become parts of keys and of outputs."""
    return [e.command_id, e.pool, getattr(e, "order_id", None) or "", *skus_of(e), *reservations_of(e)]


def digest_of(e: Command) -> bytes:
    """Returns the digest of a command without its time."""
    id, pool, _, *fields = vars(e).values()
    content = [sorted(its.items()) if isinstance(its, dict) else its for its in fields]
    return hashlib.blake2b(repr([type(e).__name__, id, pool, *content]).encode(), digest_size=16).digest()


def reply_to(e: Command, reason: str | None, step: Pool) -> StockReply:
    reservation_id = e.reservation_id if isinstance(e, ReservationCommand) else None
    status: Literal["ACCEPTED", "REJECTED"] = "REJECTED" if reason else "ACCEPTED"
    return StockReply(e.command_id, e.pool, status, reason, reservation_id, step.granted, step.short)

"""Timers that set themselves again: each hour, and at the same order time."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms

HOUR = 3_600_000


@dataclass(frozen=True)
class Reading:
    meter: str
    at: ms.Millis
    wait_ms: int = 0  # until its own timer
    chain: int = 0  # timers that set each other at one order time


@dataclass(frozen=True)
class Report:
    meter: str
    what: str
    at: ms.Millis


@dataclass
class Meter:
    chain: int = 0


@dataclass(frozen=True)
class Rules:
    chain: int = 10


service = ms.Service("meters", rules=Rules())
readings = service.input("readings", Reading, key="meter", time="at")
reports = service.output("reports", Report, key="meter")
meter = service.value("meter", Meter)
hourly = service.timer("hourly")
once = service.timer("once")
again = service.timer("again")


@service.on(readings, meter)
def take(ctx: ms.Context[Rules], e: Reading, meter: Meter) -> None:
    ctx.at(hourly, ctx.now - ctx.now % HOUR + HOUR)
    if e.wait_ms:
        ctx.at(once, ctx.now + e.wait_ms)
    if e.chain:
        meter.chain = e.chain
        ctx.at(again, ctx.now)


@service.on(hourly)
def report(ctx: ms.Context[Rules]) -> None:
    ctx.emit(reports, Report(ctx.key, "hour", ctx.now))
    ctx.at(hourly, ctx.now + HOUR)


@service.on(once)
def wait_is_over(ctx: ms.Context[Rules]) -> None:
    ctx.emit(reports, Report(ctx.key, "once", ctx.now))


@service.on(again, meter)
def chained(ctx: ms.Context[Rules], meter: Meter) -> None:
    meter.chain -= 1
    if meter.chain:
        ctx.at(again, ctx.now)

"""Random logs that reach every rule: small numbers, and times so coarse that much happens at one of them."""

from __future__ import annotations

import random
from typing import Any

import moneystate as ms
from services.sequencing.config import Config
from services.sequencing.records import (
    EventsUnavailable,
    Poisoned,
    Resume,
    SkipGap,
    StreamClosed,
    StreamEvent,
    StreamOpened,
)

STREAMS = ("a", "b", "c")
KINDS = ("ASSIST", "POINT", "FOUL", None)
START, TICK = 1_000, 5
BOUND_MS = 4 * TICK


def some_config(chance: random.Random) -> Config:
    k = chance.randint(0, 3)
    g1 = TICK * chance.randint(1, 3)
    return Config(
        g1_ms=g1,
        k=k,
        g2_ms=k * g1 + TICK * chance.randint(1, 6),
        policy=chance.choice(("stall", "skip", "park")),
        digest_retention_ms=TICK * chance.choice((0, 4, 20)),
        closed_wait_ms=TICK * chance.randint(2, 30),
        closed_retention_ms=TICK * chance.randint(0, 12),
        idle_retention_ms=chance.choice((None, None, TICK * chance.randint(4, 20))),
        max_held=chance.choice((2, 6, 100)),
        follows=chance.choice(({}, {"ASSIST": ("POINT",), "FOUL": ("POINT", "FOUL")})),
        violation=chance.choice(("emit", "park")),
    )


def some_log(chance: random.Random, records: int) -> list[Any]:
    """Records in the order in which they are sent; the producers of a stream are some numbers apart."""
    time = START
    position = dict.fromkeys(STREAMS, 1)
    made: list[Any] = []
    steady = chance.random() < 0.5
    for _ in range(records):
        time += TICK * chance.choice((0, 0, 1, 1, 2, 2 if steady else 8))
        stream = chance.choice(STREAMS)
        when = max(START, time - TICK * chance.choice((0, 0, 0, 1, 2, 9)))
        made.append(_record(chance, stream, position, when))
    return made


def _record(chance: random.Random, stream: str, position: dict[str, int], time: int) -> Any:
    number = max(1, position[stream] + chance.choice((-6, -3, -2, -1, 0, 1, 1, 2, 3, 5)))
    kind = chance.random()
    if kind < 0.76:
        position[stream] += chance.random() < 0.6
        seq = 0 if chance.random() < 0.005 else number
        return StreamEvent(stream, seq, f"e{number}{chance.choice(('', '', '', '', 'x'))}", _body(chance), time)
    if kind < 0.80:
        from_ = max(0, number + chance.randint(-2, 3))
        return EventsUnavailable(stream, from_, from_ + chance.choice((-1, 0, 0, 1, 4)), time)
    if kind < 0.84:
        return Poisoned(stream, time, max(0, number - (chance.random() < 0.05) * number))
    if kind < 0.86:
        return StreamOpened(stream, time, chance.choice((0, 1, 2, 3, number)))
    if kind < 0.89:
        return SkipGap(stream, time, chance.choice((0, number, number + 1, number - 1)))
    if kind < 0.96:
        return Resume(stream, time)
    if kind < 0.97:
        position[stream] = 1
        return StreamClosed(stream, time, chance.choice((-1, 0, number, number + 2, number + 4)))
    return StreamEvent(stream, number, f"e{number}", _body(chance), time)


def _body(chance: random.Random) -> ms.Json:
    kind = chance.choice(KINDS)
    return ms.Json.of(chance.choice(([], "ASSIST", {"type": 1})) if kind is None else {"type": kind})

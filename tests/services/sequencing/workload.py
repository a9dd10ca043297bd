"""Random logs that reach every rule: small numbers, and times so coarse that much happens at one of them."""

from __future__ import annotations

import json
import random
from dataclasses import fields
from typing import Any

import moneystate as ms
from moneystate.records.shapes import camel
from services.sequencing.config import Config
from services.sequencing.records import (
    EventsUnavailable,
    Poisoned,
    Resume,
    SkipGap,
    StreamClosed,
    StreamEvent,
    StreamOpened,
    StreamRestarted,
)

STREAMS = ("a", "b", "c")
KINDS = ("ASSIST", "POINT", "FOUL", None)
START, TICK = 1_000, 5
BOUND_MS = 4 * TICK
EVENTS = 0.76  # of all records
UNREADABLE = (
    '"eventId": "e", "body": {"a": 1, "a": 2}', '"eventId": 1, "body": 1', '"body": 1', '"eventId": "e"',
    '"eventId": "e", "body": NaN', '"eventId": "e", "body": "\\ud800"',
    '"eventId": "e", "body": ' + "[" * 101 + "]" * 101, '"eventId": "e", "body": ' + "1" * 1_001,
)  # fmt: skip
JUNK = (  # which does not decode, so that its time does not count
    '{"type":"StreamEvent","stream":"a","seq":0,"time":9000000,"eventId":"e","body":NaN}',
    '{"type":"StreamEvent","stream":"a","seq":1,"eventId":"e","body":1}',
    '{"type":"SkipGap","stream":"a","upTo":"1","time":9000000}',
    '{"type":"StreamEvent","stream":"a","seq":1,"time":9000000,"eventId":"e","body":1',
)


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
        follows_field=chance.choice(("type", "kind")),
        violation=chance.choice(("emit", "park")),
        format=chance.choice(("json", "json", "avro")),
    )


def some_log(chance: random.Random, records: int) -> list[Any]:
    """Records in the order in which they are sent; the producers of a stream are some numbers apart. Some streams begin
    in the middle, and in some logs there is much that operators send."""
    time = START
    position = {stream: chance.choice((1, 1, 8)) for stream in STREAMS}
    made: list[Any] = []
    steady = chance.random() < 0.5
    operated = 0.3 if chance.random() < 0.3 else 0.0
    for _ in range(records):
        time += TICK * chance.choice((0, 0, 1, 1, 2, 2 if steady else 8))
        stream = chance.choice(STREAMS)
        when = max(START, time - TICK * chance.choice((0, 0, 0, 1, 2, 9)))
        kind = chance.uniform(EVENTS, 1) if chance.random() < operated else chance.random()
        made.append(_record(chance, kind, stream, position, when))
        if isinstance(made[-1], StreamRestarted) and chance.random() < 0.4:
            made.append(made[-1])
    return made


def _record(chance: random.Random, kind: float, stream: str, position: dict[str, int], time: int) -> Any:
    number = max(1, position[stream] + chance.choice((-6, -3, -2, -1, 0, 1, 1, 2, 3, 5)))
    if kind < EVENTS:
        position[stream] += chance.random() < 0.6
        seq = 0 if chance.random() < 0.005 else number
        return StreamEvent(stream, seq, f"e{number}{chance.choice(('', '', '', '', 'x'))}", _body(chance), time)
    if kind < 0.80:
        from_ = max(0, number + chance.randint(-2, 3))
        return EventsUnavailable(stream, from_, from_ + chance.choice((-1, 0, 0, 1, 4)), time)
    if kind < 0.84:
        return Poisoned(stream, time, number)
    if kind < 0.86:
        return StreamOpened(stream, time, chance.choice((0, 1, 2, 3, number, number, number + 2)))
    if kind < 0.89:
        return SkipGap(stream, time, chance.choice((0, number, number + 1, number - 1)))
    if kind < 0.95:
        return Resume(stream, time)
    if kind < 0.96:
        position[stream] = chance.choice((1, 1, position[stream]))
        return StreamRestarted(stream, time, chance.choice((0, position[stream], position[stream])))
    if kind < 0.97:
        position[stream] = chance.choice((1, position[stream]))
        return StreamClosed(stream, time, chance.choice((-1, 0, number, number + 2, number + 4)))
    return StreamEvent(stream, number, f"e{number}", _body(chance), time)


def _body(chance: random.Random) -> ms.Json:
    kind, other = chance.choice(KINDS), chance.choice(KINDS)
    if kind is None:
        return ms.Json.of(chance.choice(([], "ASSIST", {"type": 1, "kind": None})))
    return ms.Json.of({"type": kind, "kind": other})


def as_json(record: Any) -> bytes:
    """As a producer of its own would write it; what is poisoned has more that no reader takes."""
    if isinstance(record, Poisoned):
        text = json.dumps({"type": "StreamEvent", "stream": record.stream, "seq": record.seq, "time": record.time})
        return f"{text[:-1]}, {UNREADABLE[record.time // TICK % len(UNREADABLE)]}}}".encode()
    members = {"type": json.dumps(type(record).__name__)}
    for f in fields(record):
        value = getattr(record, f.name)
        members[camel(f.name)] = value.text if isinstance(value, ms.Json) else json.dumps(value)
    return ("{" + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}").encode()

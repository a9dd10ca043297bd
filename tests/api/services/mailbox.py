"""A service whose inputs are read in all the ways that a Kafka record can be: a function, a fallback, headers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Literal

import moneystate as ms


@dataclass(frozen=True)
class Reading:
    sensor: str
    value: int
    at: ms.Millis


@dataclass(frozen=True)
class Letter:
    who: str
    text: str
    at: ms.Millis


@dataclass(frozen=True)
class Poisoned:
    who: str
    at: ms.Millis


@dataclass(frozen=True)
class Posted:
    """A CloudEvent in binary mode."""

    id: Annotated[str, ms.Header("ce_id")]
    source: Annotated[str, ms.Header("ce_source")]
    kind: Annotated[Literal["note", "alarm"], ms.Header("ce_type")]
    text: str
    size: Annotated[int | None, ms.Header("size")]
    urgent: Annotated[bool, ms.Header("urgent")] = False


@dataclass(frozen=True)
class Ping:
    """All of it in headers."""

    host: Annotated[str, ms.Header("host")]
    at: Annotated[ms.Millis, ms.Header("at")]


@dataclass(frozen=True)
class Data:
    text: str


@dataclass(frozen=True)
class Event:
    """A CloudEvent in structured mode."""

    id: str
    source: str
    type: str
    time: ms.Millis
    data: Data


@dataclass(frozen=True)
class Line:
    key: str
    text: str


def reading(message: ms.Message) -> Reading | None:
    """Big-endian: value and seconds; the sensor is the message's key. An empty value says nothing."""
    if not message.value:
        return None
    value, seconds = struct.unpack(">iq", fixed(message.value))
    return Reading((message.key or b"?").decode(), 100 // value, seconds * 1000)


def fixed(value: bytes) -> bytes:
    if len(value) != 12:
        raise ValueError(f"{len(value)} bytes, expected 12")
    return value


def poisoned(message: ms.Message) -> Poisoned | None:
    at = message.headers.get("at")
    return None if at is None else Poisoned((message.key or b"").decode(), int(at))


service = ms.Service("mailbox")
readings = service.input("readings", Reading, key="sensor", time="at", decode=reading)
letters = service.input("letters", Letter, key="who", time="at", format="json")
poison = service.input("letters", Poisoned, key="who", time="at", format="json", fallback=poisoned)
posts = service.input("posts", Posted, key=(ms.Header("ce_source"), "id"), time=ms.Header("ce_time"), format="json")
pings = service.input("pings", Ping, key="host", time="at")
events = service.input("events", Event, key=("source", "id"), time="time", format="json")
lines = service.output("lines", Line, key="key")


@service.on(readings | letters | posts | pings | events)
def write(ctx: ms.Context[None], e: Reading | Letter | Posted | Ping | Event) -> None:
    ctx.emit(lines, Line(ctx.key, f"{ctx.now}:{e}"))


@service.on(poison)
def refuse(ctx: ms.Context[None], e: Poisoned) -> None:
    ctx.dead_letter("poison")

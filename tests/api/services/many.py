"""A service whose inputs come from a configuration: the same record from any number of topics."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Part:
    id: str
    source: str
    at: ms.Millis


@dataclass(frozen=True)
class Line:
    id: str
    sources: str


@dataclass
class Seen:
    sources: str = ""


@dataclass(frozen=True)
class InputConfig:
    topic: str
    format: str = "avro"


@dataclass(frozen=True)
class Config:
    inputs: tuple[InputConfig, ...] = (InputConfig("parts"),)


def many(config: Config) -> ms.Service[Config]:
    service = ms.Service("many", rules=config)
    seen = service.value("seen", Seen)
    lines = service.output("lines", Line, key="id")

    def take(ctx: ms.Context[Config], e: Part, seen: Seen) -> None:
        seen.sources += e.source
        ctx.emit(lines, Line(ctx.key, seen.sources))

    for declared in config.inputs:
        part = service.input(declared.topic, Part, key="id", time="at", format=declared.format)
        service.on(part, seen)(take)
    return service

"""Entities that are created, patched and deleted, by events in any order and by commands.

The rules are those of docs/entities.md, under the same numbers.
"""

from __future__ import annotations

from typing import TypeVar

import moneystate as ms
from services.entities import records as r
from services.entities.config import Config, check
from services.entities.queries import declare_queries
from services.entities.steps import Steps

__all__ = ["Config", "entities"]
E = TypeVar("E")


def entities(config: Config) -> ms.Service[Config]:
    service = ms.Service("entities", rules=config)
    check(service, config)
    steps = Steps(service)
    states = steps.stored, steps.pieces, steps.history

    def event(record: type[E]) -> ms.Input[E]:
        return service.input("entity-events", record, key="entity_id", time="time", format=config.format)

    def command(record: type[E]) -> ms.Input[E]:
        topic, ahead_ms = "entity-commands", 5_000
        return service.input(
            topic, record, key="entity_id", time="time", bound_ms=0, max_future_ms=ahead_ms, format=config.format
        )

    if config.inputs != "commands":
        events = event(r.Created) | event(r.Patched) | event(r.Deleted)
        service.on(events, *states, steps.known_events.at("event_id"))(steps.take_event)
    if config.inputs != "events":
        commands = command(r.CreateRequested) | command(r.PatchRequested) | command(r.DeleteRequested)
        service.on(commands, *states, steps.known_commands.at("command_id"))(steps.take_command)
    declare_queries(service, steps)
    return service

"""Random events and commands that meet every rule, sent to a bench, and the log that they make."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import moneystate as ms
from moneystate.testing import CRASH, Bench
from moneystate.testing.run import Sent
from services.entities.config import Config
from services.entities.records import (
    Created,
    CreateRequested,
    Deleted,
    DeleteRequested,
    Patched,
    PatchRequested,
)
from tests.services.entities.reference import Logged

START_MS = 1_700_000_000_000
IDS = ("a", "b", "ü")
CONFIG = Config(merge_window_ms=60_000, command_retention_ms=20_000, history_retention_ms=40_000, fields=("/n", "/a/b"))
COMMAND_TYPES = (CreateRequested, PatchRequested, DeleteRequested)


def body(chance: random.Random, depth: int = 2) -> str:
    members = [f'"{name}":{value(chance, depth)}' for name in chance.sample(("a", "b", "n", "é"), chance.randrange(3))]
    return "{" + ",".join(members) + "}"


def value(chance: random.Random, depth: int) -> str:
    if depth and chance.random() < 0.5:
        return body(chance, depth - 1)
    return chance.choice(("null", "null", "1", "1.0", "1e0", "true", '"x"', '[{"a":null}]', "0.10"))


def records(chance: random.Random, count: int) -> Iterator[Any]:
    now = START_MS
    sent: list[Any] = []
    for number in range(count):
        now += chance.choice((0, 0, 500, 1_500, 4_000))
        made = again(chance, now, sent) if sent and chance.random() < 0.15 else new(chance, now, number)
        sent.append(made)
        yield made


def new(chance: random.Random, now: int, number: int) -> Any:
    entity_id = chance.choice(IDS)
    content = ms.Json(body(chance) if chance.random() < 0.97 else chance.choice(("[]", "1", "null", '"a"')))
    if chance.random() < 0.6:
        time = now - chance.choice((0, 0, 1_000, 6_000, 30_000, 55_000, 65_000, 70_000))
        id = chance.choice((f"e{number}", f"é{number}", f"{number}"))
        if chance.random() < 0.2:
            return Deleted(entity_id, id, time)
        return chance.choice((Created, Patched, Patched, Patched))(entity_id, id, time, content)
    id, time = f"c{number}", now - chance.choice((0, 0, 0, 3_000))
    version = chance.choice((None, None, chance.randrange(12)))
    return chance.choice(
        (
            CreateRequested(id, entity_id, time, content),
            PatchRequested(id, entity_id, time, content, version),
            PatchRequested(id, entity_id, time, content, version),
            DeleteRequested(id, entity_id, time, version),
        )
    )


def again(chance: random.Random, now: int, sent: list[Any]) -> Any:
    """One that was sent before, as it was or with the same id and other content."""
    old = chance.choice(sent[-40:])
    if not isinstance(old, COMMAND_TYPES):
        if chance.random() < 0.5:
            return old
        made = new(chance, now, 0)
        while isinstance(made, COMMAND_TYPES):
            made = new(chance, now, 0)
        return replace(made, entity_id=old.entity_id, event_id=old.event_id)
    if chance.random() < 0.6:
        return replace(old, time=now)
    return DeleteRequested(old.command_id, old.entity_id, now, chance.choice((None, 3)))


def send(bench: Bench, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for record in records(chance, count):
        bench.send(record)
        if chance.random() < 0.01:
            bench.send(CRASH)


def log_of(bench: Bench) -> Iterator[Logged]:
    """What was sent, with the heartbeats of the bench."""
    for sent in bench.log:
        if isinstance(sent, Sent):
            topic = bench.plan.topics[sent.topic]
            planned = bench.plan.inputs[sent.topic].get(sent.value[:10])
            if planned is None:
                time = bench.plan.heartbeat.decode(sent.value).processed_at
                yield Logged(topic, sent.partition, sent.offset, time, None)
            else:
                record = planned.codec.decode(sent.value)
                yield Logged(topic, sent.partition, sent.offset, record.time, record)

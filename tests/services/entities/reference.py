"""What the service must put out for a log, in the plainest way: the whole log is sorted, every record is kept, and each
entity is made again from all of its records after each of them. Nothing is shared with the service but its records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import moneystate as ms
from services.entities.records import (
    CommandResult,
    Created,
    CreateRequested,
    Deleted,
    DeleteRequested,
    Entity,
    EntityChanged,
    Patched,
    PatchRequested,
)
from tests.services.entities.naive import Write, in_order

EVENTS, COMMANDS = "entity-events", "entity-commands"
RANKS = {EVENTS: 0, COMMANDS: 1}
TOO_LARGE = 900_000


class Logged(NamedTuple):
    """`record`: None for a heartbeat."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    record: Any


class Number(str):
    """As it is written."""


def parsed(body: ms.Json) -> Any:
    return json.loads(body.text, parse_int=Number, parse_float=Number)


def written(value: Any) -> ms.Json | None:
    """The JSON of it, numbers as they were."""
    return None if value is None else ms.Json(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return json.dumps(value)


def same(one: Any, other: Any) -> bool:
    """As `ms.Json`: Python takes true for 1, and numbers are texts here."""
    return written(one) == written(other)


@dataclass
class Of:
    """All that is known of one entity."""

    id: str
    writes: list[Write] = field(default_factory=list)
    events: dict[str, tuple[int, Any]] = field(default_factory=dict)
    commands: dict[str, tuple[int, Any, CommandResult]] = field(default_factory=dict)
    version: int = 0
    visible: Any = None
    history: list[EntityChanged] = field(default_factory=list)

    def status(self) -> Any:
        return in_order(self.writes)[0]

    def now(self) -> Any:
        status, document = in_order(self.writes)
        return document if status == "ACTIVE" else None


@dataclass
class Reference:
    merge_window_ms: int
    command_retention_ms: int
    entities: dict[str, Of] = field(default_factory=dict)
    changes: list[EntityChanged] = field(default_factory=list)
    results: list[CommandResult] = field(default_factory=list)
    standing: list[Entity] = field(default_factory=list)
    conflicts: list[Any] = field(default_factory=list)
    letters: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)  # what happened, for tests of the tests

    def run(self, log: Iterable[Logged], bounds: Mapping[str, int]) -> None:
        for order_time, _, _, _, _, logged in sorted(in_total_order(log, bounds), key=lambda entry: entry[:5]):
            record = logged.record
            if record is None:
                continue
            if not isinstance(record, (Deleted, DeleteRequested)) and not isinstance(parsed(record.body), dict):
                self.letters["not_an_object"] += 1
                continue
            entity = self.entities.setdefault(record.entity_id, Of(record.entity_id))
            if isinstance(record, (Created, Patched, Deleted)):
                self.event(order_time, record, entity)
            else:
                self.command(order_time, record, entity, (logged.partition, logged.offset))

    def event(self, t: int, e: Any, entity: Of) -> None:
        if t >= e.time + self.merge_window_ms:
            self.counts["too_old"] += 1
            return
        if e.event_id in entity.events and t < entity.events[e.event_id][0] + self.merge_window_ms:
            if entity.events[e.event_id][1] == e:
                self.counts["duplicates"] += 1
            else:
                self.counts["conflicts"] += 1
                self.conflicts.append(e)
            return
        entity.events[e.event_id] = (t, e)
        kind = {Created: "created", Patched: "patched", Deleted: "deleted"}[type(e)]
        self.seen[f"{kind} while {entity.status()}"] += 1
        if entity.writes and max(entity.writes, key=lambda write: write[0])[0] > (e.time, 0, e.event_id.encode()):
            self.seen[f"{kind} behind a newer write"] += 1
        body = None if isinstance(e, Deleted) else parsed(e.body)
        entity.writes.append(Write((e.time, 0, e.event_id.encode()), kind, body))
        self.look(t, entity, e.event_id)

    def command(self, t: int, c: Any, entity: Of, place: tuple[int, int]) -> None:
        content = replace(c, time=0)
        known = entity.commands.get(c.command_id)
        if known is not None and t < known[0] + self.command_retention_ms:
            if known[1] == content:
                self.seen["the same result again"] += 1
                self.results.append(known[2])
            else:
                self.result(c, "ID_CONFLICT", entity)
            return
        reason = self.refusal(c, entity)
        if reason is None:
            kind = {CreateRequested: "created", PatchRequested: "patched", DeleteRequested: "deleted"}[type(c)]
            body = None if isinstance(c, DeleteRequested) else parsed(c.body)
            entity.writes.append(Write((t, 1, place), kind, body))
            self.look(t, entity, c.command_id)
        entity.commands[c.command_id] = (t, content, self.result(c, reason, entity))

    def refusal(self, c: Any, entity: Of) -> Any:
        active = entity.status() == "ACTIVE"
        if isinstance(c, CreateRequested):
            return "ALREADY_ACTIVE" if active else None
        if not active:
            return "NOT_ACTIVE"
        if c.expected_version is not None and c.expected_version != entity.version:
            return "VERSION_MISMATCH"
        return None

    def result(self, c: Any, reason: Any, entity: Of) -> CommandResult:
        status: Any = "ACCEPTED" if reason is None else "REJECTED"
        self.seen[f"{type(c).__name__} {reason or status}"] += 1
        self.results.append(CommandResult(c.command_id, c.entity_id, status, reason, entity.version))
        return self.results[-1]

    def look(self, t: int, entity: Of, cause: str) -> None:
        before, after = entity.visible, entity.now()
        if same(before, after):
            self.seen["no visible change"] += 1
            return
        entity.visible = after
        entity.version += 1
        one, other = written(before), written(after)
        sizes = [len(body.text.encode()) if body else 0 for body in (one, other)]
        change = EntityChanged(entity.id, entity.version, t, one, other, cause)
        entity.history.append(change)
        if sum(sizes) > TOO_LARGE:
            change = replace(change, before=None, after=None, too_large=True)
        self.changes.append(change)
        status = entity.status()
        large = sizes[1] > TOO_LARGE
        self.standing.append(Entity(entity.id, status, entity.version, None if large else other, large))


def in_total_order(
    log: Iterable[Logged], bounds: Mapping[str, int]
) -> Iterable[tuple[int, int, str, int, int, Logged]]:
    """With order time, rank, topic, partition and offset."""
    highs: dict[tuple[str, int], int] = {}
    for logged in sorted(log, key=lambda logged: logged[:3]):
        partition = logged.topic, logged.partition
        order_time = logged.time_ms
        if partition in highs:
            order_time = max(order_time, highs[partition] - bounds[logged.topic])
        highs[partition] = max(highs.get(partition, logged.time_ms), logged.time_ms)
        yield order_time, RANKS[logged.topic], logged.topic, logged.partition, logged.offset, logged

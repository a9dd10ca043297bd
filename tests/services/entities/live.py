"""The entities' part of the live proof."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import moneystate as ms
from tests.services.entities.reference import COMMANDS, EVENTS, Logged, Number, Reference, parsed
from tests.services.entities.workload import COMMAND_TYPES, CONFIG, records
from tests.services.live import BOUND_MS, Case, Expected, Read, Written

PARTITIONS: Final = {EVENTS: 3, COMMANDS: 2}
TABLES: Final = """
[entities]
merge_window = "60s"
command_retention = "20s"
history_retention = "40s"
fields = ["/n", "/a/b"]
"""
WIRE: Final = {"entity_id": "entityId", "event_id": "eventId", "command_id": "commandId", "too_large": "tooLarge"}
PATCH: Final = b'{"type":"Patched","entityId":"a","eventId":"e","time":"2033-01-01T00:00:00Z"'
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"{": "malformed",
    b'{"type":"Renamed","entityId":"a"}': "unknown_schema",
    PATCH + b"}": "malformed",
    PATCH + b',"body":{"a":1,"a":2}}': "malformed",
    PATCH.replace(b'"e"', b"7") + b',"body":{}}': "malformed",
    b'{"type":"DeleteRequested","entityId":"a","commandId":"c","time":1}': "wrong_topic",
}


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_json(record: Any) -> bytes:
    """As a producer of its own would write it; times in both ways."""
    members = {"type": json.dumps(type(record).__name__)}
    for name, value in vars(record).items():
        if isinstance(value, ms.Json):
            members[name] = f" {value.text} "
        elif name == "time":
            members[name] = str(value) if value % 1_000 == 0 else json.dumps(iso(value))
        elif name == "expected_version":
            members["expectedVersion"] = json.dumps(value)
        else:
            members[WIRE[name]] = json.dumps(value)
    return ("{" + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}").encode()


def _log() -> list[Logged]:
    """`record`: bytes, or nothing at all, of one that does not decode."""
    chance = random.Random(19)
    log: list[Logged] = []
    ends = Counter[tuple[str, int]]()
    for record in records(chance, 500):
        topic = COMMANDS if isinstance(record, COMMAND_TYPES) else EVENTS
        partition = chance.randrange(PARTITIONS[topic])
        junk = [None] if chance.random() < 0.03 else []
        for it in [record, *junk]:
            where = (topic if it else EVENTS), (partition if it else chance.randrange(3))
            log.append(Logged(*where, ends[where], it.time if it else 0, it))
            ends[where] += 1
    return log


LOG: Final = _log()


def _written() -> list[Written]:
    junk = [*JUNK] * len(LOG)
    return [Written(r.topic, r.partition, as_json(r.record) if r.record else junk.pop()) for r in LOG]


def expected(_: Read) -> Expected:
    reference = Reference(CONFIG.merge_window_ms, CONFIG.command_retention_ms)
    reference.run([logged for logged in LOG if logged.record], {EVENTS: BOUND_MS, COMMANDS: 0})
    junk = [written.value for written, logged in zip(CASE.log, LOG, strict=True) if not logged.record]
    outputs: dict[str, list[Any]] = {
        "entity-changes": reference.changes,
        "entity-command-results": reference.results,
        "entities": reference.standing,
        "entity-conflicts": reference.conflicts,
    }
    by_key = {topic: _by_key(records) for topic, records in outputs.items()}
    return Expected(by_key, reference.letters + Counter([JUNK[value] for value in junk]))


def _by_key(outputs: list[Any]) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = defaultdict(list)
    for record in outputs:
        members = {WIRE.get(name, name): value for name, value in asdict(record).items()}
        if "time" in members:
            members["time"] = iso(members["time"])
        bodies = {name: parsed(value) for name, value in members.items() if isinstance(value, ms.Json)}
        lists[record.entity_id].append({"type": type(record).__name__, **members, **bodies})
    return dict(lists)


def parse(_: str, value: bytes) -> Any:
    document = json.loads(value, parse_int=Number, parse_float=Number)
    return {**document, "version": int(document["version"])} if "version" in document else document


CASE: Final = Case("entities", ("entities",), TABLES, PARTITIONS, _written(), expected, parse)

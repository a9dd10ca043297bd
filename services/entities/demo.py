"""`moneystate demo entities`: five customers, whose events arrive in any order, and commands that get a reply."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play

TABLES: Final = """
[entities]
fields = ["/city"]
merge_window = "30d"
"""
START: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)
EVENTS, COMMANDS, CHANGES, RESULTS, CONFLICTS = (
    "entity-events", "entity-commands", "entity-changes", "entity-command-results", "entity-conflicts",
)  # fmt: skip


def _sent(topic: str, type: str, ids: dict[str, str], at_s: float, time_s: float, **content: Any) -> Sent:
    time = (START + timedelta(seconds=time_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    event_time = "" if time_s == at_s else f", time {time_s:g} s"
    told = " ".join(
        [
            ids.get("eventId") or ids["commandId"],
            type,
            *[json.dumps(value, ensure_ascii=False) for value in content.values()],
        ]
    )
    return Sent(at_s, topic, {"type": type, **ids, "time": time, **content}, told + event_time)


def _event(id: str, event_id: str, type: str, at_s: float, time_s: float | None = None, **content: Any) -> Sent:
    ids = {"entityId": id, "eventId": event_id}
    return _sent(EVENTS, type, ids, at_s, at_s if time_s is None else time_s, **content)


def _command(id: str, command_id: str, type: str, at_s: float, **content: Any) -> Sent:
    return _sent(COMMANDS, type, {"entityId": id, "commandId": command_id}, at_s, at_s, **content)


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace('"', "")


def line(came: Came) -> str:
    value = came.value or {}
    if came.topic == CHANGES:
        after = "not there" if value["after"] is None else shown(value["after"])
        return f"version {value['version']} by {value['cause']}: {after}"
    if came.topic == RESULTS:
        return f"{value['commandId']}: {value['reason'] or value['status']}, version {value['version']}"
    return f"conflict: {value['eventId']} {value['type']}"


STEPS: Final = (
    Step(
        "An old patch arrives last: newer fields stay",
        "ada",
        (
            _event("ada", "e1", "Created", 0, body={"city": "Ulm", "fax": "1"}),
            _event("ada", "e3", "Patched", 2, body={"city": "Bonn", "fax": None}),
            _event("ada", "e2", "Patched", 40, 1, body={"city": "Köln", "fax": "2", "phone": "3"}),
        ),
        (
            "version 1 by e1: {city:Ulm,fax:1}",
            "version 2 by e3: {city:Bonn}",
            "version 3 by e2: {city:Bonn,phone:3}",
        ),
    ),
    Step(
        "A patch before its creation is kept unseen",
        "bob",
        (
            _event("bob", "e2", "Patched", 5, body={"city": "Rom"}),
            _event("bob", "e1", "Created", 41, 4, body={"city": "Pisa", "vip": True}),
        ),
        ("version 1 by e1: {city:Rom,vip:true}",),
    ),
    Step(
        "Deleted and created again: the version goes on",
        "cleo",
        (
            _event("cleo", "e1", "Created", 10, body={"city": "Kairo"}),
            _event("cleo", "e2", "Deleted", 11),
            _event("cleo", "e3", "Created", 12, body={}),
        ),
        ("version 1 by e1: {city:Kairo}", "version 2 by e2: not there", "version 3 by e3: {}"),
    ),
    Step(
        "An event again does nothing, another with its id is a conflict",
        "dan",
        (
            _event("dan", "e1", "Created", 20, body={"city": "Oslo"}),
            _event("dan", "e1", "Created", 21, 20, body={"city": "Oslo"}),
            _event("dan", "e1", "Patched", 22, body={"city": "Bergen"}),
        ),
        ("version 1 by e1: {city:Oslo}", "conflict: e1 Patched"),
    ),
    Step(
        "Commands are refused, or done at once",
        "eve",
        (
            _command("eve", "c1", "PatchRequested", 30, body={"city": "Lyon"}),
            _command("eve", "c2", "CreateRequested", 31, body={"city": "Nice"}),
            _command("eve", "c3", "PatchRequested", 32, body={"city": "Lyon"}, expectedVersion=7),
            _command("eve", "c4", "PatchRequested", 33, body={"city": "Lyon"}, expectedVersion=1),
            _command("eve", "c2", "CreateRequested", 34, body={"city": "Nice"}),
        ),
        (
            "version 1 by c2: {city:Nice}",
            "version 2 by c4: {city:Lyon}",
            "c1: NOT_ACTIVE, version 0",
            "c2: ACCEPTED, version 1",
            "c3: VERSION_MISMATCH, version 1",
            "c4: ACCEPTED, version 2",
            "c2: ACCEPTED, version 1",
        ),
    ),
)


def demo() -> bool:
    return play("entities", TABLES, STEPS, [CHANGES, RESULTS, CONFLICTS], line)

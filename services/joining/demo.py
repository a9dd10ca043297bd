"""`moneystate demo joining`: what becomes of five games whose parts come from three services."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play

TABLES: Final = """
[joining]
services = ["scores", "odds", "video"]
wait = "10s"
retention = "60s"
late_retention = "30s"
tombstones = true
"""
START: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)


def _time(at_s: float) -> str:
    return (START + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _part(game: str, at_s: float, service: str, **content: Any) -> Sent:
    record = {"type": "Part", "id": game, "service": service, "producedAt": _time(at_s), **content}
    return Sent(at_s, "parts", record, f"{service}: {', '.join(content)}")


def _requested(game: str, at_s: float, services: list[str]) -> Sent:
    record = {"type": "PartsRequested", "id": game, "requestedAt": _time(at_s), "services": services}
    return Sent(at_s, "parts", record, f"requested: {' and '.join(services)}")


def _cancelled(game: str, at_s: float) -> Sent:
    record = {"type": "Cancelled", "id": game, "cancelledAt": _time(at_s)}
    return Sent(at_s, "parts", record, "cancelled")


def line(came: Came) -> str:
    if came.reason:
        return f"dead letter: {came.reason}"
    joined = came.value
    if joined is None:
        return "removed from the topic"
    told = [f"{joined['status']}, revision {joined['revision']}"]
    told += [f"{name}: {' '.join(joined[name])}" for name in ("missing", "errors", "conflicts") if joined[name]]
    return ", ".join(told)


SCORES: Final = {"home": 81, "away": 77}
STEPS: Final = (
    Step(
        "All parts are there: complete at once",
        "game-1",
        (
            _part("game-1", 0, "scores", body=SCORES),
            _part("game-1", 1, "video", body={"url": "v/1"}),
            _part("game-1", 2, "odds", error={"code": 503}),
        ),
        ("COMPLETE, revision 1, errors: odds", "removed from the topic"),
    ),
    Step(
        "One is late: partial after 10 s, then corrected",
        "game-2",
        (
            _part("game-2", 3, "scores", body=SCORES),
            _part("game-2", 4, "odds", body={"home": 1.8}),
            _part("game-2", 30, "video", body={"url": "v/2"}),
        ),
        (
            "PARTIAL, revision 1, missing: video, conflicts: home",
            "COMPLETE, revision 2, conflicts: home",
            "removed from the topic",
        ),
    ),
    Step(
        "A request waits for other services",
        "game-3",
        (_requested("game-3", 5, ["scores", "video"]), _part("game-3", 6, "video", body={"url": "v/3"}),
         _part("game-3", 7, "scores", body=SCORES)),
        ("COMPLETE, revision 1", "removed from the topic"),
    ),
    Step(
        "Cancelled: what comes after that is only counted",
        "game-4",
        (_part("game-4", 8, "scores", body=SCORES), _cancelled("game-4", 9), _part("game-4", 10, "odds", body={})),
        ("CANCELLED, revision 1, missing: odds video", "removed from the topic"),
    ),
    Step(
        "A service that does not exist: a dead letter",
        "game-5",
        (_part("game-5", 11, "weather", body={"sky": "blue"}),),
        ("dead letter: unknown_service",),
    ),
)  # fmt: skip


def demo() -> bool:
    return play("joining", TABLES, STEPS, ["joined", "joining-dead-letters"], line)

"""`moneystate demo joining`: what becomes of five games whose parts come from three services."""

from __future__ import annotations

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
START_MS: Final = 1_772_395_200_000


def _sent(at_s: float, told: str, type: str, time: str, **record: Any) -> Sent:
    return Sent(at_s, "parts", {"type": type, time: START_MS + int(1_000 * at_s), **record}, told)


def _part(at_s: float, service: str, **content: Any) -> Sent:
    return _sent(at_s, f"{service}: {', '.join(content)}", "Part", "producedAt", service=service, **content)


def _step(title: str, id: str, promised: tuple[str, ...], *sent: Sent) -> Step:
    return Step(title, id, tuple(s._replace(record={"id": id, **s.record}) for s in sent), promised)


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
GONE: Final = "removed from the topic"
STEPS: Final = (
    _step(
        "All parts are there: complete",
        "game-1",
        ("COMPLETE, revision 1, errors: odds", GONE),
        _part(0, "scores", body=SCORES),
        _part(1, "video", body={"url": "v/1"}),
        _part(2, "odds", error={"code": 503}),
    ),
    _step(
        "One is late: partial, then corrected",
        "game-2",
        ("PARTIAL, revision 1, missing: video, conflicts: home", "COMPLETE, revision 2, conflicts: home", GONE),
        _part(3, "scores", body=SCORES),
        _part(4, "odds", body={"home": 1.8}),
        _part(30, "video", body={"url": "v/2"}),
    ),
    _step(
        "A request: it waits for these alone",
        "game-3",
        ("COMPLETE, revision 1", GONE),
        _sent(5, "requested: scores and video", "PartsRequested", "requestedAt", services=["scores", "video"]),
        _part(6, "video", body={"url": "v/3"}),
        _part(7, "scores", body=SCORES),
    ),
    _step(
        "Cancelled: later parts are only counted",
        "game-4",
        ("CANCELLED, revision 1, missing: odds video", GONE),
        _part(8, "scores", body=SCORES),
        _sent(9, "cancelled", "Cancelled", "cancelledAt"),
        _part(10, "odds", body={}),
    ),
    _step(
        "No such service: a dead letter",
        "game-5",
        ("dead letter: unknown_service",),
        _part(11, "weather", body={"sky": "blue"}),
    ),
)


def demo() -> bool:
    return play("joining", TABLES, STEPS, ["joined", "joining-dead-letters"], line)

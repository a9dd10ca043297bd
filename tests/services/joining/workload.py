"""Random records of joining, which reach all of its rules (`test_equals_reference.py` counts them)."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import moneystate as ms
from services.joining.records import Cancelled, Part, PartsRequested
from tests.services.joining.reference import Event, iso

SERVICES: Final = ("scores", "odds", "video", "news")
START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 500  # so that times meet
BODIES: Final[tuple[Any, ...]] = (
    {"home": 1, "away": 2}, {"home": 1.0, "odds": {"x": [1, None]}}, {"away": 2, "ä": "x", "Z": 0}, {"home": None}, {},
    [{"home": 3}], "text", 7, False,
)  # fmt: skip
LATE_MS: Final = (0, 0, 0, 0, 1_500, 6_000, 20_000)


def events(seed: int, n: int, ids: int) -> list[Event]:
    """`n` records of some ids at a time, in the order of the log: late ones, ties, repetitions and wrong ones among
    them. Ids come again after their end."""
    chance = random.Random(seed)
    made: list[Event] = []
    for number in range(n):
        time_ms = START_MS + STEP_MS * (number // 2) - chance.choice(LATE_MS)
        if made and chance.random() < 0.15:
            made.append(_again(chance, chance.choice(made[-12:]), time_ms))
        else:
            made.append(_event(chance, f"id-{chance.randrange(ids)}", time_ms))
    return made


def _event(chance: random.Random, id: str, time_ms: int) -> Event:
    kind = chance.random()
    if kind < 0.05:
        return Cancelled(id, time_ms)
    if kind < 0.2:
        body = _json(chance) if chance.random() < 0.6 else None
        return PartsRequested(id, time_ms, _services(chance), body)
    service = chance.choice(SERVICES) if chance.random() < 0.97 else "unknown"
    if kind < 0.23:
        return Part(id, service, time_ms, *chance.choice(((None, None), (_json(chance), ms.Json("1")))))
    if kind < 0.4:
        return Part(id, service, time_ms, None, _json(chance))
    return Part(id, service, time_ms, _json(chance), chance.choice((None, None, ms.Json("null"))))


def _again(chance: random.Random, event: Event, time_ms: int) -> Event:
    """As before, at the same or at another time."""
    time_ms = chance.choice((time_ms, 0)) or _time(event)
    if isinstance(event, Part):
        return Part(event.id, event.service, time_ms, event.body, event.error)
    if isinstance(event, PartsRequested):
        return PartsRequested(event.id, time_ms, chance.choice((event.services, _services(chance))), event.body)
    return Cancelled(event.id, time_ms)


def _time(event: Any) -> int:
    time: int = next(getattr(event, name) for name in vars(event) if name.endswith("_at"))
    return time


def _services(chance: random.Random) -> list[str] | None:
    if chance.random() < 0.5:
        return chance.choice((None, None, []))
    named = [*SERVICES, "unknown"] if chance.random() < 0.05 else [*SERVICES]
    return chance.sample(named, chance.randrange(1, 4))


def _json(chance: random.Random) -> ms.Json:
    return ms.Json("null") if chance.random() < 0.03 else ms.Json.of(chance.choice(BODIES))


def as_json(event: Event) -> bytes:
    """As a producer of its own would write it."""
    fields = {"type": json.dumps(type(event).__name__), "id": json.dumps(event.id)}
    if isinstance(event, Cancelled):
        fields["cancelledAt"] = json.dumps(iso(event.cancelled_at))
    elif isinstance(event, Part):
        fields |= {"service": json.dumps(event.service), "producedAt": str(event.produced_at)}
        fields |= _given(body=event.body, error=event.error)
    else:
        fields |= {"requestedAt": json.dumps(iso(event.requested_at)), "services": json.dumps(event.services)}
        fields |= _given(body=event.body)
    return ("{ " + " , ".join(f'"{name}" : {text}' for name, text in fields.items()) + "}").encode()


def _given(**members: ms.Json | None) -> dict[str, str]:
    return {name: value.text for name, value in members.items() if value is not None}

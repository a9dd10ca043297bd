"""Joining under load: a game has a request and a part of each of three services, a twentieth of them late."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.load import Load, Record

SERVICES: Final = ("scores", "odds", "video")
START_MS: Final = 1_700_000_000_000
TABLES: Final = """
[joining]
services = ["scores", "odds", "video"]
wait = "10s"
retention = "60s"
tombstones = true
"""


def records(n: int) -> Iterator[Record]:
    """In the order of their times but for some 100 ms."""
    chance = random.Random(1)
    made: list[tuple[int, str, dict[str, Any]]] = []
    for game in range(n // 4):
        id, at_ms = f"game-{game}", START_MS + game
        body = {"game": id, "round": game % 9}
        made.append((at_ms, id, {"type": "PartsRequested", "id": id, "requestedAt": at_ms, "body": body}))
        for service in SERVICES:
            late = 15_000 if chance.random() < 0.05 else chance.randrange(3_000)
            body = {"game": id, "by": service, service: {"home": game, "away": 3, "quarters": [1, 2, 3]}}
            part = {"type": "Part", "id": id, "service": service, "producedAt": at_ms + late, "body": body}
            made.append((at_ms + late, id, part))
    made.sort(key=lambda record: record[0])
    for _, id, record in made:
        yield Record("parts", id, json.dumps(record).encode())


LOAD: Final = Load(TABLES, ("parts",), "joined", records)

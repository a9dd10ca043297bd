"""Sequencing under load: streams of events, a tenth of them swapped with the next, one in a hundred missing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from tests.bench.load import Load, Record

STREAMS: Final = 1_000
START_MS: Final = 1_700_000_000_000
TABLES: Final = """
[sequencing]
policy = "skip"
g1 = "2s"
k = 1
g2 = "5s"
"""


def records(n: int) -> Iterator[Record]:
    """In the order of their times; each stream has an event a second."""
    chance = random.Random(1)
    numbers = dict.fromkeys(range(STREAMS), 0)
    early: dict[int, int] = {}
    sent = 0
    while sent < n:
        stream = sent % STREAMS
        number = early.pop(stream, 0)
        if not number:
            numbers[stream] += 2 if chance.random() < 0.01 else 1
            number = numbers[stream]
            if chance.random() < 0.1:
                early[stream] = number
                numbers[stream] += 1
                number = numbers[stream]
        yield _event(stream, number, START_MS + sent)
        sent += 1


def _event(stream: int, number: int, time_ms: int) -> Record:
    key = f"game-{stream}"
    body = {"type": "POINT", "player": number % 10, "score": [number, 3]}
    event = {"type": "StreamEvent", "stream": key, "seq": number, "eventId": f"{key}-{number}", "body": body}
    return Record("sequenced-input", key, json.dumps({**event, "time": time_ms}).encode())


LOAD: Final = Load(TABLES, ("sequenced-input",), "sequenced-output", records)

"""Entities under load: customers that are created once and patched some ten times, a tenth of it by commands."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.load import Load, Record

START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 10
TABLES: Final = """
[entities]
fields = ["/address/city"]
"""


def records(n: int) -> Iterator[Record]:
    """Events up to 5 s out of order; commands in order."""
    chance = random.Random(1)
    customers = [f"customer-{number}" for number in range(max(1, n // 10))]
    chance.shuffle(customers)
    known = 0
    for number in range(n):
        at_ms = START_MS + STEP_MS * number
        is_new = known < len(customers) and number % 10 == 0
        id = customers[known] if is_new else chance.choice(customers[: known or 1])
        known += is_new
        if number % 10 == 5:
            command: dict[str, Any] = {"type": "PatchRequested", "commandId": f"command-{number}", "entityId": id}
            yield _record("entity-commands", id, {**command, "time": at_ms, "body": patch(chance)})
            continue
        event = {
            "type": "Created" if is_new else "Patched",
            "entityId": id,
            "eventId": f"{chance.getrandbits(128):032x}",
        }
        time = at_ms - chance.choice((0, 0, 500, 5_000))
        yield _record("entity-events", id, {**event, "time": time, "body": body(chance) if is_new else patch(chance)})


def body(chance: random.Random) -> dict[str, Any]:
    return {
        "name": f"name {chance.randrange(1_000_000)}",
        "address": {"city": chance.choice(("Ulm", "Bonn", "Köln")), "zip": "89073", "street": "Hauptstr. 5"},
        "email": "someone@example.org",
        "vip": False,
        "score": chance.randrange(100),
    }


def patch(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        (
            {"score": chance.randrange(1_000)},
            {"address": {"city": f"city {chance.randrange(100)}"}},
            {"phone": f"{chance.randrange(10_000)}", "fax": None},
            {"email": f"{chance.randrange(1_000)}@example.org", "vip": True},
        )
    )


def _record(topic: str, id: str, value: dict[str, Any]) -> Record:
    return Record(topic, id, json.dumps(value).encode())


LOAD: Final = Load(TABLES, ("entity-events", "entity-commands"), "entity-changes", records)

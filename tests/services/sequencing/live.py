"""Sequencing's part of the live proof."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import fields, replace
from typing import Any, Final

from moneystate.records.iso_time import from_ms
from moneystate.records.json_value import Json
from moneystate.records.shapes import camel
from services.sequencing.config import Config
from tests.services.live import BOUND_MS, Case, Expected, Read, Written, with_junk
from tests.services.sequencing import reference
from tests.services.sequencing.reference import Logged
from tests.services.sequencing.workload import as_json, some_log

PARTITIONS: Final = 3
START_MS: Final = 1_700_000_000_000
SCALE: Final = 200  # the workload's times are a few ms apart
TABLES: Final = """
[sequencing]
g1 = "2s"
k = 2
g2 = "6s"
policy = "skip"
digest_retention = "10s"
closed_wait = "20s"
closed_retention = "10s"
max_held = 6
violation = "park"
follows = { ASSIST = ["POINT"], FOUL = ["POINT", "FOUL"] }
"""
CONFIG: Final = Config(
    g1_ms=2_000, k=2, g2_ms=6_000, policy="skip", digest_retention_ms=10_000, closed_wait_ms=20_000,
    closed_retention_ms=10_000, max_held=6, violation="park", follows={"ASSIST": ("POINT",), "FOUL": ("POINT", "FOUL")},
)  # fmt: skip
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"[": "malformed",
    b'{"type":"StreamEvent","stream":"a","seq":1,"eventId":"e"}': "malformed",
    b'{"type":"Poisoned","stream":"a","seq":1,"time":1}': "unknown_schema",
}


def as_read(record: Any) -> Any:
    """An output as its JSON is read."""
    if isinstance(record, Json):
        return json.loads(record.text)
    if isinstance(record, (str, int, list)):
        return record
    document = {camel(f.name): as_read(getattr(record, f.name)) for f in fields(record)}
    if "time" in document:
        document["time"] = from_ms(record.time)
    return document


def typed(record: Any) -> Any:
    return {"type": type(record).__name__, **as_read(record)}


def _records() -> list[Any]:
    made = some_log(random.Random(18), 900)
    return [replace(record, time=START_MS + SCALE * record.time) for record in made]


LOG: Final = list(with_junk(_records(), as_json, [*JUNK], PARTITIONS, seed=18))


def expected(_: Read) -> Expected:
    taken = [Logged(one.partition, one.offset, one.record) for one in LOG if one.record is not None]
    want = reference.run(taken, BOUND_MS, CONFIG)
    letters = Counter(reason for _, _, reason in want.letters)
    letters.update([JUNK[one.value] for one in LOG if one.record is None])
    topics = {"sequenced-output": want.output, "sequenced-requests": want.requests, "sequenced-findings": want.findings}
    outputs = {
        topic: {stream: [typed(record) for record in records] for stream, records in by_stream.items()}
        for topic, by_stream in topics.items()
    }
    return Expected(outputs, letters)


WRITTEN: Final = [Written("sequenced-input", one.partition, one.value) for one in LOG]
CASE: Final = Case("sequencing", ("sequencing",), TABLES, {"sequenced-input": PARTITIONS}, WRITTEN, expected)

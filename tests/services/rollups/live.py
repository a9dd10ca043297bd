"""The rollups' part of the live proof. Readings come in the order of their own times, because those of arrival are the
broker's."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from moneystate.records.iso_time import to_ms
from services.rollups.records import Reading
from tests.services.live import BOUND_MS, Case, Expected, Read, Written
from tests.services.rollups.reference import Logged, Reference, Rules
from tests.services.rollups.workload import DAY, HOUR, METRICS, MIN, case_of, records

TOPIC: Final = "readings"
PARTITIONS: Final = 2  # each has a device
TABLES: Final = """
[rollups]
zone = "Europe/Berlin"
order = "at"
readings_bound = "5s"
interval = "7m"
exact = "20m"
horizon = "2h"
keep_1m = "10m"
keep_15m = "3h"
keep_1h = "1d"
keep_1d = "3d"
put_out_1m = true
strict = true
metrics = [
    { name = "temp", digits = 1, percentiles = true, min = -20.0, max = 55.5 },
    { name = "load", percentiles = true },
    { name = "energy", digits = 0, kind = "counter" },
    { name = "raw", digits = 9 },
]
"""
KEEP: Final = {"1m": 10 * MIN, "15m": 3 * HOUR, "1h": DAY, "1d": 3 * DAY}
RULES: Final = Rules(METRICS, "Europe/Berlin", 7 * MIN, 2 * HOUR, 20 * MIN, KEEP, strict=True, minutes=True)
START: Final = 1_711_818_000_000  # the evening before clocks are put forward
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"{": "malformed",
    b'{"type":"Measure","deviceId":"a"}': "unknown_schema",
    b'{"type":"Reading","deviceId":"a","at":1711818000000,"metrics":{"temp":"warm"}}': "malformed",
}


def readings() -> list[Reading]:
    chance = random.Random(23)
    case = replace(case_of(chance), start=START)
    made = records(chance, case, 500, commands=False)
    return [record for now, record in made if isinstance(record, Reading) and record.at <= now]


def as_json(e: Reading) -> bytes:
    record = {"type": "Reading", "deviceId": e.device_id, "at": e.at, "metrics": e.metrics, "readingId": e.reading_id}
    return json.dumps(record).encode()


READINGS: Final = readings()
PLACES: Final = [sum(e.device_id.encode()) % PARTITIONS for e in READINGS]


def logged() -> list[Logged]:
    """With their order times: a partition's time does not go back by more than the bound."""
    highs: dict[int, int] = {}
    log: list[tuple[int, int, int, Logged]] = []
    for n, (partition, e) in enumerate(zip(PLACES, READINGS, strict=True)):
        high = highs.get(partition, e.at)
        time = max(e.at, high - BOUND_MS)
        highs[partition] = max(high, e.at)
        log.append((time, partition, n, Logged(time, e)))
    return [one for _, _, _, one in sorted(log, key=lambda its: its[:3])]


def written() -> list[Written]:
    junk = [Written(TOPIC, n % PARTITIONS, value) for n, value in enumerate(JUNK)]
    sent = [Written(TOPIC, partition, as_json(e)) for partition, e in zip(PLACES, READINGS, strict=True)]
    return [*[Written(TOPIC, n, b"{") for n in range(PARTITIONS)], *junk, *sent]


def expected(read: Read) -> Expected:
    for tier in KEEP:
        times = [(r.timestamp_ms, to_ms(json.loads(r.value)["end"])) for r in read(f"rollups-{tier}") if r.value]
        assert times
        assert all(timestamp_ms == end_ms for timestamp_ms, end_ms in times), "the record time is the bucket's end"
    reference = Reference(RULES)
    reference.run(logged())
    outputs: dict[str, dict[str, list[Any]]] = defaultdict(dict)
    for (tier, id, start), made in reference.out.items():
        outputs[f"rollups-{tier}"][f'["{id}",{start}]'] = [as_document(its) for its in made]
    letters = Counter(reference.letters) + Counter(JUNK.values()) + Counter({"malformed": PARTITIONS})
    return Expected(dict(outputs), letters)


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_document(made: dict[str, Any]) -> dict[str, Any]:
    metrics = {
        name: {
            **{name: value for name, value in its.items() if name not in ("p50", "p90", "p99", "first_at", "last_at")},
            "sum": float(its["sum"]), "firstAt": iso(its["first_at"]), "lastAt": iso(its["last_at"]),
        }
        for name, its in made["metrics"].items()
    }  # fmt: skip
    return {
        "type": "Rollup", "deviceId": made["device_id"], "start": iso(made["start"]), "end": iso(made["end"]),
        "finalAt": iso(made["final_at"]), "revision": made["revision"], "expected": made["expected"],
        "metrics": metrics,
    }  # fmt: skip


def parse(_: str, value: bytes) -> Any:
    """Without percentiles: those of the reference are exact."""
    document = json.loads(value)
    for metric in document["metrics"].values():
        for percent in ("p50", "p90", "p99"):
            del metric[percent]
    return document


CASE: Final = Case(
    "rollups", ("rollups",), TABLES, {TOPIC: PARTITIONS}, written(), expected, parse,
    old={f"rollups-{tier}": 2 for tier in KEEP},
)  # fmt: skip

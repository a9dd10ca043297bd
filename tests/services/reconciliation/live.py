"""The reconciliation's part of the live proof."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any, Final

from services.reconciliation.records import Completeness, Finding, InventoryItem
from tests.services.live import Case, Expected, Read, Written
from tests.services.reconciliation.reference import Logged
from tests.services.reconciliation.workload import Beat, Workload, config, iso, reference

PARTITIONS: Final = 2
EVENTS: Final = 150
SEED: Final = 17
BASE: Final = b'{"store":"shop","source":"eu","eventId":"x","role":"ACTUAL","eventTime":"2023-11-14T22:13:20Z"'
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"[]": "malformed",
    b'{"type":"Item"}': "unknown_schema",
    b'{"type":"InventoryItem","store":"shop"}': "malformed",
    BASE.replace(b"ACTUAL", b"REAL") + b"}": "malformed",
    BASE + b',"parts":0}': "malformed",
    BASE + b',"parts":"1"}': "malformed",
    BASE.replace(b"2023-11-14T22:13:20Z", b"yesterday") + b"}": "malformed",
}


def _side(store: str, role: str) -> str:
    return f'{{ store = "{store}", role = "{role}" }}'


def tables() -> str:
    lines = ["[reconciliation]"]
    for given in config().inputs:
        lines += ["[[reconciliation.inputs]]", f'topic = "{given.topic}"', f'bound = "{given.bound_ms}ms"']
    for pair in config().pairs:
        lines += [
            "[[reconciliation.pairs]]",
            f'name = "{pair.name}"',
            f"expected = {_side(pair.expected.store, pair.expected.role)}",
            f"actual = {_side(pair.actual.store, pair.actual.role)}",
            f'n = "{pair.n_ms}ms"',
            f'm = "{pair.m_ms}ms"',
            f'o = "{pair.o_ms}ms"',
            f"report_duplicates = {str(pair.report_duplicates).lower()}",
            f'retention = "{pair.retention_ms}ms"',
        ]
    return "\n".join(lines) + "\n"


def item_json(item: InventoryItem, chance: random.Random) -> bytes:
    """As a producer of its own would write it; what has a default may be left out."""
    fields: dict[str, Any] = {
        "store": item.store,
        "source": item.source,
        "eventId": item.event_id,
        "role": item.role,
        "eventTime": chance.choice([item.event_time, iso(item.event_time)]),
    }
    source = None if item.derived_from_source == item.source else item.derived_from_source
    optional = {
        "parts": (item.parts, 1),
        "derivedFrom": (item.derived_from, None),
        "derivedFromSource": (source, None),
        "filtered": (item.filtered, False),
        "note": (item.note, None),
    }
    for name, (value, default) in optional.items():
        if value != default or chance.random() < 0.3:
            fields[name] = value
    if chance.random() < 0.5:
        fields["type"] = "InventoryItem"
    return json.dumps(fields).encode()


def _log() -> tuple[list[Written], list[Logged]]:
    chance = random.Random(SEED)
    written: list[Written] = []
    logged: list[Logged] = []
    ends = Counter[tuple[str, int]]()
    for topic, partition, record in Workload(SEED, EVENTS, PARTITIONS).lines():
        values: list[tuple[bytes | None, int | None, InventoryItem | None]] = []
        if isinstance(record, Beat):
            beat = json.dumps({"type": "Heartbeat", "processedAt": iso(record.time_ms)})
            values.append((beat.encode(), record.time_ms, None))
        else:
            values.append((item_json(record, chance), record.event_time, record))
        if chance.random() < 0.05:
            values.append((chance.choice(list(JUNK)), None, None))
        for value, time_ms, item in values:
            written.append(Written(topic, partition, value))
            if time_ms is not None:
                logged.append(Logged(topic, partition, ends[topic, partition], time_ms, item))
            ends[topic, partition] += 1
    return written, logged


WRITTEN, LOGGED = _log()


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "type": "Finding",
        "pair": finding.pair,
        "source": finding.source,
        "eventId": finding.event_id,
        "itemId": finding.item_id,
        "kind": finding.kind,
        "eventTime": iso(finding.event_time),
        "decidedAt": iso(finding.decided_at),
        "detail": finding.detail,
    }


def completeness_json(record: Completeness) -> dict[str, Any]:
    return {
        "type": "Completeness",
        "pair": record.pair,
        "intervalStart": iso(record.interval_start),
        "intervalEnd": iso(record.interval_end),
        "expected": record.expected,
        "matched": record.matched,
        "missing": record.missing,
        "pending": record.pending,
        "unexpected": record.unexpected,
        "duplicates": record.duplicates,
        "tooLate": record.too_late,
        "percent": record.percent,
        "revision": record.revision,
        "final": record.final,
    }


def expected(_: Read) -> Expected:
    want = reference(config())
    want.run(LOGGED)
    findings = {key: [finding_json(finding) for finding in mine] for key, mine in want.findings.items()}
    completeness = {
        json.dumps([pair, iso(start)], separators=(",", ":")): [completeness_json(record) for record in records]
        for (pair, start), records in want.completeness.items()
    }
    letters = Counter([JUNK[written.value] for written in WRITTEN if written.value in JUNK])
    outputs = {"reconciliation-findings": findings, "reconciliation-completeness": completeness}
    return Expected(outputs, letters)


CASE: Final = Case(
    "reconciliation", ("reconciliation", "reconciliation-completeness"), tables(),
    {given.topic: PARTITIONS for given in config().inputs}, WRITTEN, expected,
)  # fmt: skip

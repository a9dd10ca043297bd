"""The reconciliation's part of the live proof."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from services.reconciliation.cli.board import percent_text
from services.reconciliation.config import Config, Fields, InputConfig
from services.reconciliation.records import Completeness, Finding, InventoryItem
from tests.services.live import Case, Expected, Look, Read, Written
from tests.services.reconciliation.reference import Logged
from tests.services.reconciliation.workload import Beat, S, Workload, config, iso, reference

PARTITIONS: Final = 2
EVENTS: Final = 150
SEED: Final = 17
QUIET_MS: Final = 30 * S  # longer than n and the bounds: what is missing is found missing by heartbeats alone
PAIR: Final = "shop-lake"
EPOCH: Final = datetime.fromtimestamp(0, UTC)
COPIED, MIRRORED = "copied", "mirrored"
FIELDS: Final = Fields(
    "copy.id", "region", "at", derived_from="copy.of", derived_from_source="ofRegion", filtered="leftOut"
)
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


class Line(NamedTuple):
    """A record of the log. `time_ms`: None of junk, for which `reason` is set; `item`: None of a heartbeat."""

    written: Written
    time_ms: int | None
    item: InventoryItem | None = None
    reason: str = ""


def live_config() -> Config:
    """With topics that are no inventory items: CloudEvents, and records with the fields of an item."""
    others = (
        InputConfig(COPIED, bound_ms=3 * S, store="copy", role="ACTUAL"),
        InputConfig(MIRRORED, bound_ms=8 * S, store="copy", role="ACTUAL", fields=FIELDS),
    )
    return replace(config(), inputs=(*config().inputs, *others))


CONFIG: Final = live_config()


def _table(values: Mapping[str, str]) -> str:
    """In one line."""
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in values.items() if value) + " }"


def _side(store: str, role: str) -> str:
    return _table({"store": store, "role": role})


def tables() -> str:
    lines = ["[reconciliation]"]
    for given in CONFIG.inputs:
        lines += ["[[reconciliation.inputs]]", f'topic = "{given.topic}"', f'bound = "{given.bound_ms}ms"']
        if given.role is not None:
            lines += [f'store = "{given.store}"', f'role = "{given.role}"']
        if given.fields is not None:
            lines += [f"fields = {_table(asdict(given.fields))}"]
    for pair in CONFIG.pairs:
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


def _line(topic: str, partition: int, item: InventoryItem, chance: random.Random) -> Line:
    """In any form that can say all of the item."""
    is_copy = item.store == "copy" and item.note is None and item.parts == 1
    if is_copy and chance.random() < 0.7:
        if item.derived_from is None and not item.filtered and chance.random() < 0.6:
            return Line(_cloud_event(partition, item), item.event_time, item)
        return Line(Written(MIRRORED, partition, _mirrored(item, chance)), item.event_time, item)
    return Line(Written(topic, partition, item_json(item, chance)), item.event_time, item)


def _cloud_event(partition: int, item: InventoryItem) -> Written:
    headers = {"ce_id": item.event_id, "ce_source": item.source, "ce_time": iso(item.event_time), "ce_type": "copied"}
    encoded = tuple((name, text.encode()) for name, text in headers.items())
    return Written(COPIED, partition, b"\xff no JSON", None, encoded)


def _mirrored(item: InventoryItem, chance: random.Random) -> bytes:
    fields: dict[str, Any] = {
        "copy": {"id": item.event_id, "of": item.derived_from},
        "region": item.source,
        "ofRegion": item.derived_from_source,
        "at": chance.choice([item.event_time, iso(item.event_time)]),
    }
    if item.filtered or chance.random() < 0.5:
        fields["leftOut"] = item.filtered
    return json.dumps(fields).encode()


def _junk(topic: str, partition: int, chance: random.Random) -> Line:
    drawn = chance.random()
    if drawn < 0.2:
        return Line(
            Written(COPIED, partition, b"{}", None, (("ce_id", b"1"), ("ce_source", b"eu"))), None, None, "malformed"
        )
    if drawn < 0.4:
        return Line(Written(MIRRORED, partition, b'{"copy":{"id":true},"region":"eu","at":1}'), None, None, "malformed")
    value = chance.choice(list(JUNK))
    return Line(Written(topic, partition, value), None, None, JUNK[value])


def _lines() -> list[Line]:
    chance = random.Random(SEED)
    lines = []
    for topic, partition, record in Workload(SEED, EVENTS, PARTITIONS).lines():
        if isinstance(record, Beat):
            beat = json.dumps({"type": "Heartbeat", "processedAt": iso(record.time_ms)})
            lines.append(Line(Written(topic, partition, beat.encode()), record.time_ms))
        else:
            lines.append(_line(topic, partition, record, chance))
        if chance.random() < 0.05:
            lines.append(_junk(topic, partition, chance))
    return lines


LINES: Final = _lines()
LETTERS: Final = Counter([line.reason for line in LINES if line.reason])
LAST_BEFORE_QUIET: Final = max(line.time_ms or 0 for line in LINES[: len(LINES) * 2 // 3])


def logged(read: Read) -> list[Logged]:
    """The log as it stands, with the heartbeats that the command has written."""
    to_come: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in reversed(LINES):
        to_come[line.written.topic, line.written.partition].append(line)
    log = []
    for topic in [given.topic for given in CONFIG.inputs]:
        for r in read(topic):
            mine = to_come[topic, r.partition]
            if mine and (mine[-1].written.value, mine[-1].written.headers) == (r.value, r.headers):
                line = mine.pop()
                time_ms, item = line.time_ms, line.item
            else:
                time_ms, item = _beat_ms(r.value), None
            if time_ms is not None:
                log.append(Logged(topic, r.partition, r.offset, time_ms, item))
    assert not any(to_come.values())
    return log


def _beat_ms(value: bytes | None) -> int:
    beat = json.loads(value or b"")
    assert beat["type"] == "Heartbeat"
    return (datetime.fromisoformat(beat["processedAt"]) - EPOCH) // timedelta(milliseconds=1)


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


def expected(read: Read) -> Expected:
    want = reference(CONFIG)
    log = logged(read)
    assert len(log) > len([line for line in LINES if line.time_ms is not None])
    want.run(log)
    findings = {key: [finding_json(finding) for finding in mine] for key, mine in want.findings.items()}
    completeness = {
        json.dumps([pair, iso(start)], separators=(",", ":")): [completeness_json(record) for record in records]
        for (pair, start), records in want.completeness.items()
    }
    outputs = {"reconciliation-findings": findings, "reconciliation-completeness": completeness}
    return Expected(outputs, LETTERS)


def lost(read: Read) -> list[tuple[str, str, str]]:
    """What was found lost: source, id, and when it was decided. The query sees it for a week."""
    findings = [json.loads(r.value or b"") for r in read("reconciliation-findings")]
    mine = [f for f in findings if f["kind"] == "LOST" and f["pair"] == PAIR]
    return sorted((f["source"], f["eventId"], f["decidedAt"]) for f in mine)


def answered(printed: str) -> list[tuple[str, str, str]]:
    return sorted((i["source"], i["eventId"], i["lostAt"]) for i in json.loads(printed.splitlines()[-1]))


def percents(read: Read) -> list[str]:
    """Returns the percents of the intervals of a pair, the latest first."""
    latest = {r.key: json.loads(r.value or b"") for r in read("reconciliation-completeness")}
    mine = [record for record in latest.values() if record["pair"] == PAIR]
    return [percent_text(r["percent"]) for r in sorted(mine, key=lambda r: str(r["intervalStart"]), reverse=True)]


CASE: Final = Case(
    "reconciliation",
    ("reconciliation", "reconciliation-completeness"),
    tables(),
    {given.topic: PARTITIONS for given in CONFIG.inputs},
    [line.written for line in LINES],
    expected,
    quiet_ms=LAST_BEFORE_QUIET + QUIET_MS,
    question=Look(("ask", "reconciliation", "lost_of", PAIR, "1000"), answered, lost),
    view=Look(
        ("reconciliation", "status", "--once", "--pair", PAIR, "--limit", "1000"),
        lambda printed: [word for word in printed.split() if word.endswith("%")],
        percents,
    ),
)

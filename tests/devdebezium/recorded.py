"""Change events as they were recorded from Debezium 3.6.1, with the statements that caused them, and their shapes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.reference.model import LogRecord

FILE: Final = Path(__file__).resolve().parents[1] / "fixtures" / "debezium-3.6.1.jsonl"
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
TRANSACTION: Final = "transaction"
HEADERS: Final = ("__debezium.newkey", "__debezium.oldkey")

Shapes = dict[str, list[Any]]  # by table or "transaction", in the order of the topic


class Recording(NamedTuple):
    tables: list[str]  # statements that make the tables and their first rows
    changes: list[str]  # statements once the connector runs
    shapes: Shapes


def recording() -> Recording:
    """The first scenario of the file."""
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    end = next(number for number, line in enumerate(lines[1:], 1) if "scenario" in line)
    statements = lines[1]["sql"].splitlines()
    first_change = next(n for n, statement in enumerate(statements) if statement.startswith("begin"))
    shapes: Shapes = defaultdict(list)
    for event in lines[2:end]:
        table = event["topic"].removeprefix("uni.")
        shapes[table].append(shape(event["key"], event.get("value"), event.get("headers") or {}))
    return Recording(statements[:first_change], statements[first_change:], dict(shapes))


def shapes_of(records: Iterable[LogRecord], prefix: str) -> Shapes:
    shapes: Shapes = defaultdict(list)
    for record in records:
        headers = {name: (value or b"").decode() for name, value in record.headers if name in HEADERS}
        shapes[record.topic.removeprefix(prefix)].append(shape(_json(record.key), _json(record.value), headers))
    return dict(shapes)


def shape(key: Any, value: Any, headers: dict[str, str]) -> Any:
    """An event without times and positions, which differ each time."""
    changed_key = {name: json.loads(text) for name, text in headers.items()}
    if value is None:
        return "tombstone", key, changed_key
    if "status" in value:
        counts = {part["data_collection"]: part["event_count"] for part in value["data_collections"] or ()}
        return value["status"], value["event_count"], counts
    source, transaction = value["source"], value["transaction"] or {}
    return (
        value["op"], _masked(key), _masked(value["before"]), _masked(value["after"]), changed_key,
        source["snapshot"], sorted(name for name in ("txId", "lsn") if source[name] is not None),
        {name: order for name, order in transaction.items() if name != "id"},
    )  # fmt: skip


def _masked(part: Any) -> Any:
    return json.loads(TIME.sub("TIME", UUID.sub("UUID", json.dumps(part))))


def _json(content: bytes | None) -> Any:
    return None if content is None else json.loads(content)

"""The part of changes in the live proof: a history of the model database, with a connector that is killed."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import Any, Final

from tests.reference.changes.connector import HEARTBEATS, TRANSACTIONS, Message, topic_of
from tests.reference.changes.database import PLACEHOLDER
from tests.reference.changes.history import History, Shape, half, history
from tests.reference.changes.truth import Event, root_key
from tests.services.live import Case, Expected, Look, Read, Written

TABLES: Final = """
[changes]
connector = "uni"
root = "student"
transaction_wait = "1h"

[[changes.tables]]
name = "student"
key = ["id"]

[[changes.tables]]
name = "course"
key = ["id"]

[[changes.tables]]
name = "enrolment"
key = ["id"]
student = { table = "student", columns = ["student_id"] }
course = { table = "course", columns = ["course_id"] }

[[changes.tables]]
name = "booking"
key = ["student_id", "course_id"]
student = { table = "student", columns = ["student_id"] }
course = { table = "course", columns = ["course_id"] }
"""
PARTITIONS: Final = {
    **{topic_of(table): 2 for table in ("student", "course", "enrolment", "booking")}, TRANSACTIONS: 1, HEARTBEATS: 1,
}  # fmt: skip
HISTORY: Final[History] = history(5, Shape(transactions=120, kills=3, snapshots=2, copies=False))


def written() -> list[Written]:
    records = []
    for _, message in HISTORY.arrivals:
        if message.topic in PARTITIONS:
            headers = tuple((name, value.encode()) for name, value in message.headers.items())
            partition = half(message) if PARTITIONS[message.topic] > 1 else 0
            records.append(Written(message.topic, partition, message.value_bytes(), message.key_bytes(), headers))
    beat = Message(HEARTBEATS, {"serverName": "uni"}, {"ts_ms": 1_795_339_742_000})
    return [*records, Written(HEARTBEATS, 0, beat.value_bytes(), beat.key_bytes())]


def expected(read: Read) -> Expected:
    by_key: dict[str, list[Any]] = defaultdict(list)
    for event in HISTORY.events:
        by_key[root_key(event)].append({name: value for name, value in event.items() if value is not None})
    return Expected({"business-events": dict(by_key)})


def parse(topic: str, value: bytes) -> Event:
    """As the truth has it."""
    event = json.loads(value)
    time_ms = round(datetime.fromisoformat(event["at"]).timestamp() * 1_000)
    rows = [(its["table"], its["op"], its["lsn"]) for its in event["rows"]]
    event |= {
        "rows": rows,
        "transaction": event.pop("transactionId"),
        "at": time_ms,
        "missing": event["missing"] or None,
    }
    assert event.pop("connector") == "uni"
    return {name: value for name, value in event.items() if value is not None}


def settled() -> Message:
    """The last change of a row that the first half of the log has."""
    messages = [message for _, message in HISTORY.arrivals if message.topic in PARTITIONS]
    later = {(its.topic, str(its.key)) for its in messages[len(messages) // 2 :]}
    changes = [its for its in messages if its.value and its.value.get("op") in ("c", "u")]
    last = {(its.topic, str(its.key)): its for its in sorted(changes, key=lambda its: its.value["source"]["lsn"])}
    gone = {(its.topic, str(its.key)) for its in messages if its.value and its.value.get("op") == "d"}
    return next(
        its
        for place, its in last.items()
        if place not in later | gone and PLACEHOLDER not in its.value["after"].values()
    )


def question() -> Look:
    row = settled()
    words = ["ask", "changes", "row", row.value["source"]["table"], json.dumps([*row.key.values()])]
    return Look(words, lambda printed: json.loads(printed)["columns"], lambda read: row.value["after"])


CASE: Final = Case(
    "changes", ("changes",), TABLES, PARTITIONS, written(), expected, parse, question=question(), broker_time=True
)

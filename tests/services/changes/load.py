"""Changes under load: transactions of a new student with two enrolments, and of a changed course, as Debezium writes
them without schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.load import Load, Record
from tests.reference.changes.connector import HEARTBEATS, TRANSACTIONS, topic_of

START_MS: Final = 1_795_339_742_000
COURSES: Final = 200
RECORDS, ROWS = 8, 4  # of two transactions
TABLES: Final = """
[changes]
connector = "uni"
root = "student"
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
"""
INPUTS: Final = {**{topic_of(name): 4 for name in ("student", "course", "enrolment")}, TRANSACTIONS: 1, HEARTBEATS: 1}


class _Connector:
    def __init__(self) -> None:
        self.lsn, self.number, self.last_commit = 31_290_848, 790, 31_290_848

    def snapshot(self) -> Iterator[Record]:
        for id in range(COURSES):
            course = {"id": id, "title": f"course {id}", "teacher": "Foo"}
            yield self._row("course", "r", course, None, 0)

    def transaction(self, n: int, rows: list[tuple[str, str, dict[str, Any]]]) -> Iterator[Record]:
        self.number += 1
        time_ms = START_MS + n // 4
        yield self._boundary("BEGIN", time_ms, None)
        for order, (table, op, row) in enumerate(rows, 1):
            self.lsn += 128
            yield self._row(table, op, row, {"id": f"{self.number}:{self.lsn}", "total_order": order,
                                             "data_collection_order": 1}, time_ms)  # fmt: skip
        self.lsn += 48
        counts = {table: sum(its == table for its, _, _ in rows) for table, _, _ in rows}
        yield self._boundary("END", time_ms, counts)
        self.last_commit = self.lsn

    def _boundary(self, status: str, time_ms: int, counts: dict[str, int] | None) -> Record:
        collections = counts and [{"data_collection": f"public.{name}", "event_count": c} for name, c in counts.items()]
        value = {
            "status": status, "id": f"{self.number}:{self.lsn}", "event_count": counts and sum(counts.values()),
            "data_collections": collections, "ts_ms": time_ms,
        }  # fmt: skip
        return Record(TRANSACTIONS, f"{self.number}", json.dumps(value).encode())

    def _row(self, table: str, op: str, row: dict[str, Any], transaction: Any, time_ms: int) -> Record:
        source = {
            "version": "3.6.1.Final", "connector": "postgresql", "name": "uni", "ts_ms": time_ms,
            "snapshot": "true" if op == "r" else "false", "db": "uni",
            "sequence": f'["{self.last_commit}","{self.lsn}"]', "ts_us": time_ms * 1_000, "ts_ns": time_ms * 1_000_000,
            "schema": "public", "table": table, "txId": self.number, "lsn": self.lsn, "xmin": None, "origin": None,
            "origin_lsn": None,
        }  # fmt: skip
        value = {
            "before": None, "after": row, "source": source, "transaction": transaction, "op": op,
            "ts_ms": time_ms + 30, "ts_us": (time_ms + 30) * 1_000, "ts_ns": (time_ms + 30) * 1_000_000,
        }  # fmt: skip
        return Record(topic_of(table), json.dumps({"id": row["id"]}), json.dumps(value).encode())


def records(n: int) -> Iterator[Record]:
    connector = _Connector()
    yield from connector.snapshot()
    for number in range((n - COURSES) // RECORDS):
        student = {"id": number, "name": f"student {number}", "email": f"{number}@university.example"}
        links = [
            {"id": 2 * number + k, "student_id": number, "course_id": (number + 7 * k) % COURSES, "grade": None}
            for k in range(2)
        ]
        new: list[tuple[str, str, dict[str, Any]]] = [("student", "c", student)]
        yield from connector.transaction(2 * number, [*new, *[("enrolment", "c", link) for link in links]])
        changed = {**links[0], "course_id": (number + 3) % COURSES}
        yield from connector.transaction(2 * number + 1, [("enrolment", "u", changed)])


LOAD: Final = Load(TABLES, (*INPUTS,), "business-events", records, INPUTS, {"message.timestamp.type": "LogAppendTime"})

"""Bytes that Debezium 3.6.1 wrote for PostgreSQL 15: tests/fixtures/debezium-3.6.1.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from services.changes.config import Table
from tests.reference.changes.connector import Message
from tests.services.changes.driver import TABLES, Driver, config

LOG: Final = Path(__file__).resolve().parents[2] / "fixtures" / "debezium-3.6.1.jsonl"


def scenario(letter: str) -> list[tuple[int, Message]]:
    """Its records, one each ms."""
    records: list[tuple[int, Message]] = []
    inside = False
    for number, line in enumerate(LOG.read_text().splitlines()):
        document = json.loads(line)
        if "scenario" in document:
            inside = document["scenario"].startswith(letter)
        elif inside and "topic" in document:
            message = Message(document["topic"], document["key"], document["value"], document["headers"])
            records.append((1_000 + number, message))
    return records


def told(driver: Driver) -> list[tuple[str, str, list[str]]]:
    """Returns, for each event, its key, its type, and the rows that it tells."""
    return [(key, event["type"], [f"{op} {table}" for table, op, _ in event["rows"]]) for key, event in driver.keyed()]


EVENTS: Final[list[tuple[str, str, list[str]]]] = [
    ('["student",3]', "enroll", ["c student", "c course", "c enrolment"]),
    ('["student",4]', "enroll", ["c enrolment", "c student"]),  # the link came first
    ('["student",1]', "updated", ["u student"]),
    ('["student",1]', "change", ["u enrolment"]),
    ('["student",1]', "enroll", ["c booking"]),
    ('["student",2]', "enroll", ["c booking"]),
    ('["student",3]', "enroll", ["c booking"]),
    ('["student",1]', "change", ["d booking", "c booking"]),  # the course is a part of the key
    ('["student",101]', "updated", ["d student", "c student"]),  # the links follow the new key
    ('["student",3]', "withdraw", ["d enrolment"]),
    ('["student",3]', "withdraw", ["d booking"]),
    ('["student",3]', "deleted", ["d student"]),
    ('["student",51]', "created", ["c student", "u student"]),
    ('["student",4]', "change", ["d enrolment", "c enrolment"]),
    *[(f'["student",{id}]', "created", ["c student"]) for id in (60, 61, 62, 63)],  # COPY
    ('["booking"]', "truncated", ["t booking"]),
    ('["student",60]', "deleted", ["d student"]),
]


def test_each_transaction_is_what_it_meant() -> None:
    driver = Driver(config())
    driver.send(scenario("A"))
    assert told(driver) == EVENTS
    assert {event["certainty"] for event in driver.events()} == {"TRANSACTION"}
    assert driver.bench.dead_letters() == []
    assert driver.bench.count("unchanged") == 1
    assert driver.bench.count("snapshot_differs") == 0
    assert all("missing" not in event for event in driver.events())
    driver.bench.end()


def test_events_have_whole_rows() -> None:
    driver = Driver(config())
    driver.send(scenario("A"))
    enroll, change, moved = (driver.events()[place] for place in (0, 7, 8))
    assert enroll["student"] == {"id": 3, "name": "Ann", "email": "a@x"}
    assert enroll["course"] == {"id": 3, "title": "art", "teacher": "Baz"}
    assert (enroll["transaction"], enroll["at"]) == ("790", 1_795_339_747_748)
    assert change["from"] == {"id": 1, "title": "physics", "teacher": "Foo"}
    assert change["to"] == {"id": 3, "title": "art", "teacher": "Baz"}
    assert moved["changed"] == ["key", "id"]
    assert moved["before"] == {"id": 1, "name": "Eve", "email": "n@x"}
    assert moved["after"] == {"id": 101, "name": "Eve", "email": "n@x"}


@pytest.mark.parametrize(("letter", "enrolls", "others"), [("B", 1, 8), ("C", 0, 2)])
def test_a_connector_that_was_killed_sends_again_what_was_not_noted(letter: str, enrolls: int, others: int) -> None:
    """In scenario C, Debezium itself loses two rows of a COPY."""
    driver = Driver(config())
    driver.send(scenario(letter))
    types = [event["type"] for event in driver.events()]
    assert (types.count("enroll"), len(types) - types.count("enroll")) == (enrolls, others)
    assert {event["certainty"] for event in driver.events()} == {"TRANSACTION"}


def test_records_with_their_schemas_say_the_same() -> None:
    driver = Driver(config())
    driver.send((arrival_ms, _with_schema(message)) for arrival_ms, message in scenario("A"))
    assert told(driver) == EVENTS


def _with_schema(message: Message) -> Message:
    if message.value is None:
        return message
    columns: list[Any] = [{"field": "grade", "type": "string"}]
    fields = [{"field": name, "type": "struct", "fields": columns} for name in ("before", "after")]
    value = {"schema": {"type": "struct", "fields": fields}, "payload": message.value}
    return Message(message.topic, message.key, value, message.headers)


def test_decimals_that_are_not_texts_are_refused() -> None:
    """The grade 1.5 is `Dw==` with decimal.handling.mode=precise. Its transaction can be read, so it goes on."""
    tables = tuple(Table(**{**vars(its), "decimals": ("grade",)}) if its.name == "enrolment" else its for its in TABLES)
    driver = Driver(config(tables=tables))
    driver.send(scenario("A"))
    first = driver.events()[:2]
    assert [(event["type"], event["certainty"]) for event in first] == [("created", "INCOMPLETE")] * 2
    assert driver.bench.dead_letters() == ["malformed"]

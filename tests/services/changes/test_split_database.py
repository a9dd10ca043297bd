"""A database that is split among connectors by the values of a column: each has its own publication, whose row filters
choose its rows, and its own service behind a topic prefix. Only PostgreSQL and Debezium themselves say what such a
connector writes, and what it counts.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from moneystate.devbroker import DevBroker
from moneystate.devdebezium import Connector, DevDebezium, await_sent
from moneystate.devpostgres import DevPostgres
from tests.job.harness import moneystate
from tests.reference.kafka_log import read_log
from tests.waiting import until

pytestmark = pytest.mark.long
REGIONS: Final = ("north", "south")
SPLIT: Final = ("student", "enrolment")
SHARED: Final = "course"  # whole in each connector
STUDENTS: Final = 40
WITHIN_S: Final = 60.0
TABLES: Final = (
    "CREATE TABLE student (id int PRIMARY KEY, region text NOT NULL, name text)",
    "CREATE TABLE course (id int PRIMARY KEY, title text)",
    "CREATE TABLE enrolment (id int PRIMARY KEY, region text NOT NULL, student_id int, course_id int)",
    # The column is not a part of the key, so the log must have it before an update and a deletion.
    "ALTER TABLE student REPLICA IDENTITY FULL",
    "ALTER TABLE enrolment REPLICA IDENTITY FULL",
    "INSERT INTO course VALUES (1, 'physics'), (2, 'maths')",
    "INSERT INTO student VALUES (1001, 'north', 'Nil'), (1002, 'south', 'Sue')",
)
CONFIG: Final = """
[changes]
connector = "uni"
heartbeat_topic = "heartbeat.{region}.uni"
root = "student"

[[changes.tables]]
name = "student"
key = ["id"]
full = true

[[changes.tables]]
name = "course"
key = ["id"]

[[changes.tables]]
name = "enrolment"
key = ["id"]
full = true
student = {{ table = "student", columns = ["student_id"] }}
course = {{ table = "course", columns = ["course_id"] }}
"""


def split_connector(database: str, dsn: str, region: str) -> Connector:
    """Makes the connector of the rows of one region. The filter of the publication does not hold for the first
    snapshot, which has its own."""
    settings = {"topic.prefix": f"{region}.uni", "topic.heartbeat.prefix": f"{region}.heartbeat"}
    settings["topic.creation.transaction.include"] = rf"{region}\.uni\.transaction"
    settings["publication.autocreate.mode"] = "disabled"
    settings["snapshot.select.statement.overrides"] = ",".join(f"public.{table}" for table in SPLIT)
    for table in SPLIT:
        statement = f"SELECT * FROM public.{table} WHERE region = '{region}'"
        settings[f"snapshot.select.statement.overrides.public.{table}"] = statement
    tables = [f"public.{table}" for table in (*SPLIT, SHARED)]
    return Connector(f"{database}_{region}", dsn, tables, partitions=2, settings=settings)


def publication(connector: Connector, region: str) -> str:
    split = ", ".join(f"{table} WHERE (region = '{region}')" for table in SPLIT)
    return f"CREATE PUBLICATION {connector.name} FOR TABLE {split}, {SHARED}"


class Life:
    """Each student enrolls, changes the course and leaves, or not, in transactions of one region each, which overlap
    those of the other one."""

    def __init__(self, dsn: str) -> None:
        self.rng = random.Random(11)
        self.connections = {region: psycopg.connect(dsn) for region in REGIONS}
        self.ids: dict[str, list[str]] = {region: [] for region in REGIONS}
        self.meant: dict[str, list[str]] = {region: [] for region in REGIONS}

    def run(self, first: int) -> None:
        """Leaves the transaction of another region open now and then."""
        for student in range(first, first + STUDENTS):
            region = self.rng.choice(REGIONS)
            name = f"s{student}"
            self._do(region, "INSERT INTO student VALUES (%s, %s, %s)", student, region, name)
            self._do(region, "INSERT INTO enrolment VALUES (%s, %s, %s, 1)", student, region, student)
            self._commit(region, f"enroll {name}")
            if self.rng.random() < 0.5:
                self._do(region, "UPDATE enrolment SET course_id = 2 WHERE id = %s", student)
                self._commit(region, f"change {name}")
            if self.rng.random() < 0.3:
                self._do(region, "DELETE FROM enrolment WHERE id = %s", student)
                self._commit(region, f"withdraw {name}")

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    def _do(self, region: str, statement: str, *values: Any) -> None:
        self.connections[region].execute(statement.encode(), values)

    def _commit(self, region: str, meant: str) -> None:
        row = self.connections[region].execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        self.ids[region].append(row[0])
        self.meant[region].append(meant)
        self.connections[region].commit()


def test_each_connector_of_a_split_database_tells_its_own_transactions(
    own_broker: DevBroker, postgres: DevPostgres, tmp_path: Path
) -> None:
    servers, database = own_broker.bootstrap_servers, f"uni{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    dsn = postgres.dsn(database)
    connectors = {region: split_connector(database, dsn, region) for region in REGIONS}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in (*TABLES, *(publication(its, region) for region, its in connectors.items())):
            connection.execute(statement.encode())
    life = Life(dsn)
    with DevDebezium(tmp_path / "worker", servers, offsets_every_ms=500) as worker:
        for connector in connectors.values():
            worker.create(connector)
        begin = position(dsn)
        life.run(1)
        await_stored(dsn, connectors.values(), begin)  # without offsets a connector begins with a snapshot again
        life.run(1 + STUDENTS)
        worker.kill()
        life.run(1 + 2 * STUDENTS)
        worker.start()
        for region in REGIONS:
            await_sent(servers, f"{region}.uni", life.ids[region])
    life.close()
    for region in REGIONS:
        run(servers, region, tmp_path)
        events = [json.loads(record.value or b"") for record in read_log(servers, [f"{region}.business-events"])[0]]
        in_order = sorted(events, key=lambda event: event["rows"][0]["lsn"])
        assert [f"{event['type']} {event['student']['name']}" for event in in_order] == life.meant[region]
        assert {event["certainty"] for event in events} == {"TRANSACTION"}
        assert [event["missing"] for event in events if event["missing"]] == []  # the courses are there in each
        assert {event["student"]["region"] for event in events} == {region}


def run(servers: str, region: str, folder: Path) -> None:
    config = folder / f"{region}.toml"
    config.write_text(CONFIG.format(region=region))
    checkpoint = str(folder / f"checkpoint-{region}")
    moneystate(
        ["run", "changes", "--local", "--config", str(config), "--topic-prefix", f"{region}.",
         "--bootstrap-servers", servers, "--checkpoint", checkpoint, "--until-caught-up", "--drain"],
        folder,
    )  # fmt: skip


def position(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])


def await_stored(dsn: str, connectors: Iterable[Connector], begin: str) -> None:
    """Until each connector has stored offsets above a position."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for its in connectors:
            is_done = partial(is_stored, connection, its.name, begin)
            until(is_done, partial("{} has no offsets".format, its.name), WITHIN_S)


def is_stored(connection: psycopg.Connection[Any], slot: str, begin: str) -> bool:
    stored = "SELECT confirmed_flush_lsn > %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    return connection.execute(stored, [begin, slot]).fetchone() == (True,)

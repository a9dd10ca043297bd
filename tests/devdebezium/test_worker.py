"""The development Debezium: real events of a real database, as they were recorded; paused, restarted and killed."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from moneystate.devbroker import DevBroker
from moneystate.devdebezium import Connector, DevDebezium
from moneystate.devpostgres import DevPostgres
from moneystate.errors import SetupError
from tests.devdebezium.recorded import TRANSACTION, recording, shapes_of
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord
from tests.waiting import until

WITHIN_S = 60.0
STUDENT = "CREATE TABLE student (id int PRIMARY KEY, name text)"


@pytest.fixture
def name(postgres: DevPostgres, debezium: DevDebezium) -> Iterator[str]:
    """Names a database, a connector and its topics. Each test has a name of its own."""
    made = f"uni{uuid.uuid4().hex[:8]}"
    execute(postgres.dsn(), [f"CREATE DATABASE {made}"])
    yield made
    for connector in debezium.connectors:
        debezium.delete(connector)
    execute(postgres.dsn(), [f"DROP DATABASE {made} WITH (FORCE)"])


def records(broker: DevBroker, name: str, *tables: str) -> list[LogRecord]:
    return read_log(broker.bootstrap_servers, tables, f"{name}.")[0]


def ended(broker: DevBroker, name: str) -> int:
    """Transactions that have ended."""
    try:
        boundaries = records(broker, name, TRANSACTION)
    except LookupError:
        return 0
    return sum(json.loads(record.value or b"")["status"] == "END" for record in boundaries)


def execute(dsn: str, statements: list[str]) -> None:
    """Statements for psql: COPY has its rows on the lines after it."""
    lines = iter(statements)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for line in lines:
            if line.startswith("copy"):
                rows = iter(lines.__next__, "\\.")
                with connection.cursor().copy(line) as copy:
                    copy.write("".join(f"{row}\n" for row in rows))
            elif "pg_sleep" in line:
                await_windows(connection)
            else:
                connection.execute(line)


def await_windows(connection: psycopg.Connection[Any]) -> None:
    """Until the incremental snapshot is over: it closes a window for its rows and one without."""
    closed = "SELECT count(*) FROM dbz_signal WHERE type = 'snapshot-window-close'"
    until(lambda: connection.execute(closed).fetchone() == (2,), lambda: "the snapshot is not over", WITHIN_S)


def test_the_events_are_as_they_were_recorded(
    broker: DevBroker, postgres: DevPostgres, debezium: DevDebezium, name: str
) -> None:
    recorded, dsn = recording(), postgres.dsn(name)
    execute(dsn, recorded.tables)
    tables = [f"public.{table}" for table in ("student", "course", "enrolment", "booking", "audit")]
    wire = {"decimal.handling.mode": "precise"}
    debezium.create(Connector(name, dsn, tables, signals="public.dbz_signal", settings=wire))
    execute(dsn, recorded.changes)
    wanted = sum(shape[0] == "END" for shape in recorded.shapes[TRANSACTION])
    until(lambda: ended(broker, name) == wanted, lambda: f"{ended(broker, name)} of {wanted}", WITHIN_S)
    assert shapes_of(records(broker, name, *recorded.shapes), f"{name}.") == recorded.shapes


def test_topics_have_the_brokers_time_and_the_transactions_have_one_partition(
    broker: DevBroker, postgres: DevPostgres, debezium: DevDebezium, name: str
) -> None:
    dsn = postgres.dsn(name)
    execute(dsn, [STUDENT, "INSERT INTO student VALUES (1, 'Ann')"])
    debezium.create(Connector(name, dsn, ["public.student"], partitions=3))
    execute(dsn, ["INSERT INTO student VALUES (2, 'Bob')"])
    until(lambda: ended(broker, name) == 1, lambda: "no transaction", WITHIN_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = {f"{name}.public.student": 3, f"{name}.{TRANSACTION}": 1}
    for topic, partitions in topics.items():
        assert len(admin.list_topics(topic).topics[topic].partitions) == partitions
        [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        settings = {one.name: one.value for one in described.result().values()}
        assert settings["message.timestamp.type"] == "LogAppendTime"
        assert settings["cleanup.policy"] == "delete"


def test_a_replica_identity_gives_rows_before_their_change(
    broker: DevBroker, postgres: DevPostgres, debezium: DevDebezium, name: str
) -> None:
    dsn = postgres.dsn(name)
    execute(dsn, [STUDENT, "ALTER TABLE student REPLICA IDENTITY FULL", "INSERT INTO student VALUES (1, 'Ann')"])
    debezium.create(Connector(name, dsn, ["public.student"]))
    execute(dsn, ["UPDATE student SET name = 'Eve'"])
    until(lambda: ended(broker, name) == 1, lambda: "no transaction", WITHIN_S)
    _, update = records(broker, name, "public.student")
    assert json.loads(update.value or b"")["before"] == {"id": 1, "name": "Ann"}


def test_a_connector_can_be_paused_and_replaced(
    broker: DevBroker, postgres: DevPostgres, debezium: DevDebezium, name: str
) -> None:
    dsn = postgres.dsn(name)
    execute(dsn, [STUDENT])
    debezium.create(Connector(name, dsn, ["public.student"]))
    debezium.pause(name)
    execute(dsn, ["INSERT INTO student VALUES (1, 'Ann')"])
    assert ended(broker, name) == 0
    debezium.resume(name)
    until(lambda: ended(broker, name) == 1, lambda: "not resumed", WITHIN_S)
    debezium.restart(name)
    execute(dsn, ["INSERT INTO student VALUES (2, 'Bob')"])
    until(lambda: ended(broker, name) == 2, lambda: "not restarted", WITHIN_S)


def test_the_problem_of_a_connector_is_named(debezium: DevDebezium, postgres: DevPostgres, name: str) -> None:
    dsn = postgres.dsn(name)
    execute(dsn, [STUDENT])
    settings = {"publication.autocreate.mode": "disabled"}
    with pytest.raises(SetupError, match="Publication autocreation is disabled"):
        debezium.create(Connector(name, dsn, ["public.student"], settings=settings))


def test_a_killed_worker_sends_again_what_its_offsets_lack(
    broker: DevBroker, postgres: DevPostgres, tmp_path: Path, name: str
) -> None:
    """A duplicate has the position of its original."""
    dsn = postgres.dsn(name)
    execute(dsn, [STUDENT])
    # Without offsets it begins where its slot does.
    connector = Connector(name, dsn, ["public.student"], settings={"snapshot.mode": "no_data"})
    with DevDebezium(tmp_path / "worker", broker.bootstrap_servers, offsets_every_ms=3_600_000) as worker:
        worker.create(connector)
        execute(dsn, ["INSERT INTO student VALUES (1, 'Ann')"])
        until(lambda: ended(broker, name) == 1, lambda: "no transaction", WITHIN_S)
        worker.kill()
        execute(dsn, ["INSERT INTO student VALUES (2, 'Bob')"])
        worker.start()
        until(lambda: ended(broker, name) == 3, lambda: f"{ended(broker, name)} transactions", WITHIN_S)
    events = [json.loads(record.value or b"") for record in records(broker, name, "public.student")]
    sent = Counter((event["after"]["id"], event["source"]["txId"], event["source"]["lsn"]) for event in events)
    assert sorted((id, times) for (id, _, _), times in sent.items()) == [(1, 2), (2, 1)]

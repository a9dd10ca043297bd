"""From the commit of a transaction in PostgreSQL to the receipt of its event by a read_committed reader: through
Debezium and `moneystate run changes`. All clocks are of this machine.

Its first part, to the end of the transaction in Kafka, is Debezium's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.devdebezium import Connector, DevDebezium
from moneystate.devpostgres import DevPostgres
from tests.bench.latency import LOW_LATENCY, PACE_S, Reader
from tests.bench.running import running_job
from tests.reference.kafka_log import read_log
from tests.services.changes.university import TABLES, config_text
from tests.waiting import until

CONNECTOR: Final = "uni"
CAPTURED: Final = ("public.student", "public.course", "public.enrolment")
EVENTS: Final = "business-events"
COURSES: Final = 100
WITHIN_S: Final = 120.0
Statements = tuple[str, ...]


class Delays(NamedTuple):
    """In ms, sorted."""

    to_kafka: list[float]
    to_event: list[float]


def transactions() -> Iterator[Statements]:
    """A student enrols, which is rows of two tables, changes the course, and withdraws."""
    key = 0
    while True:
        key += 1
        yield (
            f"INSERT INTO student VALUES ({key}, 'name {key}', 'e{key}@x')",
            f"INSERT INTO enrolment VALUES ({key}, {key}, {key % COURSES})",
        )
        yield (f"UPDATE enrolment SET course_id = {(key + 1) % COURSES} WHERE id = {key}",)
        yield (f"DELETE FROM enrolment WHERE id = {key}",)


def measure(rate: int, warm_s: float, seconds: float, flags: list[str], poll_ms: int) -> Delays:
    """`warm_s`: of the load, not measured: Spark's first batches compile its plans."""
    with tempfile.TemporaryDirectory(prefix="bench-changes-") as name, DevPostgres() as database:
        folder = Path(name)
        config = folder / "changes.toml"
        config.write_text(config_text(CONNECTOR))
        with (
            DevBroker(folder / "kafka", heap="512m") as broker,
            DevDebezium(folder / "debezium", broker.bootstrap_servers) as debezium,
            psycopg.connect(database.dsn()) as connection,
        ):
            servers = broker.bootstrap_servers
            for statement in (*TABLES, f"INSERT INTO course SELECT n FROM generate_series(0, {COURSES - 1}) n"):
                connection.execute(statement)
            connection.commit()
            settings = {"poll.interval.ms": str(poll_ms)}
            debezium.create(Connector(CONNECTOR, database.dsn(), CAPTURED, settings=settings))
            command = ("run", "changes", "--config", str(config))
            own = ["--topic-partitions", "1"]
            with running_job(servers, "", folder / "checkpoint", [*LOW_LATENCY, *own, *flags], command):
                reader = Reader(servers, EVENTS, 1)
                made = transactions()
                _await_event(reader, _run(connection, next(made)))  # the job has started
                begin = time.time() + warm_s
                _await_event(reader, _load(connection, made, rate, warm_s + seconds))
                received = reader.end_raw()
            return _delays(servers, received, begin, begin + seconds)


def _await_event(reader: Reader, transaction: str) -> None:
    wanted = f'"transactionId":"{transaction}"'.encode()
    until(
        lambda: any(wanted in value for _, value in reader.received[-1_000:]),
        lambda: f"no event of {transaction}",
        WITHIN_S,
    )


def _run(connection: psycopg.Connection[Any], statements: Statements) -> str:
    """The id of the transaction."""
    for statement in statements:
        connection.execute(statement)
    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    connection.commit()
    return str(row[0])


def _load(connection: psycopg.Connection[Any], made: Iterator[Statements], rate: int, seconds: float) -> str:
    """The id of the last transaction."""
    start, done, id = time.time(), 0, ""
    while (now := time.time()) < start + seconds:
        while done < (now - start) * rate:
            id = _run(connection, next(made))
            done += 1
        threading.Event().wait(PACE_S)
    return id


def _delays(servers: str, received: list[tuple[float, bytes]], begin: float, end: float) -> Delays:
    """Measures the delays of the transactions that were committed in this time."""
    records, _ = read_log(servers, [f"{CONNECTOR}.transaction"])
    ends = [
        (event["ts_ms"], record.timestamp_ms or 0)
        for record in records
        if (event := json.loads(record.value or b""))["status"] == "END"
    ]
    events = [(time_ms(json.loads(value)["at"]), received_s * 1000) for received_s, value in received]
    return Delays(_within(ends, begin, end), _within(events, begin, end))


def time_ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def _within(times: Sequence[tuple[float, float]], begin: float, end: float) -> list[float]:
    return sorted(there - committed for committed, there in times if begin * 1000 <= committed < end * 1000)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--rate", type=int, default=100, help="transactions a second")
    p.add_argument("--warm", type=float, default=20.0, help="seconds of the load before the measurement")
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--poll-ms", type=int, default=20, help="Debezium's poll.interval.ms")
    a = p.parse_args(arguments)
    delays = measure(a.rate, a.warm, a.seconds, a.flags, a.poll_ms)
    table = Table("from the commit", "measured", "p50 ms", "p99 ms", "most ms")
    for title, times in (("to its end in Kafka", delays.to_kafka), ("to its event", delays.to_event)):
        figures = [f"{ms:,.0f}" for ms in (times[len(times) // 2], times[len(times) * 99 // 100], times[-1])]
        table.add_row(title, f"{len(times):,}", *figures)
    Console().print(table)

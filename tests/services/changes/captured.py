"""A university's database, captured by Debezium, and what its events must be."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from moneystate.devdebezium import SIGNALS_TABLE, Connector, DevDebezium, await_sent
from moneystate.devpostgres import DevPostgres
from tests.services.changes.clients import Clients, Committed
from tests.services.changes.university import COURSE, ENROLMENT, STUDENT, TABLES, Event, University
from tests.waiting import until

SIGNALS: Final = "public.dbz_signal"
CAPTURED: Final = tuple(f"public.{table}" for table in (STUDENT, COURSE, ENROLMENT, "audit"))
BEFORE: Final = 30  # transactions before the connector's first snapshot
WITHIN_S: Final = 120.0
TOLD: Final = ("type", "table", "student", "course", "from", "to", "link", "before", "after", "changed")


class Captured:
    """Leaving the `with` block ends the worker, but not the servers. `name`: of the database and the connector."""

    def __init__(
        self, servers: str, postgres: DevPostgres, folder: Path, name: str, seed: int, *,
        partitions: int = 3, full: bool = False, copies: bool = True, settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.servers = servers
        self.name = name
        self.dsn = postgres.dsn(name)
        self.worker = DevDebezium(folder, servers, offsets_every_ms=500)
        self.university = University(random.Random(seed), copies)
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in (*TABLES, SIGNALS_TABLE.format(SIGNALS)):
                connection.execute(statement)
            for table in CAPTURED if full else ():
                connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        self.clients = Clients(self.dsn, self.university, random.Random(seed + 1))
        self.connector = Connector(
            name, self.dsn, CAPTURED, signals=SIGNALS, partitions=partitions, settings=settings or {}
        )

    def __enter__(self) -> Self:
        """Its first rows are from before the connector."""
        self.clients.run(BEFORE)
        self.clients.committed.clear()
        self.worker.start()
        self.worker.create(self.connector)
        self._await_offsets()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clients.close()
        self.worker.stop()

    def _await_offsets(self) -> None:
        """A connector that is killed before it has stored offsets begins with a snapshot again. What was committed
        meanwhile is a part of it, and no change."""
        self.run_and_await_stored(5)

    def run_and_await_stored(self, transactions: int) -> None:
        """Until the connector has stored offsets of them. If all are rolled back, others follow."""
        stored = "SELECT confirmed_flush_lsn > %s FROM pg_replication_slots WHERE slot_name = %s"
        before = len(self.committed)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            begin = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
            assert begin is not None
            while not any(one.logged for one in self.committed[before:]):
                self.clients.run(transactions)
            until(
                lambda: connection.execute(stored, [begin[0], self.name]).fetchone() == (True,),
                lambda: "no offsets are stored",
                WITHIN_S,
            )

    @property
    def committed(self) -> list[Committed]:
        return self.clients.committed

    def await_sent(self) -> None:
        """Until all that is committed is in Kafka."""
        await_sent(self.servers, self.name, [one.id for one in self.committed if one.logged], WITHIN_S)


def told(event: Mapping[str, Any]) -> Event:
    """The part of an event that its transaction means."""
    return {name: event[name] for name in TOLD if event.get(name) is not None}


def differences(events: Iterable[Mapping[str, Any]], committed: Sequence[Committed]) -> list[str]:
    """How the events differ from what the transactions meant, in the order of the transactions."""
    came: dict[str, list[str]] = {}
    for event in events:
        came.setdefault(event["transactionId"], []).append(_text(told(event)))
    wanted = {one.id: [_text(event) for event in one.happened] for one in committed if one.happened}
    problems = [
        f"transaction {id}: expected {sorted(wanted.get(id, []))}, found {sorted(came.get(id, []))}"
        for id in {**wanted, **came}
        if sorted(wanted.get(id, [])) != sorted(came.get(id, []))
    ]
    if not problems and list(wanted) != list(came):
        problems.append(f"expected transactions in the order {list(wanted)}, found {list(came)}")
    return problems


def _text(event: Event) -> str:
    return json.dumps(event, sort_keys=True)

"""The events of a real database, captured by a real Debezium that is killed in the middle: what its transactions meant.

Only Debezium itself says what it writes then, and what it sends again. The service runs in memory, in random batches;
`test_live_database.py` runs the job.
"""

from __future__ import annotations

import json
import tomllib
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moneystate.api.rules import read
from moneystate.cli.durations import parse_ms
from moneystate.devbroker import DevBroker
from moneystate.devpostgres import DevPostgres
from moneystate.testing import Bench
from services.changes.config import Config
from services.changes.records import BusinessEvent
from services.changes.service import ChangesService
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord
from tests.services.changes.captured import Captured, differences
from tests.services.changes.university import config_text

APART = 40  # transactions that wait mode can tell apart
SETTLE_MS, WAIT_MS = 100, 200
HOUR_MS = 3_600_000


def capture(captured: Captured, kills: int) -> None:
    """Snapshots of both kinds, a COPY, and kills while transactions are open; Debezium loses rows of a COPY that it is
    killed beside."""
    captured.clients.run(40)
    captured.connector.ask_snapshot("public.student", "public.enrolment")
    captured.clients.run(30)
    captured.await_sent()
    captured.university.copies = False
    for _ in range(kills):
        captured.clients.run(40, end_all=False)
        captured.worker.kill()
        captured.clients.run(20, end_all=False)
        captured.worker.start()
        captured.connector.ask_snapshot("public.course", blocking=True)
    captured.clients.run(30)
    captured.await_sent()
    captured.worker.stop()


def hold(servers: str, postgres: DevPostgres, folder: Path, seed: int, kills: int, full: bool = False) -> None:
    """Asserts that events are what the transactions meant."""
    name = f"uni{uuid.uuid4().hex[:8]}"
    with Captured(servers, postgres, folder, name, seed, full=full) as captured:
        capture(captured, kills)
    changes = ChangesService(config_of(name, full))
    bench = Bench(changes.service, seed=seed)
    send(bench, servers, changes)
    events = [as_json(event) for event in bench.out(changes.events)]
    assert differences(events, captured.committed) == []
    assert {event["certainty"] for event in events} == {"TRANSACTION"}
    assert bench.dead_letters() == []
    assert bench.count("duplicates") > 0
    bench.end()


def test_events_are_what_the_transactions_meant(broker: DevBroker, postgres: DevPostgres, tmp_path: Path) -> None:
    hold(broker.bootstrap_servers, postgres, tmp_path / "worker", 1, kills=1)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "full"), [(2, False), (3, True)])
def test_events_are_the_same_after_many_kills(
    seed: int, full: bool, broker: DevBroker, postgres: DevPostgres, tmp_path: Path
) -> None:
    hold(broker.bootstrap_servers, postgres, tmp_path / "worker", seed, 6, full)


@pytest.mark.long
def test_wait_mode_tells_the_same_of_transactions_that_are_apart(
    broker: DevBroker, postgres: DevPostgres, tmp_path: Path
) -> None:
    """Without metadata of transactions. What is stored before the next one begins is further apart than the waits."""
    name, seed = f"uni{uuid.uuid4().hex[:8]}", 5
    settings = {"provide.transaction.metadata": "false", "heartbeat.interval.ms": "100"}
    with Captured(broker.bootstrap_servers, postgres, tmp_path / "worker", name, seed, settings=settings) as captured:
        captured.committed.clear()
        for _ in range(APART):
            captured.run_and_await_stored(1)
        captured.worker.stop()
    changes = ChangesService(replace(config_of(name, False), transactions=False, settle_ms=SETTLE_MS, wait_ms=WAIT_MS))
    bench = Bench(changes.service, seed=seed)
    send(bench, broker.bootstrap_servers, changes)
    bench.advance(HOUR_MS)
    ids = {one.id for one in captured.committed}
    events = [event for event in map(as_json, bench.out(changes.events)) if event["transactionId"] in ids]
    assert differences(events, captured.committed) == []
    assert {event["certainty"] for event in events} == {"WAIT"}


def config_of(connector: str, full: bool) -> Config:
    return read(Config, tomllib.loads(config_text(connector, full))["changes"], "[changes]", parse_ms)


def send(bench: Bench, servers: str, changes: ChangesService) -> None:
    """All that stands in the topics that the service reads."""
    for record in arrived(servers, sorted({declared.topic for declared in changes.service.inputs})):
        bench.send_raw(
            record.topic, record.value, record.key, headers=dict(record.headers), timestamp_ms=record.timestamp_ms or 0
        )


def arrived(servers: str, topics: list[str]) -> list[LogRecord]:
    """Returns the records by the broker's time."""
    return sorted(read_log(servers, topics)[0], key=lambda record: record.timestamp_ms or 0)


def as_json(event: BusinessEvent) -> dict[str, Any]:
    """As far as a transaction means it."""
    shown = {field: getattr(event, field) for field in ("student", "course", "from_", "to", "link", "before", "after")}
    return {
        "transactionId": event.transaction_id, "certainty": event.certainty, "type": event.type, "table": event.table,
        "changed": event.changed,
        **{field.rstrip("_"): None if row is None else json.loads(row.text) for field, row in shown.items()},
    }  # fmt: skip

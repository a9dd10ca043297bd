"""`moneystate run changes` beside a real database and a real Debezium, all of which run: the connector and the job are
killed by turns, and no lower level has both at once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from moneystate.devpostgres import DevPostgres
from tests.job.harness import JobProcess, moneystate
from tests.reference.kafka_log import read_log
from tests.services.changes.captured import Captured, differences
from tests.services.changes.university import config_text

pytestmark = pytest.mark.long
NAME = "uni"
ROUNDS = 3
WITHIN_S = 120.0
EVENTS, LETTERS = "business-events", "changes-dead-letters"


def arguments(servers: str, folder: Path, *more: str) -> list[str]:
    config = folder / "changes.toml"
    config.write_text(config_text(NAME))
    return [
        *("run", "changes", "--config", str(config), "--bootstrap-servers", servers),
        *("--checkpoint", str(folder / "checkpoint"), "--partitions", "2", "--key-groups", "4"),
        *("--topic-partitions", "1", *more),
    ]


def test_events_are_what_the_transactions_meant_while_all_are_killed(
    own_broker: DevBroker, postgres: DevPostgres, tmp_path: Path
) -> None:
    servers = own_broker.bootstrap_servers
    with Captured(servers, postgres, tmp_path / "worker", NAME, 7, copies=False) as captured:
        for number in range(ROUNDS):
            before = told(servers)
            with JobProcess(arguments(servers, tmp_path), tmp_path) as job:
                captured.clients.run(60, end_all=False)
                captured.worker.kill()
                captured.clients.run(20, end_all=False)
                captured.worker.start()
                captured.connector.ask_snapshot("public.student", "public.course", blocking=number % 2 > 0)
                await_more(servers, job, before)
        captured.clients.run(40)
        captured.await_sent()
    moneystate(arguments(servers, tmp_path, "--until-caught-up", "--drain"), tmp_path)
    events = [json.loads(record.value or b"") for record in read_log(servers, [EVENTS])[0]]
    assert differences(events, captured.committed) == []
    assert {event["certainty"] for event in events} == {"TRANSACTION"}
    assert read_log(servers, [LETTERS])[0] == []


def await_more(servers: str, job: JobProcess, before: int) -> None:
    """Until there are more events than before."""
    job.wait_for(lambda: told(servers) > before, "the next events", WITHIN_S)


def told(servers: str) -> int:
    try:
        return len(read_log(servers, [EVENTS])[0])
    except LookupError:
        return 0

"""A table of a service that is read from the change events of a real Debezium: keys that change, rows that go, and
transactions that empty the table and fill it again, over several partitions."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from moneystate.devbroker import DevBroker
from moneystate.devdebezium import Connector, DevDebezium
from moneystate.devpostgres import DevPostgres
from moneystate.records.iso_time import from_ms
from moneystate.savepoint.format import Savepoint
from tests.job.harness import JobProcess, moneystate
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference.kafka_log import read_log
from tests.waiting import until

LAST: Final = 0  # the row that a round changes last
IDS: Final = range(60)
KILLS: Final = 3
SERVICE: Final = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Price:
    id: int
    cents: int


@dataclass
class Asked:
    number: int
    id: int
    at: ms.Millis


@dataclass
class Priced:
    number: int
    id: int
    cents: int | None


service = ms.Service("captured")
asked = service.input("asked", Asked, key="number", time="at", format="json")
prices = service.table("public.prices", Price, name="prices", format="debezium")
priced = service.output("priced", Priced, key="number", format="json")


@service.on(asked, prices)
def answer(ctx: ms.Context[None], e: Asked, prices: ms.Table[Price]) -> None:
    row = prices.get(e.id)
    ctx.emit(priced, Priced(e.number, e.id, None if row is None else row.cents))
"""
# every partition has a change after the snapshot, which ends its first load
BEGINNING: Final = ["UPDATE prices SET cents = cents + 1"]


class Shop:
    """A database, its connector, and the questions of a service."""

    def __init__(self, servers: str, dsn: str, prefix: str, folder: Path) -> None:
        self.cluster = Cluster(servers, prefix)
        self.dsn = dsn
        self.service = folder / f"captured_{prefix.strip('.')}.py"
        self.checkpoint = folder / "checkpoint"
        self.service.write_text(SERVICE)
        self.folder = folder
        self.numbers = 0
        for topic in ("asked", "priced"):
            self.cluster.create(topic, 2)
        assert moneystate(["schemas", "release", f"{self.service}:service"], folder).code == 0

    def run(self) -> JobProcess:
        flags = ["--bootstrap-servers", self.cluster.bootstrap_servers, "--topic-prefix", self.cluster.prefix]
        flags += ["--checkpoint", str(self.checkpoint), "--key-groups", "4"]
        flags += ["--bound", "1s", "--idle-timeout", "1s", "--local"]
        return JobProcess(["run", f"{self.service}:service", *flags], self.folder)

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self) -> dict[int, int]:
        with psycopg.connect(self.dsn) as connection:
            return {int(id): int(cents) for id, cents in connection.execute("SELECT id, cents FROM prices").fetchall()}

    def ask(self, *ids: int) -> dict[int, int]:
        """The first of the numbers is that of the first id."""
        numbers = range(self.numbers, self.numbers + len(ids))
        self.numbers += len(ids)
        for number, id in zip(numbers, ids, strict=True):
            question = {"number": number, "id": id, "at": from_ms(time.time_ns() // 1_000_000)}
            self.cluster.send(f"{self.cluster.prefix}asked", [json.dumps(question).encode()], number % 2)
        return dict(zip(numbers, ids, strict=True))

    def answers(self) -> dict[int, int | None]:
        """Cents by the number of the question."""
        wait_until_stable(self.cluster.admin, [f"{self.cluster.prefix}priced"])
        records, _ = read_log(self.cluster.bootstrap_servers, ["priced"], self.cluster.prefix)
        answers = [json.loads(record.value or b"") for record in records]
        return {answer["number"]: answer["cents"] for answer in answers}

    def answered(self, job: JobProcess, *ids: int) -> dict[int, int | None]:
        """Cents by id, as of now."""
        asked = self.ask(*ids)
        job.wait_for(lambda: asked.keys() <= self.answers().keys(), "all questions are answered")
        answers = self.answers()
        return {id: answers[number] for number, id in asked.items()}

    def change(self, chance: random.Random, mark: int) -> None:
        """Changes many rows, while questions are asked, and then the last one."""
        for statement in (*BEGINNING, *statements(chance)):
            self.execute(statement)
            self.ask(chance.choice(IDS))
        self.execute(f"INSERT INTO prices VALUES ({LAST}, {mark}) ON CONFLICT (id) DO UPDATE SET cents = {mark}")

    def check(self, job: JobProcess, mark: int) -> None:
        """All rows are those of the database, once the last one has come."""
        job.wait_for(lambda: self.answered(job, LAST)[LAST] == mark, "the last change has come")
        rows = self.rows()
        assert self.answered(job, *IDS) == {id: rows.get(id) for id in IDS}


@pytest.fixture
def shop(broker: DevBroker, postgres: DevPostgres, tmp_path: Path) -> Shop:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    made = Shop(broker.bootstrap_servers, postgres.dsn(name), f"{name}.", tmp_path)
    made.execute(
        "CREATE TABLE prices (id int PRIMARY KEY, cents int NOT NULL)",
        "INSERT INTO prices SELECT n, n FROM generate_series(0, 39) n",
    )
    return made


def connector_of(shop: Shop) -> Connector:
    forever = {"topic.creation.default.retention.ms": "-1"}
    name = shop.cluster.prefix.strip(".")
    return Connector(name, shop.dsn, ["public.prices"], partitions=3, settings=forever)


def statements(chance: random.Random) -> Iterator[str]:
    for n in range(40):
        id = chance.choice(IDS[1:])
        yield chance.choice(
            [
                f"INSERT INTO prices VALUES ({id}, {1000 + n}) ON CONFLICT (id) DO UPDATE SET cents = {2000 + n}",
                f"UPDATE prices SET cents = {3000 + n} WHERE id = {id}",
                f"DELETE FROM prices WHERE id = {id}",
                f"UPDATE prices SET id = {100 + n} WHERE id = {id} AND NOT EXISTS "
                f"(SELECT FROM prices WHERE id = {100 + n})",
                "BEGIN; TRUNCATE prices; INSERT INTO prices "
                f"SELECT n, n + {4000 + n} FROM generate_series({id}, 59, 3) n; COMMIT",
            ]
        )


def test_the_rows_are_those_of_the_database(shop: Shop, debezium: DevDebezium) -> None:
    connector = connector_of(shop)
    debezium.create(connector)
    with shop.run() as job:
        shop.change(random.Random(7), 100_000)
        shop.check(job, 100_000)
        assert job.stop().code == 0
    debezium.delete(connector.name)


@pytest.mark.long
def test_rows_that_a_killed_connector_sends_again_are_seen_alike_in_a_replay(shop: Shop) -> None:
    """Live, where batches end anywhere, each question gets the row that a replay and a bootstrap give it."""
    chance, servers = random.Random(8), shop.cluster.bootstrap_servers
    worker = DevDebezium(shop.folder / "worker", servers, offsets_every_ms=3_000)
    with worker:
        worker.create(connector_of(shop))
        for number in range(KILLS):
            await_stored(shop)
            with shop.run() as job:
                shop.change(chance, mark := 100_000 + number)
                shop.check(job, mark)
                worker.kill()
                job.kill()
            with shop.run() as job:
                worker.start()
                for _ in range(8):
                    shop.answered(job, *IDS)  # while old rows come again
                shop.check(job, mark)
                assert job.stop().code == 0
    flags = ["--service", f"{shop.service}:service", "--bootstrap-servers", servers]
    checkpoint = ["--checkpoint", str(shop.checkpoint)]
    replay = moneystate(["verify-replay", *checkpoint, *flags, "--json", "--quiet"], shop.folder)
    assert replay.totals["agrees"], replay.totals
    savepoint = shop.folder / "savepoint"
    export = ["checkpoint", "export", *checkpoint, "--service", f"{shop.service}:service", "--out", str(savepoint)]
    moneystate([*export, "--key-groups", "7", "--quiet"], shop.folder)
    bootstrap = ["bootstrap", "--from", "kafka", "--out", str(shop.folder / "bootstrapped"), *flags]
    bootstrap += ["--topic-prefix", shop.cluster.prefix, "--bound", "1s", "--like", str(shop.checkpoint)]
    made = moneystate([*bootstrap, "--key-groups", "5", "--partitions", "2", "--json", "--quiet"], shop.folder)
    assert made.totals["fingerprint"] == Savepoint(savepoint).manifest.fingerprint


def await_stored(shop: Shop) -> None:
    """Until the connector has stored its offsets: one that is killed before that begins with a snapshot again."""
    name = shop.cluster.prefix.strip(".")
    stored = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        begin = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert begin is not None
        shop.execute(*BEGINNING)
        until(
            lambda: connection.execute(stored, [begin[0], name]).fetchone() == (True,),
            lambda: "no offsets are stored",
            within_s=60.0,
        )

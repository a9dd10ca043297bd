"""`moneystate apply`: upserts a second, beside the same statements without Kafka; handlers; and how long a record takes
to be a row and a notice.

The database syncs nothing (`fsync=off`), as everything here is on one machine with the broker.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.chunks import Part, Partition
from moneystate.apply.config import MAX_RECORDS, OnError
from moneystate.apply.config_file import read_settings
from moneystate.apply.database import Database
from moneystate.apply.outbox import Stream
from moneystate.apply.records import Read, Record
from moneystate.apply.rows_target import Rows
from moneystate.apply.transactions import Transactions
from moneystate.devbroker import DevBroker
from moneystate.devpostgres import DevPostgres
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import TopicSpec, ensure_topics
from tests.bench.jdbc_sink import sink_rate, with_schema
from tests.processes import kill_with_children
from tests.waiting import until

NOTE: Final = "x" * 110  # with which a value has 200 bytes
ROWS: Final = """
[rows.{name}]
topic = "{name}"
key = "id"
table = ["public", "{name}"]
"""
HANDLER: Final = """
[handler.{name}]
topic = "{name}"
handler = "bench_handlers:{function}"
notifications = "notices"
batch = {batch}
"""
HANDLERS: Final = """
UPSERT = "INSERT INTO handled VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET cents = EXCLUDED.cents"


def one(tx, event):
    row = tx.execute("SELECT cents FROM handled WHERE id = %s", (event.value["id"],)).fetchone()
    tx.execute(UPSERT, (event.value["id"], (row[0] if row else 0) + event.value["cents"]))


def batch(tx, events):
    ids = [event.value["id"] for event in events]
    known = dict(tx.execute("SELECT id, cents FROM handled WHERE id = ANY(%s)", (ids,)).fetchall())
    for event in events:
        known[event.value["id"]] = known.get(event.value["id"], 0) + event.value["cents"]
    tx.executemany(UPSERT, sorted(known.items()))


def notify(tx, event):
    one(tx, event)
    return [({"sent_at": event.value["sent_at"]}, event.key)]
"""
WITHIN_S: Final = 600.0
PACE_S: Final = 0.1  # between two looks at the progress


class Site:
    """Both servers, and a folder for a configuration."""

    def __init__(self, servers: str, database: DevPostgres, folder: Path) -> None:
        self.servers = servers
        self.database = database
        self.folder = folder
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "partitioner": "murmur2_random"})
        self._connection = psycopg.connect(database.dsn(), autocommit=True)
        (folder / "dsn").write_text(database.dsn())
        (folder / "bench_handlers.py").write_text(HANDLERS)
        self.sql("CREATE TABLE handled (id text PRIMARY KEY, cents bigint NOT NULL)")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        done = self._connection.execute(statement)
        return done.fetchall() if done.description else []

    def config(self, name: str, target: str) -> Path:
        file = self.folder / f"{name}.toml"
        file.write_text(
            f'application = "{name}"\nbootstrap-servers = "{self.servers}"\n'
            f'dsn-file = "{self.folder / "dsn"}"\n{target}'
        )
        return file

    def topic(self, name: str, partitions: int) -> None:
        ensure_topics(admin_client(self.servers, {}), [TopicSpec(name, partitions, keep_for_good=True)], create=True)

    def table(self, name: str, time: str = "timestamptz") -> None:
        self.sql(f"CREATE TABLE {name} (id text PRIMARY KEY, cents bigint, at {time}, open boolean, note text)")

    def send(self, topic: str, values: Iterator[dict[str, Any]], encode: Callable[[Any], bytes] | None = None) -> None:
        for value in values:
            while True:
                try:
                    self.producer.produce(topic, (encode or plain)(value), value["id"])
                    break
                except BufferError:
                    self.producer.poll(0.1)
            self.producer.poll(0)
        self.producer.flush()

    @contextmanager
    def applying(self, config: Path) -> Iterator[None]:
        command = [sys.executable, "-m", "moneystate.cli.main", "apply", "--config", str(config), "--create-tables"]
        process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            kill_with_children(process, 30)

    def applied(self, name: str) -> int:
        """Offsets that are applied."""
        try:
            [(count,)] = self.sql(
                f"SELECT coalesce(sum(next_offset), 0) FROM moneystate_positions WHERE application = '{name}'"
            )
        except psycopg.errors.UndefinedTable:
            return 0
        return int(count)


def plain(value: Any) -> bytes:
    return json.dumps(value).encode()


def values(count: int, keys: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        yield {
            "id": f"key-{n * 7919 % keys:09}",
            "cents": n,
            "at": "2026-01-02T03:04:05.678Z",
            "open": True,
            "note": NOTE,
        }


def rate(site: Site, name: str, target: str, count: int) -> float:
    """Records a second, from the first commit on."""
    with site.applying(site.config(name, target)):
        until(lambda: site.applied(name) > 0, lambda: "no commit", WITHIN_S)
        begun, first = time.monotonic(), site.applied(name)
        while (done := site.applied(name)) < count:
            assert time.monotonic() - begun < WITHIN_S, f"{done} of {count}"
            time.sleep(PACE_S)
        return (count - first) / (time.monotonic() - begun)


def jdbc_sink(site: Site, name: str, partitions: int, count: int) -> float:
    site.topic(name, partitions)
    site.table(name, "text")
    site.send(name, values(count, count // 2), with_schema)
    return sink_rate(site.folder, site.servers, site.database, name, site.sql, count)


def without_kafka(site: Site, count: int, keys: int) -> tuple[float, float]:
    """The same statements in the same chunks: from records that have been read already, and with their reading."""
    site.table("bare")
    settings = read_settings(site.config("bare", ROWS.format(name="bare")))
    books = Bookkeeping("public", "bare")
    target = Rows(settings.targets[0], "", "")  # type: ignore[arg-type]
    with Database(settings).connect() as connection:
        for statement in books.ddl():
            connection.execute(statement)
        target.prepare(connection)
        partition = Partition("bare", 0)
        books.insert(connection, "bare", {partition: (0, "id")})
        records = list(_records(count, keys))
        begun = time.monotonic()
        reads = [Read(r, target.read(r)) for r in records]
        reading_s = time.monotonic() - begun
        transactions = Transactions(target, books, "letters", lambda p: Stream("bare", p.topic, "id", 0), OnError.fail)
        begun = time.monotonic()
        for start in range(0, count, MAX_RECORDS):
            transactions.apply(connection, [Part(partition, start, reads[start : start + MAX_RECORDS])])
        applying_s = time.monotonic() - begun
        return count / applying_s, count / (reading_s + applying_s)


def _records(count: int, keys: int) -> Iterator[Record]:
    for n, value in enumerate(values(count, keys)):
        yield Record("bare", 0, n, value["id"].encode(), json.dumps(value).encode())


def delays(site: Site, seconds: int, per_s: int) -> tuple[list[float], list[float]]:
    """From the append to the visible row, and to the visible notice, in ms, sorted."""
    site.topic("paced", 4)
    site.topic("notices", 1)
    config = site.config("paced", HANDLER.format(name="paced", function="notify", batch="false"))
    reader = Consumer(
        {
            "bootstrap.servers": site.servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    reader.assign([TopicPartition("notices", 0, OFFSET_END)])
    notices: list[float] = []
    with site.applying(config):
        until(lambda: site.sql("SELECT to_regclass('moneystate_positions')") != [(None,)], lambda: "no start", WITHIN_S)
        site.send("paced", iter([{"id": "first", "cents": 1, "sent_at": time.time()}]))
        until(lambda: bool(reader.consume(1, 0.1)), lambda: "no notice", WITHIN_S)  # the relay has begun
        begun = time.monotonic()
        sent = 0
        while (passed := time.monotonic() - begun) < seconds + 2:
            while sent < min(passed, seconds) * per_s:
                id = f"paced-{sent}"
                site.producer.produce("paced", json.dumps({"id": id, "cents": 1, "sent_at": time.time()}), id)
                sent += 1
            site.producer.poll(0)
            messages = [m for m in reader.consume(1_000, 0.002) if m.error() is None]
            notices += [(time.time() - json.loads(m.value() or b"")["sent_at"]) * 1000 for m in messages]
    reader.close()
    rows = site.sql(
        "SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM handled WHERE id LIKE 'paced-%'"
    )
    times = {f"paced-{n}": sent_s for n, sent_s in enumerate(_sent_times(site, sent))}
    return sorted((committed - times[id]) * 1000 for id, committed in rows), sorted(notices)


def _sent_times(site: Site, count: int) -> list[float]:
    """When each record was sent, as its value says."""
    consumer = Consumer({"bootstrap.servers": site.servers, "group.id": "bench"})
    consumer.assign([TopicPartition("paced", p, 0) for p in range(4)])
    sent: dict[int, float] = {}
    try:
        while len(sent) < count:
            for message in consumer.consume(1_000, 0.5):
                if message.error() is None:
                    value = json.loads(message.value() or b"")
                    if value["id"] != "first":
                        sent[int(value["id"].removeprefix("paced-"))] = value["sent_at"]
    finally:
        consumer.close()
    return [sent[n] for n in range(count)]


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rows", type=int, default=200_000)
    p.add_argument("--keys", type=int, default=100_000)
    p.add_argument("--events", type=int, default=30_000, help="for handlers")
    p.add_argument("--seconds", type=int, default=10, help="of paced records")
    p.add_argument("--rate", type=int, default=200, help="of paced records, a second")
    p.add_argument("--connect", action="store_true", help="beside Debezium's JDBC sink in Kafka Connect")
    a = p.parse_args(arguments)
    table = Table("what", "result")
    with (
        tempfile.TemporaryDirectory(prefix="bench-apply-") as folder,
        DevBroker(Path(folder) / "kafka", heap="512m") as broker,
        DevPostgres(settings={"track_commit_timestamp": "on"}) as database,
    ):
        site = Site(broker.bootstrap_servers, database, Path(folder))
        bare, with_reading = without_kafka(site, a.rows, a.keys)
        table.add_row(
            "the statements without Kafka", f"{bare:,.0f}/s; with the reading of records {with_reading:,.0f}/s"
        )
        for partitions in (1, 32):
            name = f"rows{partitions}"
            site.topic(name, partitions)
            site.table(name)
            site.send(name, values(a.rows, a.keys))
            got = rate(site, name, ROWS.format(name=name), a.rows)
            table.add_row(
                f"upserts, {partitions} partitions", f"{got:,.0f}/s: {got / bare:.2f} and {got / with_reading:.2f}"
            )
            if a.connect:
                theirs = jdbc_sink(site, f"sink{partitions}", partitions, a.rows)
                table.add_row(f"JDBC sink, {partitions} partitions", f"{theirs:,.0f}/s: apply is {got / theirs:.1f}x")
        for function, batch in (("one", "false"), ("batch", "true")):
            name = f"handled_{function}"
            site.topic(name, 4)
            site.send(name, values(a.events, a.keys))
            got = rate(site, name, HANDLER.format(name=name, function=function, batch=batch), a.events)
            table.add_row(f"handler, {function}", f"{got:,.0f}/s")
        rows, notices = delays(site, a.seconds, a.rate)
        for title, times in (("row", rows), ("notice", notices)):
            p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            table.add_row(f"append to visible {title}, {len(times)}", f"p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    Console().print(table)

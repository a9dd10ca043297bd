"""`moneystate demo apply`: movements of accounts become balances, large ones become notices, and a kill in the middle
changes nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, Producer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moneystate.api.reject import Reject
from moneystate.apply.database import Tx
from moneystate.apply.handling import Event, Notification
from moneystate.devbroker.broker import DevBroker
from moneystate.devbroker.demo import ending_in_order, environment
from moneystate.devpostgres import DevPostgres
from moneystate.errors import BrokerError, JobError
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.log import text_of

COUNT: Final = 3_000
ACCOUNTS: Final = 50
LARGE: Final = 900
KILL_AFTER: Final = 700  # rows that the first process may change
WITHIN_S: Final = 120.0
LETTERS: Final = "demo-apply-dead-letters"
SEE: Final = "run the demo again."
TABLE: Final = "CREATE TABLE balances (account text PRIMARY KEY, amount bigint NOT NULL, movements bigint NOT NULL)"
CONFIG: Final = """
[handler.movements]
topic = "movements"
handler = "moneystate.apply.demo:move"
notifications = "large-changes"
"""


def move(tx: Tx, event: Event) -> list[Notification]:
    """Reads the row, computes, updates the row, and notifies if the change is large."""
    account, change = event.value["account"], event.value["change"]
    row = tx.execute("SELECT amount, movements FROM balances WHERE account = %s", (account,)).fetchone()
    amount, movements = row or (0, 0)
    if amount + change < 0:
        raise Reject("overdrawn")
    tx.execute(
        "INSERT INTO balances VALUES (%s, %s, %s) "
        "ON CONFLICT (account) DO UPDATE SET amount = EXCLUDED.amount, movements = EXCLUDED.movements",
        (account, amount + change, movements + 1),
    )
    if abs(change) < LARGE:
        return []
    return [Notification({"account": account, "change": change, "movements": movements + 1}, account)]


@dataclass
class Wanted:
    """Holds what must be true at the end, by the movements alone."""

    balances: dict[str, tuple[int, int]] = field(default_factory=dict)
    notices: Counter[tuple[str, int]] = field(default_factory=Counter)  # account and number of its movement
    refused: int = 0

    def add(self, account: str, change: int) -> None:
        amount, movements = self.balances.get(account, (0, 0))
        if amount + change < 0:
            self.refused += 1
            return
        self.balances[account] = amount + change, movements + 1
        if abs(change) >= LARGE:
            self.notices[account, movements + 1] += 1


class Watched:
    """Holds what others see: the rows, and each notice when it comes."""

    def __init__(self, servers: str, dsn: str) -> None:
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "log_level": "0"}
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "demo-reader", **settings})
        self._consumer.subscribe(["large-changes", LETTERS])
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.notices: Counter[tuple[str, int]] = Counter()
        self.early = 0  # notices that were there before their rows
        self.letters = 0

    def look(self, timeout_s: float) -> None:
        for message in self._consumer.consume(500, timeout_s):
            if message.error() is not None:
                continue
            if message.topic() == LETTERS:
                self.letters += 1
                continue
            notice = json.loads(message.value() or b"")
            self.notices[notice["account"], notice["movements"]] += 1
            row = self.sql("SELECT movements FROM balances WHERE account = %s", notice["account"])
            self.early += not row or row[0][0] < notice["movements"]

    def balances(self) -> dict[str, tuple[int, int]]:
        return {a: (amount, n) for a, amount, n in self.sql("SELECT account, amount, movements FROM balances")}

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def close(self) -> None:
        self._consumer.close()
        self._connection.close()


def demo() -> bool:
    """Returns whether all promises were kept. It cleans up both servers and the processes."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    out.print(f"[bold]{COUNT:,} movements[/] of {ACCOUNTS} accounts, through Kafka and PostgreSQL, configured as:")
    out.print(Text(CONFIG.strip() + "\n", "dim"))
    with ending_in_order(), tempfile.TemporaryDirectory(prefix="moneystate-demo-") as folder:
        err.print("starting Kafka and PostgreSQL, on free ports ...")
        broker = DevBroker(Path(folder) / "kafka", heap="256m", progress=lambda text: err.print(Text(text)))
        with broker, DevPostgres(progress=lambda text: err.print(Text(text))) as database:
            return _play(out, err, Path(folder), broker.bootstrap_servers, database.dsn())


def _play(out: Console, err: Console, folder: Path, servers: str, dsn: str) -> bool:
    _prepare(folder, servers, dsn)
    wanted = _send(servers)
    watched = Watched(servers, dsn)
    try:
        with _applying(folder) as first:
            err.print("moneystate apply: until it is killed ...")
            _wait(watched, first, folder, lambda: sum(n for _, n in watched.balances().values()) >= KILL_AFTER)
            first.kill()
        before = sum(n for _, n in watched.balances().values())
        err.print(
            f"killed after {before:,} of {sum(n for _, n in wanted.balances.values()):,} movements; and again ..."
        )
        with _applying(folder) as second:
            _wait(
                watched, second, folder,
                lambda: watched.letters + watched.notices.total() >= wanted.refused + wanted.notices.total()
                and watched.balances() == wanted.balances,
            )  # fmt: skip
            watched.look(1.0)  # nothing more may come
        return _show(out, wanted, watched)
    finally:
        watched.close()


def _prepare(folder: Path, servers: str, dsn: str) -> None:
    topics = [TopicSpec(name, 4, keep_for_good=True) for name in ("movements", "large-changes")]
    ensure_topics(admin_client(servers, {}), [*topics, TopicSpec(LETTERS, 1, keep_for_good=True)], create=True)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE)
    (folder / "dsn").write_text(dsn)
    (folder / "demo.toml").write_text(
        f'application = "demo"\nbootstrap-servers = "{servers}"\ndsn-file = "{folder / "dsn"}"\n{CONFIG}'
    )


def _send(servers: str) -> Wanted:
    chance, wanted = random.Random(1), Wanted()
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "partitioner": "murmur2_random"})
    for _ in range(COUNT):
        account, change = f"account-{chance.randrange(ACCOUNTS)}", chance.randrange(-700, 1_000)
        producer.produce("movements", json.dumps({"account": account, "change": change}), account)
        wanted.add(account, change)
    if producer.flush(WITHIN_S):
        raise BrokerError("expected to send the demo's records, but the broker did not take them.", SEE)
    return wanted


@contextmanager
def _applying(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "moneystate.cli.main", "apply", "--config", "demo.toml", "--create-tables"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment(folder),
            start_new_session=True,  # Ctrl-C in the terminal only reaches the demo
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait(watched: Watched, process: subprocess.Popen[bytes], folder: Path, holds: Any) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = [line for line in (folder / "log").read_text(errors="replace").splitlines() if line.strip()]
            last = text_of(lines[-1]) if lines else "nothing"
            raise JobError(f"moneystate apply: expected to take all movements, found {last}", SEE)
        watched.look(0.05)


def _show(out: Console, wanted: Wanted, watched: Watched) -> bool:
    promises = [
        ("Each balance is the sum of its movements, each counted once",
         watched.balances() == wanted.balances, f"{len(watched.balances())} accounts"),
        ("Each large change is notified, once",
         watched.notices == wanted.notices, f"{watched.notices.total()} notices"),
        ("No notice is visible before its row", watched.early == 0, f"{watched.early} early"),
        ("A movement that would overdraw its account is a dead letter, without effects",
         watched.letters == wanted.refused, f"{watched.letters} dead letters"),
    ]  # fmt: skip
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Promise", "Came out", ""):
        table.add_column(title)
    for told, held, came in promises:
        table.add_row(told, came, Text("held", "bold green") if held else Text("BROKEN", "bold white on red"))
    out.print(table)
    held = all(one[1] for one in promises)
    out.print(f"{len(promises)} promises held." if held else "[bold white on red]A promise was broken.[/]")
    return held

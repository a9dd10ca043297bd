"""`moneystate demo tables`: orders meet the rows of a file that is edited while they come, and of a database."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, Producer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moneystate.devbroker.broker import DevBroker
from moneystate.devbroker.demo import ending_in_order, environment, kill_with_children
from moneystate.devpostgres import DevPostgres
from moneystate.errors import BrokerError, JobError
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.log import text_of
from moneystate.tables.demo import service

WITHIN_S: Final = 120.0
SEE: Final = "run the demo again."
QUERY: Final = "SELECT customer, percent, version FROM discounts"
TABLE: Final = "CREATE TABLE discounts (customer text PRIMARY KEY, percent integer NOT NULL, version integer NOT NULL)"
COMMANDS: Final = {
    "prices": ["table", "load", "prices.csv", "--topic", "prices", "--key", "sku", "--types", "cents=int,version=int",
               "--watch"],
    "discounts": ["table", "load", "--sql", QUERY, "--dsn-file", "dsn", "--topic", "discounts", "--key", "customer",
                  "--every", "1s"],
}  # fmt: skip

Rows = Mapping[str, Mapping[str, Any]]  # of a table, by key


@dataclass(frozen=True)
class Scene:
    """Holds what was done, and the orders that came then, with what is promised of them."""

    title: str
    promised: tuple[service.Priced, ...]
    came: tuple[service.Priced, ...]


class Stage:
    """The topics, the file and the database of the story."""

    def __init__(self, servers: str, folder: Path, dsn: str, check: Callable[[], object]) -> None:
        self._folder = folder
        self._dsn = dsn
        self._check = check  # raises JobError for a process that has ended
        self._producer = Producer(
            {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0, "enable.idempotence": True}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers, "group.id": "demo", "isolation.level": "read_committed", "log_level": 0,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,  # the commands create the topics
            }
        )  # fmt: skip
        self._consumer.subscribe(["prices", "discounts", "priced"])
        self._rows: dict[str, dict[str, Any]] = {"prices": {}, "discounts": {}}
        self._priced: dict[str, service.Priced] = {}

    def write_prices(self, **cents: tuple[int, int]) -> None:
        """A new version of the file takes the name of the old one: nobody ever sees half of it."""
        lines = ["sku,cents,version", *[f"{sku},{price},{version}" for sku, (price, version) in cents.items()]]
        new = self._folder / "new"
        new.write_text("\n".join(lines) + "\n")
        new.rename(self._folder / "prices.csv")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn)

    def until(self, table: str, rows: Mapping[str, int]) -> None:
        """Waits until a load is committed. `rows`: version by key."""
        self._until(lambda: {key: row["version"] for key, row in self._rows[table].items()} == rows, f"the {table}")

    def order(self, *orders: service.Order) -> tuple[service.Priced, ...]:
        """Sends orders, and waits for what comes of them."""
        for one in orders:
            self._producer.produce("orders", json.dumps(vars(one)), one.order)
        if self._producer.flush(WITHIN_S):
            raise BrokerError("expected to send an order, but the broker did not take it.", SEE)
        self._until(lambda: all(one.order in self._priced for one in orders), "priced orders")
        return tuple(self._priced[one.order] for one in orders)

    def close(self) -> None:
        self._consumer.close()

    def _until(self, holds: Callable[[], bool], wanted: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            self._check()
            if time.monotonic() > deadline:
                raise JobError(f"demo tables: expected {wanted} within {WITHIN_S:.0f} s.", SEE)
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    self._take(message)

    def _take(self, message: Any) -> None:
        topic, key = message.topic(), message.key()
        value: Any = None if message.value() is None else json.loads(message.value())
        if topic == "priced":
            names = ("order", "cents", "priceVersion", "percent", "discountVersion")
            self._priced[value["order"]] = service.Priced(*[value[name] for name in names])
        elif key is not None and value is None:
            self._rows[topic].pop(key.decode(), None)
        elif key is not None:
            self._rows[topic][key.decode()] = value


def scenes(stage: Stage) -> Iterator[Scene]:
    """Each order is sent after the load that it is to meet."""
    Order, Priced = service.Order, service.Priced
    stage.write_prices(tea=(300, 1), coffee=(500, 1))
    with stage.connect() as first:
        first.execute(TABLE)
        first.execute("INSERT INTO discounts VALUES ('ann', 10, 1), ('bob', 0, 1)")
    stage.until("prices", {"tea": 1, "coffee": 1})
    stage.until("discounts", {"ann": 1, "bob": 1})
    yield Scene(
        "A file and a table of the database are loaded",
        (Priced("1", 270, 1, 10, 1), Priced("2", 500, 1, 0, 1)),
        stage.order(Order("1", "tea", "ann"), Order("2", "coffee", "bob")),
    )
    stage.write_prices(coffee=(550, 2))
    stage.until("prices", {"coffee": 2})
    yield Scene(
        "The file is edited: coffee costs 550, tea is gone",
        (Priced("3", 550, 2, 0, 1), Priced("4", None, None, 10, 1)),
        stage.order(Order("3", "coffee", "bob"), Order("4", "tea", "ann")),
    )
    with stage.connect() as late:
        late.execute("UPDATE discounts SET percent = 20, version = 2 WHERE customer = 'ann'")
        with stage.connect() as early:
            early.execute("UPDATE discounts SET percent = 50, version = 2 WHERE customer = 'bob'")
        stage.until("discounts", {"ann": 1, "bob": 2})
        yield Scene(
            "Two transactions overlap: bob's is committed, ann's began before it and is not",
            (Priced("5", 495, 2, 10, 1), Priced("6", 275, 2, 50, 2)),
            stage.order(Order("5", "coffee", "ann"), Order("6", "coffee", "bob")),
        )
    stage.until("discounts", {"ann": 2, "bob": 2})
    yield Scene(
        "Ann's is committed late: no load loses it",
        (Priced("7", 440, 2, 20, 2),),
        stage.order(Order("7", "coffee", "ann")),
    )
    with stage.connect() as last:
        last.execute("DELETE FROM discounts WHERE customer = 'bob'")
    stage.until("discounts", {"ann": 2})
    yield Scene(
        "Bob's row is deleted",
        (Priced("8", 550, 2, None, None),),
        stage.order(Order("8", "coffee", "bob")),
    )


def demo() -> bool:
    """Returns whether each order met the versions that it should. It cleans up both servers and the processes."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    out.print("[bold]Orders[/] meet the prices of a file and the discounts of a database, which are loaded by")
    for command in COMMANDS.values():
        out.print(Text("moneystate " + " ".join(f'"{word}"' if " " in word else word for word in command), "dim"))
    with ending_in_order(), tempfile.TemporaryDirectory(prefix="moneystate-demo-") as folder:
        err.print("starting Kafka and PostgreSQL, on free ports ...")
        broker = DevBroker(Path(folder) / "kafka", heap="256m", progress=lambda text: err.print(Text(text)))
        with broker, DevPostgres(progress=lambda text: err.print(Text(text))) as database:
            return _play(out, err, Path(folder), broker.bootstrap_servers, database.dsn())


def _play(out: Console, err: Console, folder: Path, servers: str, dsn: str) -> bool:
    spec = TopicSpec("orders", 1, keep_for_good=True, broker_time=True)
    ensure_topics(admin_client(servers, {}), [spec], create=True)
    (folder / "dsn").write_text(dsn)
    err.print("moneystate table load, twice, and moneystate run: until the last order is priced ...")
    with ExitStack() as processes:
        running = [
            processes.enter_context(_running(folder, name, words, servers)) for name, words in _commands(folder).items()
        ]
        stage = Stage(servers, folder, dsn, lambda: _check(running, folder))
        processes.callback(stage.close)
        return _show(out, list(scenes(stage)))


def _commands(folder: Path) -> dict[str, list[str]]:
    """The processes, by name."""
    loads = {
        name: [*words, "--create-topic", "--topic-partitions", "1", "--digests", str(folder / f"digests-{name}")]
        for name, words in COMMANDS.items()
    }
    run = ["run", f"{service.__name__}:pricing", "--checkpoint", str(folder / "checkpoint"), "--partitions", "2"]
    return {**loads, "run": [*run, "--topic-partitions", "1", "--key-groups", "4", "--quiet"]}


@contextmanager
def _running(
    folder: Path, name: str, words: Sequence[str], servers: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "moneystate.cli.main", *words, "--bootstrap-servers", servers]
    with (folder / f"log-{name}").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment(folder),
            start_new_session=True,  # Ctrl-C in the terminal only reaches the demo
        )  # fmt: skip
    try:
        yield name, process
    finally:
        kill_with_children(process)


def _check(running: Sequence[tuple[str, subprocess.Popen[bytes]]], folder: Path) -> None:
    """Raises JobError for a process that has ended."""
    for name, process in running:
        if process.poll() is not None:
            lines = [line for line in (folder / f"log-{name}").read_text(errors="replace").splitlines() if line.strip()]
            last = text_of(lines[-1]) if lines else "nothing"
            raise JobError(f"{name}: expected to work until the end of the demo, found {last}", SEE)


def _show(out: Console, shown: Sequence[Scene]) -> bool:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Order", "Cents", "Price", "Discount", "Promise"):
        table.add_column(title, justify="right" if title == "Cents" else "left")
    held = True
    for scene in shown:
        table.add_row(Text(scene.title, "bold"))
        for came, promised in zip(scene.came, scene.promised, strict=True):
            held = held and came == promised
            verdict = Text("held", "bold green") if came == promised else Text(f"BROKEN: {promised}", "bold red")
            table.add_row(
                came.order, _number(came.cents), _version(came.price_version),
                _version(came.discount_version, came.percent), verdict,
            )  # fmt: skip
        table.add_section()
    out.print(table)
    orders = sum(len(scene.came) for scene in shown)
    out.print(f"{orders} orders held." if held else "[bold white on red]A promise was broken.[/]")
    return held


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _version(version: int | None, percent: int | None = None) -> str:
    if version is None:
        return "none"
    return f"version {version}" if percent is None else f"{percent} %, version {version}"

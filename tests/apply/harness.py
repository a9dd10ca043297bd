"""A database, topics, and `moneystate apply` between them: in this process, or as one that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from moneystate.apply.config_file import read_settings
from moneystate.apply.process import Process
from moneystate.apply.worker import Choices
from moneystate.devpostgres import DevPostgres
from moneystate.errors import MoneystateError
from moneystate.kafka.client import admin_client, headers_of
from moneystate.kafka.offsets import log_ends, topic_states
from moneystate.kafka.topics import TopicSpec, ensure_topics
from tests.processes import kill_with_children
from tests.waiting import until

WITHIN_S = 60.0
ROOT = Path(__file__).resolve().parents[2]


class Published(NamedTuple):
    """A record of an output topic."""

    key: str | None
    value: Any  # parsed JSON
    headers: dict[str, bytes | None]


class Stop:
    """A signal that a test gives to a `Process`."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._event.wait(timeout_s)


class Site:
    """The surroundings of one test. Topics have its name as their prefix."""

    def __init__(self, bootstrap_servers: str, postgres: DevPostgres, name: str, folder: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.postgres = postgres
        self.name = name
        self.folder = folder
        self.prefix = f"{name}-"
        self.admin = admin_client(bootstrap_servers, {})
        self.producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "partitioner": "murmur2_random"}
        )
        self._here: Process | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"')
        (self.folder / "dsn").write_text(self.dsn)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            kill_with_children(process, WITHIN_S)
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')

    @property
    def dsn(self) -> str:
        return self.postgres.dsn(self.name)

    def topic(self, name: str, partitions: int = 1, **config: Any) -> str:
        ensure_topics(self.admin, [TopicSpec(self.prefix + name, partitions, **config)], create=True)
        return self.prefix + name

    def config(self, targets: str, top: str = "") -> Path:
        """The configuration file of an application."""
        file = self.folder / "apply.toml"
        file.write_text(
            f'application = "{self.name}"\nbootstrap-servers = "{self.bootstrap_servers}"\n'
            f'topic-prefix = "{self.prefix}"\ndsn-file = "{self.folder / "dsn"}"\n{top}\n{targets}\n'
        )
        return file

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            done = connection.execute(statement, parameters or None)
            return done.fetchall() if done.description else []

    def send(self, topic: str, records: Sequence[tuple[Any, Any]], partition: int = -1) -> None:
        """Keys and values; a value that is not bytes or None is written as JSON."""
        for key, value in records:
            text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            while True:
                try:
                    self.producer.produce(self.prefix + topic, text, key, partition)
                    break
                except BufferError:
                    self.producer.poll(0.1)
            self.producer.poll(0)
        assert self.producer.flush(WITHIN_S) == 0

    def published(self, topic: str) -> list[Published]:
        """All committed records of an output topic."""
        full = self.prefix + topic
        partitions = [(full, p) for p in topic_states(self.admin, [full])[full].partitions]
        ends = {p: end for (_, p), end in log_ends(self.admin, partitions).items()}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed",
                "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
            }
        )  # fmt: skip
        records: list[Published] = []
        try:
            consumer.assign([TopicPartition(full, p, 0) for p in ends])
            done: set[int] = set()
            while len(done) < len(ends):
                for message in consumer.consume(1_000, 0.5):
                    partition = message.partition()
                    assert partition is not None
                    if message.error() is not None:
                        done.add(partition)
                        continue
                    key, value = message.key(), message.value()
                    records.append(
                        Published(
                            None if key is None else key.decode(),
                            _parsed(value),
                            dict(headers_of(message)),
                        )
                    )
        finally:
            consumer.close()
        return records

    @contextmanager
    def running(self, config: Path, choices: Choices | None = None, create_tables: bool = True) -> Iterator[Process]:
        """The targets in threads of this process."""
        process = Process(read_settings(config), choices or Choices())
        process.ensure_topics()
        assert process.check(create_tables)
        self._here = process
        stop, failed = Stop(), []

        def run() -> None:
            try:
                process.run(stop)
            except Exception as e:
                failed.append(e)

        thread = threading.Thread(target=run, name="process")
        thread.start()
        try:
            yield process
        finally:
            stop.set()
            thread.join(WITHIN_S)
        if failed:
            raise failed[0]

    def error_of(
        self, config: Path, doing: Callable[[Process], object] = lambda _: None, create_tables: bool = True
    ) -> MoneystateError:
        """The error with which a process ends."""
        try:
            with self.running(config, create_tables=create_tables) as process:
                doing(process)
        except MoneystateError as e:
            return e
        raise AssertionError("expected an error, found none")

    def start(self, config: Path, *flags: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """`moneystate apply` as a process of its own."""
        log = (self.folder / f"log{len(self._processes)}").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "moneystate.cli.main", "apply", "--config", str(config), *flags],
            stdout=log, stderr=log, cwd=self.folder, env=self.environ(**(environ or {})),
        )  # fmt: skip
        log.close()
        self._processes.append(process)
        return process

    def environ(self, **more: str) -> dict[str, str]:
        """Variables for a process of its own."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.folder)]), **more}

    def log(self) -> str:
        here = [] if self._here is None else [f"{w.target.name}: {w.error} {w.counts}" for w in self._here.workers]
        logs = [file.read_text(errors="replace")[-3000:] for file in sorted(self.folder.glob("log*"))]
        return "\n".join([*here, *logs])

    def until(self, holds: Any, expected: str, within_s: float = WITHIN_S) -> Any:
        return until(holds, lambda: f"{expected}\n{self.log()}", within_s)


def _parsed(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except ValueError:
        return value
